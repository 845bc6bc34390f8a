//! One tenant's figures in one column of the history, and the encoding of these figures.
//!
//! Invariant: decoding yields what was encoded; other bytes are refused, and never cause a panic. A
//! figure of 0 takes one bit. A number is encoded in seven bits a byte, the lowest bits first; the
//! eighth bit of a byte says that more bytes follow.

use engine::age_bins::BINS;

/// Number of figures in a row: those of [`AGES`], then the nine below.
pub(super) const FIELDS: usize = BINS + 9;

/// Indexes of the numbers of pages by age.
pub(super) const AGES: std::ops::Range<usize> = 0..BINS;
/// Index of the number of pages of unknown age.
pub(super) const UNKNOWN: usize = BINS;
/// Index of the number of swapped-out pages.
pub(super) const SWAPPED: usize = BINS + 1;
/// Indexes of the numbers of pages refaulted in this column: anonymous, file.
pub(super) const REFAULTS: [usize; 2] = [BINS + 2, BINS + 3];
/// Indexes of the numbers of pages reclaimed in this column: by kswapd, direct, proactive.
pub(super) const STEALS: [usize; 3] = [BINS + 4, BINS + 5, BINS + 6];
/// Index of a flag: 1 if the figure [`WAITED_US`] is known.
pub(super) const HAS_WAITED: usize = BINS + 7;
/// Index of the time in this column in which a process waited for memory, in microseconds.
pub(super) const WAITED_US: usize = BINS + 8;

/// The figures, by the indexes above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row(pub(super) [u64; FIELDS]);

impl Default for Row {
    fn default() -> Row {
        Row([0; FIELDS])
    }
}

impl Row {
    /// Appends the encoded row, after the number of the tenant's name.
    pub(super) fn write(&self, name: u32, out: &mut Vec<u8>) {
        put(u64::from(name), out);
        let bit = |(n, value): (usize, &u64)| u64::from(*value > 0) << n;
        put(self.0.iter().enumerate().map(bit).sum(), out);
        self.0
            .iter()
            .filter(|value| **value > 0)
            .for_each(|value| put(*value, out));
    }

    /// Takes a row off the front of `bytes`: the number of the tenant's name, then the row. `None`
    /// for invalid bytes.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<(u32, Row)> {
        let name = u32::try_from(take(bytes)?).ok()?;
        let there = take(bytes)?;
        if there >> FIELDS != 0 {
            return None;
        }
        let mut row = Row::default();
        for (n, value) in row.0.iter_mut().enumerate() {
            if there >> n & 1 == 1 {
                *value = take(bytes)?;
            }
        }
        Some((name, row))
    }
}

/// Appends an encoded number.
pub(super) fn put(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Takes an encoded number off the front of `bytes`; `None` for invalid bytes.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        // The number has more than 64 bits.
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_encoded_row_is_decoded(
            name in any::<u32>(), values in prop::array::uniform27(prop_oneof![Just(0), 0..300u64, any::<u64>()])
        ) {
            let (row, mut bytes) = (Row(values), Vec::new());
            row.write(name, &mut bytes);
            let mut rest = &bytes[..];
            prop_assert_eq!(Row::read(&mut rest), Some((name, row)));
            prop_assert!(rest.is_empty());
            for end in 0..bytes.len() {
                prop_assert_eq!(Row::read(&mut &bytes[..end]), None);
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut rest = &bytes[..];
            while Row::read(&mut rest).is_some() {}
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        let ten = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(take(&mut &ten[..]), Some(u64::MAX));
        let more = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert_eq!(take(&mut &more[..]), None);
        assert_eq!(take(&mut &[0x80; 11][..]), None);
    }
}
