//! What a push posts: the bundle's part of the message, and its bytes.

use std::io::{self, Read};

use parler_client::BlobSource;
use parler_protocol::{BUNDLE_MEDIA_TYPE, BundleId, BundlePart, BundleRef};

use super::plan::BundlePlan;
use crate::pack::BuiltBundle;
use crate::spool::Spool;

impl BlobSource for Spool {
    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.reader()))
    }

    fn open_at(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.reader_at(offset)))
    }

    fn id(&self) -> Option<BundleId> {
        Some(Self::id(self))
    }
}

/// A bundle and what is told about it.
pub(super) struct Packed {
    pub(super) built: BuiltBundle,
    pub(super) part: BundlePart,
}

impl Packed {
    pub(super) fn new(built: BuiltBundle, plan: &BundlePlan, summary: Option<String>) -> Self {
        let refs: Vec<BundleRef> = plan
            .header
            .refs
            .iter()
            .map(|tip| BundleRef {
                name: tip
                    .name
                    .as_str()
                    .parse()
                    .expect("the header's names were made from the room's"),
                oid: tip.oid,
            })
            .collect();
        let part = BundlePart {
            blob: built.spool.id(),
            vcs: "git".to_owned(),
            size: built.spool.size(),
            media_type: Some(BUNDLE_MEDIA_TYPE.to_owned()),
            tip: refs.first().map(|first| first.oid.to_string()),
            base: plan.base.as_ref().map(|base| base.label.clone()),
            summary,
            refs,
            prerequisites: plan.header.prerequisites.clone(),
            object_format: Some(plan.header.object_format),
            commits: Some(plan.commits),
            objects: Some(u64::from(built.objects)),
            needs: plan.needs.clone(),
            base_hint: plan.base.as_ref().and_then(|base| base.hint.clone()),
        };
        Self { built, part }
    }
}
