//! Packs as git makes them pass however they are cut; what lies about itself or grows too much does not.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use gix::odb::pack::data::entry::Header;
use proptest::prelude::*;

use super::*;

const HASH: Kind = Kind::Sha1;
const LIMITS: ScanLimits = ScanLimits {
    object_bytes: 1500,
    held_bytes: 1000,
    all_bytes: 5000,
    objects: 5000,
};
const NOTHING: Sizes<'static> = &|_| None;

/// A pack whose entries are written one after the other. Its checksum is zeros: nobody here compares it.
struct Pack {
    bytes: Vec<u8>,
    last: u64,
}

impl Pack {
    fn of(objects: u32) -> Self {
        let bytes = [&b"PACK\0\0\0\x02"[..], &objects.to_be_bytes()].concat();
        Self { bytes, last: 0 }
    }

    fn with(mut self, header: Header, size: u64, content: &[u8]) -> Self {
        self.last = self.bytes.len() as u64;
        header.write_to(size, &mut self.bytes).unwrap();
        let mut encoder = ZlibEncoder::new(&mut self.bytes, Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap();
        self
    }

    fn blob(self, content: &[u8]) -> Self {
        self.with(Header::Blob, content.len() as u64, content)
    }

    /// A delta on the entry before, from this size to that one. Its instructions are never read.
    fn delta(self, from: u64, to: u64) -> Self {
        let base_distance = self.bytes.len() as u64 - self.last;
        let content = [sized(from), sized(to), vec![b'x'; 3]].concat();
        self.with(Header::OfsDelta { base_distance }, content.len() as u64, &content)
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.extend([0; 20]);
        self.bytes
    }
}

fn sized(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push((number & 127) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// The verdict, which is the same however the bytes are cut.
fn scan(pack: &[u8], sizes: Sizes<'_>) -> Result<u64, PackFlaw> {
    let whole = PackScan::whole(pack, HASH, LIMITS, sizes);
    for piece in [1, 2, 7] {
        let mut cut = PackScan::new(HASH, pack.len() as u64, LIMITS, sizes);
        let fed = pack.chunks(piece).try_for_each(|piece| cut.feed(piece));
        assert_eq!(fed.and_then(|()| cut.finish()), whole, "in pieces of {piece}");
    }
    whole
}

#[test]
fn packs_that_are_what_they_say_pass() {
    let one = Pack::of(3).blob(b"").blob(&[b'x'; 900]).delta(900, 1000).end();
    assert_eq!(scan(&one, NOTHING), Ok(1000));
    assert_eq!(scan(&Pack::of(0).end(), NOTHING), Ok(0));
}

#[test]
fn what_does_not_add_up_is_refused() {
    let good = Pack::of(2).blob(b"hello").blob(b"world").end();
    for length in 0..good.len() {
        let flaw = scan(&good[..length], NOTHING).unwrap_err();
        // So short it cannot hold as many entries.
        assert!(
            matches!(flaw, PackFlaw::Cut | PackFlaw::Count { .. }),
            "{length}: {flaw}"
        );
    }
    assert_eq!(
        scan(&[&good[..], b"\nok refs/heads/x\n"].concat(), NOTHING),
        Err(PackFlaw::Trailing)
    );
    for wrong in [4, 6, 0] {
        let pack = Pack::of(1).with(Header::Blob, wrong, b"hello").end();
        assert_eq!(scan(&pack, NOTHING), Err(PackFlaw::Inflate), "{wrong}");
    }
    let many = Pack::of(u32::MAX).blob(b"hello").end();
    assert!(matches!(
        scan(&many, NOTHING),
        Err(PackFlaw::Count { objects: u32::MAX, .. })
    ));
    assert_eq!(
        scan(&[b"PACK\0\0\0\x03", &good[8..]].concat(), NOTHING),
        Err(PackFlaw::NotAPack)
    );
    for kind in [0x00, 0x50] {
        let mut bytes = good.clone();
        bytes[12] = bytes[12] & 0x8f | kind;
        assert_eq!(scan(&bytes, NOTHING), Err(PackFlaw::Entry));
    }
    // A size of more bits than there are.
    let head = [&b"PACK\0\0\0\x02\0\0\0\x01"[..], &[0xbf], &[0xff; 9], &[0x7f], &[0; 40]].concat();
    assert_eq!(scan(&head, NOTHING), Err(PackFlaw::Entry));
}

#[test]
fn deltas_build_on_entries_before_them() {
    for base_distance in [1, 12, 1 << 40] {
        let pack = Pack::of(2)
            .blob(b"hello")
            .with(Header::OfsDelta { base_distance }, 3, &[5, 5, 1]);
        assert_eq!(
            scan(&pack.end(), NOTHING),
            Err(PackFlaw::UnknownBase),
            "{base_distance}"
        );
    }
    let no_delta = Pack::of(2).blob(b"hello");
    let base_distance = no_delta.bytes.len() as u64 - no_delta.last;
    let no_delta = no_delta.with(Header::OfsDelta { base_distance }, 1, &[0x80]).end();
    assert_eq!(scan(&no_delta, NOTHING), Err(PackFlaw::Delta));

    let chain = |depth: u32| {
        (0..depth)
            .fold(Pack::of(depth + 1).blob(b""), |pack, _| pack.delta(0, 0))
            .end()
    };
    let deepest = u32::try_from(MAX_DELTA_DEPTH).unwrap();
    assert_eq!(PackScan::whole(&chain(deepest), HASH, LIMITS, NOTHING), Ok(0));
    assert_eq!(
        PackScan::whole(&chain(deepest + 1), HASH, LIMITS, NOTHING),
        Err(PackFlaw::TooDeep)
    );
}

#[test]
fn very_many_objects_are_refused_when_they_are_announced() {
    let announced = |objects| {
        let mut scan = PackScan::new(HASH, 1 << 20, LIMITS, NOTHING);
        scan.feed(&Pack::of(objects).bytes)
    };
    assert_eq!(announced(5000), Ok(()));
    let (objects, most) = (5001, 5000);
    assert_eq!(announced(objects), Err(PackFlaw::Many { objects, most }));
}

#[test]
fn few_bytes_do_not_become_very_many() {
    let refused = |pack: Pack, sizes| match scan(&pack.end(), sizes) {
        Err(PackFlaw::Expands { bytes, most, .. }) => (bytes, most),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Pack::of(1).blob(&[0; 1501]), NOTHING), (1501, 1500));
    // What is announced is enough.
    for (header, most) in [
        (Header::Blob, 1500),
        (Header::Tree, 1000),
        (Header::Commit, 1000),
        (Header::Tag, 1000),
    ] {
        assert_eq!(
            refused(Pack::of(1).with(header, 1 << 60, b""), NOTHING),
            (1 << 60, most)
        );
        let size = u32::try_from(most).unwrap();
        let largest = Pack::of(1).with(header, most, &vec![0; size as usize]).end();
        assert_eq!(scan(&largest, NOTHING), Ok(most));
    }
    // What a delta builds on is held as well, and so is the delta.
    assert_eq!(
        refused(Pack::of(2).blob(&[0; 1100]).delta(1100, 1), NOTHING),
        (1100, 1000)
    );
    let base_distance = 1; // nobody looks
    let long = Pack::of(2)
        .blob(b"")
        .with(Header::OfsDelta { base_distance }, 1001, &[0; 1001]);
    assert_eq!(refused(long, NOTHING), (1001, 1000));
    assert_eq!(
        refused(Pack::of(2).blob(&[0; 999]).delta(999, 1001), NOTHING),
        (1001, 1000)
    );
    let six = (0..5).fold(Pack::of(6).blob(&[0; 900]), |pack, _| pack.delta(900, 900));
    assert_eq!(refused(six, NOTHING), (5400, 5000));

    // A large object that is here may be changed, and is no start for a larger one.
    let base_id = ObjectId::from_bytes_or_panic(&[7; 20]);
    let here: Sizes<'_> = &|id| (id == base_id).then_some(1200);
    let on_it = |to: u64| {
        let content = [sized(1200), sized(to)].concat();
        Pack::of(2).with(Header::RefDelta { base_id }, content.len() as u64, &content)
    };
    assert_eq!(scan(&on_it(1300).delta(1300, 2400).end(), here), Ok(2400));
    assert_eq!(refused(on_it(2401).delta(1, 1), here), (2401, 2400));
    assert_eq!(refused(on_it(2400).delta(2400, 2401), here), (2401, 2400));
    assert_eq!(refused(on_it(1300).delta(1, 1), NOTHING), (1300, 1000));
}

proptest! {
    #[test]
    fn damaged_packs_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), piece in 1..40_usize) {
        let mut pack = Pack::of(4).blob(b"hello").delta(5, 9).delta(9, 20).blob(&[0; 300]).end();
        let at = at.index(pack.len());
        pack[at] = byte;
        let mut scan = PackScan::new(HASH, pack.len() as u64, LIMITS, NOTHING);
        let fed = pack.chunks(piece).try_for_each(|piece| scan.feed(piece)).and_then(|()| scan.finish());
        prop_assert_eq!(fed, PackScan::whole(&pack, HASH, LIMITS, NOTHING));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), objects in 0..9_u32) {
        let pack = [&b"PACK\0\0\0\x02"[..], &objects.to_be_bytes(), &bytes].concat();
        let _ = PackScan::whole(&pack, HASH, LIMITS, NOTHING);
    }
}
