//! What a push posts: the bundle's part of the message, and its bytes, counted by a meter on their way.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use parler_client::BlobSource;
use parler_protocol::{BUNDLE_MEDIA_TYPE, BundleId, BundlePart, BundleRef};

use super::plan::BundlePlan;
use crate::meter::Meter;
use crate::pack::BuiltBundle;
use crate::spool::{Spool, SpoolReader};

/// A bundle's bytes with a meter that shows how many have been taken.
pub(super) struct MeteredSpool {
    spool: Spool,
    meter: Arc<Mutex<Meter>>,
}

impl MeteredSpool {
    pub(super) fn new(spool: &Spool, meter: Meter) -> Self {
        Self {
            spool: spool.clone(),
            meter: Arc::new(Mutex::new(meter)),
        }
    }

    /// The hub has all of it.
    pub(super) fn arrived(&self) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        meter.done(self.spool.size());
    }
}

impl BlobSource for MeteredSpool {
    fn size(&self) -> u64 {
        self.spool.size()
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        self.open_at(0)
    }

    fn open_at(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(MeteredReader {
            reader: self.spool.reader_at(offset),
            read: offset,
            meter: Arc::clone(&self.meter),
        }))
    }

    fn id(&self) -> Option<BundleId> {
        Some(self.spool.id())
    }
}

struct MeteredReader {
    reader: SpoolReader,
    read: u64,
    meter: Arc<Mutex<Meter>>,
}

impl Read for MeteredReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.read += read as u64;
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        meter.moved(self.read, self.read);
        Ok(read)
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
