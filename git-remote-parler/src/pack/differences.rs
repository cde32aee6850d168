//! Makes the delta by which one object becomes another: what the base has is copied, the rest is inserted. It takes any
//! bytes and never fails; a delta that is longer than it may be is none. `delta.rs` applies it, and so does git.

/// What is looked for is found by pieces of the base of this size.
const BLOCK_BYTES: usize = 16;
/// Shorter beginnings and ends that both have are not worth a copy of their own.
const WORTH_BYTES: usize = 8;
/// How many places in the base are compared for one in the target: behind what was copied last, and before it.
const MOST_BEHIND: usize = 12;
const MOST_BEFORE: usize = 4;
/// Where this much is alike, no better place is looked for.
const ENOUGH_BYTES: usize = 4096;
/// The most that one instruction copies: git reads three bytes of size, and has always written two.
const MOST_COPIED: usize = 0x10000;
/// The most that one instruction inserts.
const MOST_INSERTED: usize = 0x7f;

/// The delta from `base` to `target`, unless it is longer than `most` bytes.
pub(super) fn delta_of(base: &[u8], target: &[u8], most: usize) -> Option<Vec<u8>> {
    // Four bytes say where a copy begins.
    u32::try_from(base.len()).ok()?;
    let worth = |bytes: usize| if bytes >= WORTH_BYTES { bytes } else { 0 };
    let before = worth(same_beginning(base, target));
    let behind = worth(same_end(&base[before..], &target[before..]));
    let mut delta = Instructions::new(base.len(), target.len());
    delta.copy(0, before);

    // Between what both begin with and what both end with.
    let middle = &target[..target.len() - behind];
    let mut inserted = before;
    let mut at = before;
    let index = (middle.len() - at >= BLOCK_BYTES).then(|| Index::of(base));
    let mut cursor = before;
    while let Some(index) = index.as_ref().filter(|_| at + BLOCK_BYTES <= middle.len()) {
        let Some(found) = index.longest(base, cursor, &middle[inserted..], at - inserted) else {
            at += 1;
            continue;
        };
        delta.insert(&middle[inserted..at - found.earlier]);
        delta.copy(found.from, found.bytes);
        at = at - found.earlier + found.bytes;
        inserted = at;
        cursor = found.from + found.bytes;
        if delta.bytes.len() > most {
            return None;
        }
    }
    delta.insert(&middle[inserted..]);
    delta.copy(base.len() - behind, behind);
    Some(delta.finish()).filter(|delta| delta.len() <= most)
}

/// How many bytes two pieces have in common from the beginning.
fn same_beginning(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP));
    let alike = STEP * steps.take_while(|(one, other)| one == other).count();
    let rest = one[alike..].iter().zip(&other[alike..]);
    alike + rest.take_while(|(one, other)| one == other).count()
}

/// How many bytes two pieces have in common up to the end.
fn same_end(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.iter().rev().zip(other.iter().rev());
    pairs.take_while(|(one, other)| one == other).count()
}

fn block_at(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_BYTES]> {
    bytes.get(at..)?.first_chunk()
}

/// Where blocks of a base are, by their hash.
struct Index {
    /// By hash, how many blocks there are of it and of all smaller ones.
    ends: Vec<u32>,
    /// Where blocks begin, by their hash and then in their order. Of blocks in a row that are all alike there is the first.
    places: Vec<u32>,
}

/// A piece of the base that the target has, too.
struct Found {
    from: usize,
    bytes: usize,
    /// How much of it lies before the place that was asked about.
    earlier: usize,
}

impl Index {
    fn of(base: &[u8]) -> Self {
        let (blocks, _) = base.as_chunks::<BLOCK_BYTES>();
        let mut ends = vec![0_u32; blocks.len().next_power_of_two()];
        let is_other = |number: usize| number == 0 || blocks[number - 1] != blocks[number];
        let slots: Vec<(usize, usize)> = (0..blocks.len())
            .filter(|number| is_other(*number))
            .map(|number| (slot(&blocks[number], ends.len()), number * BLOCK_BYTES))
            .collect();
        for (slot, _) in &slots {
            ends[*slot] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        // From behind, so that those of a hash end where it does, and are in their order.
        let mut places = vec![0; slots.len()];
        let mut next = ends.clone();
        for (slot, place) in slots.iter().rev() {
            next[*slot] -= 1;
            places[next[*slot] as usize] = *place as u32;
        }
        Self { ends, places }
    }

    /// The places of blocks with the hash of this one.
    fn places(&self, block: &[u8; BLOCK_BYTES]) -> &[u32] {
        let slot = slot(block, self.ends.len());
        let begin = slot.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.places[begin as usize..self.ends[slot] as usize]
    }

    /// The longest piece of the base around the block that stands at `at` in this part of the target. Looked for from
    /// `cursor` on, where the target has come to: in a text that repeats itself most pieces are alike.
    fn longest(&self, base: &[u8], cursor: usize, target: &[u8], at: usize) -> Option<Found> {
        let places = self.places(block_at(target, at)?);
        let (before, behind) = places.split_at(places.partition_point(|place| (*place as usize) < cursor));
        let mut longest: Option<Found> = None;
        for place in behind
            .iter()
            .take(MOST_BEHIND)
            .chain(before.iter().rev().take(MOST_BEFORE))
        {
            let from = *place as usize;
            let alike = same_beginning(&base[from..], &target[at..]);
            if alike < BLOCK_BYTES {
                continue;
            }
            let earlier = same_end(&base[..from], &target[..at]);
            let bytes = earlier + alike;
            if longest.as_ref().is_none_or(|longest| bytes > longest.bytes) {
                let from = from - earlier;
                longest = Some(Found { from, bytes, earlier });
            }
            if bytes >= ENOUGH_BYTES {
                break;
            }
        }
        longest
    }
}

/// The hash of a block, for a table of so many places, a power of two.
fn slot(block: &[u8; BLOCK_BYTES], slots: usize) -> usize {
    let hash = u128::from_le_bytes(*block).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    // The uppermost bits depend on all the others. A table of one place takes none of them.
    hash.checked_shr(128 - slots.trailing_zeros()).unwrap_or(0) as usize
}

/// A delta that grows.
struct Instructions {
    bytes: Vec<u8>,
    /// A copy that may become longer: where it begins, and its length.
    copy: (usize, usize),
}

impl Instructions {
    fn new(base_bytes: usize, result_bytes: usize) -> Self {
        let mut bytes = Vec::new();
        for mut size in [base_bytes, result_bytes] {
            while size > 0x7f {
                bytes.push(size as u8 | 0x80);
                size >>= 7;
            }
            bytes.push(size as u8);
        }
        Self { bytes, copy: (0, 0) }
    }

    fn copy(&mut self, from: usize, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.copy.0 + self.copy.1 != from {
            self.end_copy();
            self.copy.0 = from;
        }
        self.copy.1 += bytes;
    }

    fn insert(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        self.end_copy();
        for piece in piece.chunks(MOST_INSERTED) {
            self.bytes.push(piece.len() as u8);
            self.bytes.extend_from_slice(piece);
        }
    }

    fn end_copy(&mut self) {
        let (mut from, mut left) = std::mem::take(&mut self.copy);
        while left > 0 {
            let bytes = left.min(MOST_COPIED);
            let instruction = self.bytes.len();
            self.bytes.push(0x80);
            // Where it begins in four bytes, its size in two. What is zero is left out, and so is the whole of the largest size.
            let size = if bytes == MOST_COPIED { 0 } else { bytes };
            let numbers = [(from, 0..4), (size, 4..6)];
            for (number, bits) in numbers {
                for (place, bit) in bits.enumerate() {
                    let byte = (number >> (8 * place)) as u8;
                    if byte != 0 {
                        self.bytes.push(byte);
                        self.bytes[instruction] |= 1 << bit;
                    }
                }
            }
            from += bytes;
            left -= bytes;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.end_copy();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::delta::Delta;
    use super::super::entries::Budget;
    use super::*;

    fn applied(delta: &[u8], base: &[u8]) -> Vec<u8> {
        let delta = Delta::parse(delta).unwrap();
        delta.apply(base, &mut Budget::of(1 << 30)).unwrap()
    }

    /// The length of the delta, which makes one of the other.
    #[track_caller]
    fn length(base: &[u8], target: &[u8]) -> usize {
        let delta = delta_of(base, target, usize::MAX).unwrap();
        assert!(applied(&delta, base) == target);
        assert_eq!(delta_of(base, target, delta.len()), Some(delta.clone()));
        assert_eq!(delta_of(base, target, delta.len() - 1), None);
        delta.len()
    }

    /// Bytes that are nowhere alike.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let step = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(step).take(bytes).collect()
    }

    fn text(lines: usize) -> Vec<String> {
        (0..lines)
            .map(|number| format!("{number} is the number of this line\n"))
            .collect()
    }

    #[test]
    fn a_small_change_is_a_small_delta() {
        let lines = text(4000);
        let base = lines.concat();
        assert!(base.len() > 100 << 10);
        let changed = |at: usize| {
            let mut lines = lines.clone();
            lines[at] = "something else\n".to_owned();
            lines.concat()
        };
        for at in [0, 1, 2000, 3999] {
            assert!(length(base.as_bytes(), changed(at).as_bytes()) < 100);
        }
        let mut two = lines.clone();
        two[500] = "one\n".to_owned();
        two.insert(3000, "two\n".to_owned());
        assert!(length(base.as_bytes(), two.concat().as_bytes()) < 100);
        // In a text that repeats itself less.
        let unlike = |number: usize| format!("{} is the number of line {number}\n", (number + 17) * 1_299_709 * 7_919);
        let lines: Vec<String> = (0..4000).map(unlike).collect();
        let base = lines.concat();
        let moved = [&lines[2000..], &lines[..2000]].concat().concat();
        assert!(length(base.as_bytes(), moved.as_bytes()) < 100);
        let half = lines[..2000].concat();
        assert!(length(half.as_bytes(), base.as_bytes()) < base.len() * 2 / 3);
        assert!(length(base.as_bytes(), half.as_bytes()) < 20);
    }

    #[test]
    fn the_ends_of_both_may_overlap_in_one_of_them() {
        for (base, target) in [
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaa"),
            ("aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            ("0123456789", "01234567890123456789"),
            ("01234567890123456789", "0123456789"),
            ("", "0123456789"),
            ("0123456789", ""),
            ("", ""),
        ] {
            length(base.as_bytes(), target.as_bytes());
        }
    }

    #[test]
    fn copies_are_cut_where_a_size_ends() {
        let base = noise(0x30001);
        for bytes in [0xff, 0x100, 0xffff, 0x10000, 0x10001, 0x1ffff, 0x20000, 0x20001] {
            let pieces = bytes / MOST_COPIED + 1;
            assert!(length(&base, &base[..bytes]) <= 6 + 8 * pieces, "{bytes:x}");
            assert!(
                length(&base, &base[0x1000..0x1000 + bytes]) <= 6 + 8 * pieces,
                "{bytes:x}"
            );
        }
        // One instruction, whose size is not written.
        assert_eq!(length(&base, &base[..0x10000]), 3 + 3 + 1);
    }

    #[test]
    fn what_lies_far_behind_is_copied_from_there() {
        let base = noise(0x0102_0000);
        for from in [0x00ff_fff0, 0x00ff_ffff, 0x0100_0000, 0x0100_0001, 0x0101_0203] {
            let target = [&base[from..from + 600], b"something else"].concat();
            assert!(length(&base, &target) < 100, "{from:x}");
        }
    }

    #[test]
    fn what_repeats_itself_takes_no_long_time() {
        let period = noise(48);
        let base = period.repeat(20_000);
        let mut target = base.clone();
        for at in (0..target.len()).step_by(5000) {
            target[at] ^= 1;
        }
        assert!(length(&base, &target) < 8000);
        assert!(length(&vec![0; 1 << 20], &vec![0; 1 << 19]) < 60);
    }

    /// Bytes with much that repeats itself, and another that is made of it.
    fn related() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let few = || prop::collection::vec(0..4_u8, 0..60);
        let piece = prop_oneof![
            few().prop_map(|inserted| (inserted, 0, 0)),
            (0..1000_usize, 0..400_usize).prop_map(|(from, bytes)| (Vec::new(), from, bytes)),
        ];
        let base = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..1000),
            prop::collection::vec(few(), 0..30).prop_map(|pieces| pieces.concat()),
        ];
        (base, prop::collection::vec(piece, 0..12)).prop_map(|(base, pieces)| {
            let mut target = Vec::new();
            for (inserted, from, bytes) in pieces {
                target.extend(inserted);
                target.extend(base.iter().skip(from).take(bytes));
            }
            (base, target)
        })
    }

    proptest! {
        #[test]
        fn a_delta_makes_the_target((base, target) in related()) {
            length(&base, &target);
        }

        #[test]
        fn a_delta_makes_what_has_nothing_to_do_with_its_base(
            base in prop::collection::vec(any::<u8>(), 0..300),
            target in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let most = target.len() + target.len() / MOST_INSERTED + 10;
            prop_assert!(length(&base, &target) <= most);
        }
    }
}
