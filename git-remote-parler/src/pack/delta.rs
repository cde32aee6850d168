//! A delta: how to make an object of another one. Applied within bounds, because it comes from outside.

use super::entries::{Budget, PackFlaw};

/// The size of a copy whose size is not written.
const COPY_BYTES: usize = 0x10000;

/// A delta whose sizes have been read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Delta<'d> {
    base_bytes: u64,
    result_bytes: u64,
    instructions: &'d [u8],
}

impl<'d> Delta<'d> {
    /// Reads the sizes that a delta begins with.
    pub(crate) fn parse(delta: &'d [u8]) -> Result<Self, PackFlaw> {
        let (base_bytes, rest) = read_size(delta)?;
        let (result_bytes, instructions) = read_size(rest)?;
        Ok(Self {
            base_bytes,
            result_bytes,
            instructions,
        })
    }

    /// The object that comes of this base.
    pub(crate) fn apply(&self, base: &[u8], budget: &mut Budget) -> Result<Vec<u8>, PackFlaw> {
        if self.base_bytes != base.len() as u64 {
            return Err(PackFlaw::Delta);
        }
        let size = budget.take(self.result_bytes)?;
        let mut result = Vec::with_capacity(size);
        let mut rest = self.instructions;
        while let Some((instruction, behind)) = rest.split_first() {
            rest = behind;
            let piece = match *instruction {
                0 => return Err(PackFlaw::Delta),
                copy if copy & 0x80 != 0 => {
                    let from = read_number(copy, 4, &mut rest)?;
                    let bytes = read_number(copy >> 4, 3, &mut rest)?;
                    let bytes = if bytes == 0 { COPY_BYTES } else { bytes };
                    let end = from.checked_add(bytes).ok_or(PackFlaw::Delta)?;
                    base.get(from..end).ok_or(PackFlaw::Delta)?
                }
                bytes => {
                    let (piece, behind) = rest.split_at_checked(bytes.into()).ok_or(PackFlaw::Delta)?;
                    rest = behind;
                    piece
                }
            };
            if piece.len() > size - result.len() {
                return Err(PackFlaw::Delta);
            }
            result.extend_from_slice(piece);
        }
        if result.len() == size {
            Ok(result)
        } else {
            Err(PackFlaw::Delta)
        }
    }
}

/// A number of which only those bytes are written whose bits are set, the lowest first.
fn read_number(present: u8, bytes: u32, rest: &mut &[u8]) -> Result<usize, PackFlaw> {
    let mut number = 0;
    for place in (0..bytes).filter(|place| present >> place & 1 == 1) {
        let (byte, behind) = rest.split_first().ok_or(PackFlaw::Delta)?;
        number |= usize::from(*byte) << (8 * place);
        *rest = behind;
    }
    Ok(number)
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
pub(super) fn read_size(bytes: &[u8]) -> Result<(u64, &[u8]), PackFlaw> {
    let mut size = 0;
    for (place, byte) in bytes.iter().enumerate() {
        let shift = 7 * u32::try_from(place).map_err(|_| PackFlaw::Delta)?;
        let bits = u64::from(byte & 0x7f);
        let placed = bits.checked_shl(shift).filter(|placed| placed >> shift == bits);
        size |= placed.ok_or(PackFlaw::Delta)?;
        if byte & 0x80 == 0 {
            return Ok((size, &bytes[place + 1..]));
        }
    }
    Err(PackFlaw::Delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(delta: &[u8], base: &[u8], room: u64) -> Result<Vec<u8>, PackFlaw> {
        Delta::parse(delta)?.apply(base, &mut Budget::of(room))
    }

    #[test]
    fn copies_and_insertions_make_the_result() {
        let base = b"0123456789";
        assert_eq!(
            applied(&[10, 7, 0x91, 2, 3, 2, b'x', b'y', 0x90, 2], base, 7).unwrap(),
            b"234xy01"
        );
        let long: Vec<u8> = (0..70_000_u32).map(|n| (n % 251) as u8).collect();
        let sizes = [0xf0, 0xa2, 0x04, 0x80, 0x80, 0x04];
        // No size at all means 64 KiB.
        let delta = [&sizes[..], &[0x80]].concat();
        assert_eq!(applied(&delta, &long, 1 << 17).unwrap(), long[..65536]);
        let delta = [&sizes[..2], &[0x04, 1, 0x97, 0x6f, 0x11, 0x01, 1]].concat();
        assert_eq!(applied(&delta, &long, 1).unwrap(), [long[69_999]]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let base = b"0123456789";
        let wrong: [&[u8]; 12] = [
            b"",
            &[10],
            &[0x80],
            &[9, 1, 1, b'x'],
            &[10, 1, 0],
            &[10, 2, 1, b'x'],
            &[10, 1, 2, b'x', b'y'],
            &[10, 3, 3, b'x', b'y'],
            &[10, 2, 0x91, 9, 2],
            &[10, 1, 0x91, 2],
            &[10, 1, 0x8f, 0xff, 0xff, 0xff, 0xff],
            &[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ];
        for delta in wrong {
            assert_eq!(applied(delta, base, 100), Err(PackFlaw::Delta), "{delta:?}");
        }
        assert_eq!(applied(&[10, 101, 0x90, 10], base, 100), Err(PackFlaw::TooLarge));
    }
}
