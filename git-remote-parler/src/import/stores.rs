//! The objects that bundles may build on, asked in-process: the repository's own, and those that this import has brought
//! before. Where it cannot look where git looks, an object counts as unknown, and git is asked.

use std::env::split_paths;
use std::io;
use std::sync::Arc;

use gix::hash::{Kind, oid};
use gix::objs::{Exists, Find, FindHeader};
use gix::odb::Handle;
use parler_protocol::Oid;

use crate::pack::entries::{Budget, PackFlaw};
use crate::pack::resolve::Object;
use crate::quarantine::Quarantine;
use crate::repository::{Repository, kind_of};

/// Object databases, read when they are first asked.
pub(super) struct Stores {
    hash: Kind,
    /// The repository's, with its alternates, and those that git was told to look into besides.
    own: Vec<Handle>,
    /// What has come so far; none while that is nothing. Opened anew after each child that wrote into it.
    quarantine: Option<Handle>,
}

impl Stores {
    /// Those of a repository, and of a quarantine into which something has come.
    pub(super) fn open(repository: &Repository, quarantine: &Quarantine) -> io::Result<Self> {
        let mut stores = Self::of(repository);
        stores.quarantine_has_changed(quarantine)?;
        Ok(stores)
    }

    /// Those of a repository alone.
    pub(super) fn of(repository: &Repository) -> Self {
        let hash = kind_of(repository.object_format());
        let mut directories = vec![repository.objects_dir()];
        if let Some(more) = repository.git().environment().get("GIT_ALTERNATE_OBJECT_DIRECTORIES") {
            // Names that git quotes are not read here, relative ones are relative to who knows what.
            directories.extend(split_paths(more).filter(|path| path.is_absolute()));
        }
        let open = |directory| gix::odb::at(directory, hash).ok();
        Self {
            hash,
            own: directories.into_iter().filter_map(open).collect(),
            quarantine: None,
        }
    }

    /// To be called after objects have been put into the quarantine.
    pub(super) fn quarantine_has_changed(&mut self, quarantine: &Quarantine) -> io::Result<()> {
        self.quarantine = Some(gix::odb::at(quarantine.path(), self.hash)?);
        Ok(())
    }

    /// The hash that names the objects.
    pub(super) fn hash(&self) -> Kind {
        self.hash
    }

    /// Whether the object has come with this import, as far as it has been taken in.
    pub(super) fn has_come(&self, id: &Oid) -> bool {
        let exists = |id: gix::ObjectId| self.quarantine.as_ref().is_some_and(|store| store.exists(&id));
        self.gix_id(id).is_some_and(exists)
    }

    /// Whether the repository is known to have had the object before.
    pub(super) fn is_here(&self, id: &Oid) -> bool {
        self.gix_id(id)
            .is_some_and(|id| self.own.iter().any(|store| store.exists(&id)))
    }

    /// How large an object is that is here, or has come.
    pub(super) fn size_of(&self, id: &oid) -> Option<u64> {
        let mut stores = self.quarantine.iter().chain(&self.own);
        stores.find_map(|store| store.try_header(id).ok().flatten().map(|header| header.size))
    }

    /// Whether git looks into the same directories. It follows alternates of alternates in its own way, and not for long.
    pub(super) fn see_what_git_sees(&self) -> bool {
        let alternates = |store: &Handle| store.store_ref().alternate_db_paths();
        self.own.iter().all(|store| {
            alternates(store).is_ok_and(|paths| paths.iter().all(|path| !path.join("info/alternates").exists()))
        })
    }

    /// Whether the object has come, or can be read where it was: git does not write again what is here, however damaged that
    /// is. Of a file git too asks only whether it is there.
    pub(super) fn holds(&self, id: &oid) -> bool {
        let is_whole = |store: &Handle| match store.try_header(id) {
            Ok(Some(header)) if header.kind == gix::objs::Kind::Blob => true,
            Ok(Some(_)) => matches!(store.try_find(id, &mut Vec::new()), Ok(Some(_))),
            _ => false,
        };
        self.quarantine.as_ref().is_some_and(|store| store.exists(id)) || self.own.iter().any(is_whole)
    }

    /// Whether a file's content of this name is here, or has come.
    pub(super) fn is_blob(&self, id: &oid) -> bool {
        let kind = |store: &Handle| store.try_header(id).ok().flatten().map(|header| header.kind);
        let mut stores = self.quarantine.iter().chain(&self.own);
        stores.find_map(kind) == Some(gix::objs::Kind::Blob)
    }

    /// The object, if it is found and there is room for it.
    pub(super) fn find(&self, id: &oid, budget: &mut Budget) -> Result<Option<Arc<Object>>, PackFlaw> {
        for store in self.quarantine.iter().chain(&self.own) {
            // Its size first: one that is too large must not be read. What cannot be read is for git to complain of.
            let Ok(Some(header)) = store.try_header(id) else {
                continue;
            };
            budget.take(header.size)?;
            let mut content = Vec::new();
            let Ok(Some(found)) = store.try_find(id, &mut content) else {
                continue;
            };
            let (kind, length) = (found.kind, found.data.len());
            content.truncate(length);
            return Ok(Some(Arc::new(Object {
                id: id.to_owned(),
                kind,
                content,
            })));
        }
        Ok(None)
    }

    fn gix_id(&self, id: &Oid) -> Option<gix::ObjectId> {
        // Anybody can name ids of the other hash; the library must not even be asked for them.
        gix::ObjectId::try_from(id.as_bytes())
            .ok()
            .filter(|id| id.kind() == self.hash)
    }
}
