//! What tag objects lead to, read in-process from the repository and the quarantine of an import. Where something cannot
//! be read it is unknown, and git, which may see more, is left to find out.

use std::path::Path;

use gix::objs::{Find, FindHeader, Kind, TagRefIter};
use gix::odb::Handle;
use parler_protocol::Oid;

use crate::repository::{Repository, from_gix, kind_of, to_gix};

/// No tag is read that is larger.
const LARGEST_TAG: u64 = 1 << 20; // 1 MiB

/// Where objects are looked for.
pub(super) struct Peeler {
    stores: Vec<Handle>,
}

impl Peeler {
    /// Looks into the quarantine first, where there is one.
    pub(super) fn open(repository: &Repository, quarantine: Option<&Path>) -> Self {
        let hash = kind_of(repository.object_format());
        let own = repository.objects_dir();
        let open = |directory: &Path| gix::odb::at(directory.to_owned(), hash).ok();
        Self {
            stores: quarantine.into_iter().chain([own.as_path()]).filter_map(open).collect(),
        }
    }

    /// What a tag object leads to, in the end; no id for an object that is no tag. None where that is unknown.
    pub(super) fn peeled(&self, oid: &Oid) -> Option<Option<Oid>> {
        let mut id = to_gix(oid);
        let is_tag = loop {
            let (store, header) = self
                .stores
                .iter()
                .find_map(|store| Some((store, store.try_header(&id).ok()??)))?;
            if header.kind != Kind::Tag {
                break from_gix(&id) != *oid;
            }
            if header.size > LARGEST_TAG {
                return None;
            }
            let mut content = Vec::new();
            let tag = store.try_find(&id, &mut content).ok()??;
            id = TagRefIter::from_bytes(tag.data, id.kind()).target_id().ok()?;
        };
        Some(is_tag.then(|| from_gix(&id)))
    }
}
