//! Which objects a pack makes, found out without git: entries inflated, deltas applied, contents hashed. Nothing is
//! checked of what the objects say; that is git's business.

use std::collections::HashMap;
use std::sync::Arc;

use gix::ObjectId;
use gix::hash::{Kind, oid};
use gix::odb::pack::data::entry::Header;

use super::delta::Delta;
use super::entries::{Budget, PackEntries, PackEntry, PackFlaw};

/// An object, in memory.
#[derive(Debug)]
pub(crate) struct Object {
    /// The hash of kind and content.
    pub(crate) id: ObjectId,
    /// Commit, tree, blob or tag.
    pub(crate) kind: gix::objs::Kind,
    /// What it says.
    pub(crate) content: Vec<u8>,
}

/// An entry and the object that it makes.
#[derive(Debug)]
pub(crate) struct ResolvedEntry<'p> {
    /// Whether it is a delta, and on which object.
    pub(crate) base: Option<ObjectId>,
    /// The size that its header announces.
    pub(crate) inflated_bytes: u64,
    /// What follows its header.
    pub(crate) compressed: &'p [u8],
    /// The object.
    pub(crate) object: Arc<Object>,
}

/// Where a delta finds its base when that is not in its own pack. None where it is not known, or no room for it.
pub(crate) type Bases<'a> = &'a mut dyn FnMut(&oid, &mut Budget) -> Result<Option<Arc<Object>>, PackFlaw>;

/// All entries of a pack, in order. A delta whose base stands behind it counts as one whose base is not known: no pack
/// that git makes for sending has one.
pub(crate) fn resolve<'p>(
    pack: &'p [u8],
    hash: Kind,
    bases: Bases<'_>,
    budget: &mut Budget,
) -> Result<Vec<ResolvedEntry<'p>>, PackFlaw> {
    let mut entries = PackEntries::of(pack, hash)?;
    // In their order, so that one is found by its place.
    let mut places: Vec<(u64, Arc<Object>)> = Vec::new();
    let mut own: HashMap<ObjectId, Arc<Object>> = HashMap::new();
    let mut resolved = Vec::new();
    while let Some(entry) = entries.next(budget)? {
        let base = match entry.header {
            Header::OfsDelta { base_distance } => {
                let at = entry.at.checked_sub(base_distance).ok_or(PackFlaw::UnknownBase)?;
                let found = places.binary_search_by_key(&at, |(place, _)| *place);
                Some(Arc::clone(&places[found.map_err(|_| PackFlaw::UnknownBase)?].1))
            }
            Header::RefDelta { base_id } => match own.get(&base_id) {
                Some(base) => Some(Arc::clone(base)),
                None => Some(bases(&base_id, budget)?.ok_or(PackFlaw::UnknownBase)?),
            },
            _ => None,
        };
        let PackEntry {
            at,
            header,
            compressed,
            inflated,
        } = entry;
        let inflated_bytes = inflated.len() as u64;
        let (kind, content) = match (&base, header.as_kind()) {
            (Some(base), _) => (base.kind, Delta::parse(&inflated)?.apply(&base.content, budget)?),
            (None, Some(kind)) => (kind, inflated),
            (None, None) => return Err(PackFlaw::Entry),
        };
        let id = gix::objs::compute_hash(hash, kind, &content).map_err(|_| PackFlaw::Collision)?;
        let object = Arc::new(Object { id, kind, content });
        places.push((at, Arc::clone(&object)));
        own.entry(id).or_insert_with(|| Arc::clone(&object));
        resolved.push(ResolvedEntry {
            base: base.map(|base| base.id),
            inflated_bytes,
            compressed,
            object,
        });
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;
    use crate::pack::entries::checksum_of;

    const ROOM: u64 = 1 << 16;
    /// 10 bytes become the 3 from the third on.
    const MIDDLE: &[u8] = &[10, 3, 0x91, 2, 3];
    /// 3 bytes become themselves and one more.
    const LONGER: &[u8] = &[3, 4, 0x90, 3, 1, b'!'];

    struct Pack {
        bytes: Vec<u8>,
        places: Vec<u64>,
    }

    impl Pack {
        fn of(entries: &[(Header, &[u8])], hash: Kind) -> Self {
            let mut bytes = b"PACK\0\0\0\x02".to_vec();
            bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
            let mut places = Vec::new();
            for (header, content) in entries {
                let at = bytes.len() as u64;
                // Given as the number of the base: its distance is known here only.
                let header = match header {
                    Header::OfsDelta { base_distance } => Header::OfsDelta {
                        base_distance: at - places[usize::try_from(*base_distance).unwrap()],
                    },
                    header => *header,
                };
                places.push(at);
                header.write_to(content.len() as u64, &mut bytes).unwrap();
                let mut encoder = ZlibEncoder::new(&mut bytes, Compression::default());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap();
            }
            let mut pack = Self { bytes, places };
            pack.seal(hash);
            pack
        }

        fn seal(&mut self, hash: Kind) {
            let checksum = checksum_of(&self.bytes, hash).unwrap();
            self.bytes.extend(checksum.as_slice());
        }
    }

    fn blob(content: &[u8], hash: Kind) -> Arc<Object> {
        let kind = gix::objs::Kind::Blob;
        Arc::new(Object {
            id: gix::objs::compute_hash(hash, kind, content).unwrap(),
            kind,
            content: content.to_vec(),
        })
    }

    fn nothing(_: &oid, _: &mut Budget) -> Result<Option<Arc<Object>>, PackFlaw> {
        Ok(None)
    }

    #[test]
    fn deltas_find_their_bases_before_them_and_outside() {
        for hash in [Kind::Sha1, Kind::Sha256] {
            let (digits, middle, longer) = (blob(b"0123456789", hash), blob(b"234", hash), blob(b"234!", hash));
            let by_name = |object: &Object| Header::RefDelta { base_id: object.id };
            let by_place = |number| Header::OfsDelta { base_distance: number };
            let pack = Pack::of(
                &[
                    (Header::Blob, &digits.content),
                    (by_place(0), MIDDLE),
                    (by_name(&middle), LONGER),
                ],
                hash,
            );
            let mut budget = Budget::of(ROOM);
            let resolved = resolve(&pack.bytes, hash, &mut nothing, &mut budget).unwrap();
            let found: Vec<_> = resolved.iter().map(|entry| (entry.object.id, entry.base)).collect();
            let expected = [
                (digits.id, None),
                (middle.id, Some(digits.id)),
                (longer.id, Some(middle.id)),
            ];
            assert_eq!(found, expected);
            let used = digits.content.len() + MIDDLE.len() + 3 + LONGER.len() + 4;
            assert_eq!(budget, Budget::of(ROOM - used as u64));

            let thin = Pack::of(&[(by_name(&middle), LONGER)], hash);
            let mut outside = |id: &oid, _: &mut Budget| Ok((id == middle.id).then(|| Arc::clone(&middle)));
            let resolved = resolve(&thin.bytes, hash, &mut outside, &mut Budget::of(ROOM)).unwrap();
            assert_eq!(resolved[0].object.id, longer.id);
            let unknown = resolve(&thin.bytes, hash, &mut nothing, &mut Budget::of(ROOM));
            assert_eq!(unknown.unwrap_err(), PackFlaw::UnknownBase);
            let behind = Pack::of(&[(by_name(&middle), LONGER), (Header::Blob, b"234")], hash);
            let unknown = resolve(&behind.bytes, hash, &mut nothing, &mut Budget::of(ROOM));
            assert_eq!(unknown.unwrap_err(), PackFlaw::UnknownBase);
        }
    }

    #[test]
    fn a_few_bytes_do_not_become_many() {
        let hash = Kind::Sha1;
        // Each of the deltas copies its 64 KiB base 1,000 times.
        let zeros = vec![0; 0x10000];
        let mut bomb = vec![0x80, 0x80, 0x04, 0x80, 0x80, 0xa0, 0x1f];
        bomb.extend([0x80; 1000]);
        let entries: Vec<(Header, &[u8])> = std::iter::once((Header::Blob, zeros.as_slice()))
            .chain((0..1000).map(|_| (Header::OfsDelta { base_distance: 0 }, bomb.as_slice())))
            .collect();
        let pack = Pack::of(&entries, hash);
        assert!(pack.bytes.len() < 100_000, "{}", pack.bytes.len());
        let mut budget = Budget::of(32 << 20);
        let refused = resolve(&pack.bytes, hash, &mut nothing, &mut budget);
        assert_eq!(refused.unwrap_err(), PackFlaw::TooLarge);
    }

    proptest! {
        #[test]
        fn damaged_packs_are_told_and_nothing_breaks(at in 0..200_usize, bits in 1..=255_u8) {
            let hash = Kind::Sha1;
            let middle = blob(b"234", hash);
            let mut pack = Pack::of(
                &[
                    (Header::Blob, b"0123456789"),
                    (Header::OfsDelta { base_distance: 0 }, MIDDLE),
                    (Header::RefDelta { base_id: middle.id }, LONGER),
                ],
                hash,
            );
            let end = pack.bytes.len() - hash.len_in_bytes();
            let at = at % end;
            pack.bytes.truncate(end);
            pack.bytes[at] ^= bits;
            pack.seal(hash);
            let mut budget = Budget::of(ROOM);
            // A header may be written in several ways, so that some damage does none.
            if let Ok(resolved) = resolve(&pack.bytes, hash, &mut nothing, &mut budget) {
                prop_assert_eq!(resolved.len(), pack.places.len());
                prop_assert_eq!(resolved[2].object.content.len(), 4);
            }
        }
    }
}
