//! Pages to encoded bytes, a batch at a time.
//!
//! Invariant: staged slots lie one after the other, each padded with zeros to a granule, in the
//! order of their pages: what one write puts into the tier as it stands.

use keeper::word::{Kind, PAGE_SIZE};
use lz4_flex::block::CompressTable;
use zstd_safe::{CCtx, CParameter};

use super::space::units_of;
use super::{Compress, Page, Temperature};

/// Longest encoding kept; above, the page is kept raw. An eighth saved still pays: what hardly
/// compresses is nearly all literals and decodes as fast as a copy.
const ENCODED_MAX: usize = PAGE_SIZE * 7 / 8;

/// Level 3, zstd's default; level 1 saves a tenth of the time and loses up to 4% of space.
const ZSTD_LEVEL: i32 = 3;

/// An encoded page in the staging buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Encoded {
    pub(super) kind: Kind,
    pub(super) len: u16,
}

impl Encoded {
    pub(super) fn units(&self) -> usize {
        units_of(usize::from(self.len))
    }
}

/// Some consecutive staged slots and their bytes.
#[derive(Clone, Copy)]
pub(super) struct Staged<'a> {
    slots: &'a [Encoded],
    bytes: &'a [u8],
}

impl<'a> Staged<'a> {
    pub(super) fn slots(&self) -> &'a [Encoded] {
        self.slots
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn units(&self) -> usize {
        units_of(self.bytes.len())
    }

    /// As many of the slots as `units` granules hold.
    pub(super) fn prefix(&self, units: usize) -> Staged<'a> {
        let mut used = 0;
        let fits = |encoded: &&Encoded| {
            used += encoded.units();
            used <= units
        };
        let count = self.slots.iter().take_while(fits).count();
        self.split(count).0
    }

    /// The first `count` slots, and the rest.
    pub(super) fn split(&self, count: usize) -> (Staged<'a>, Staged<'a>) {
        let (first, rest) = self.slots.split_at(count);
        let units: usize = first.iter().map(Encoded::units).sum();
        let (head, tail) = self.bytes.split_at(units * 64);
        let staged = |slots, bytes| Staged { slots, bytes };
        (staged(first, head), staged(rest, tail))
    }
}

/// Compressors and the staging buffer, reused for ever.
pub(super) struct Encoder {
    lz4: CompressTable,
    zstd: CCtx<'static>,
    slots: Vec<Encoded>,
    bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Encoder {
        let mut zstd = CCtx::create();
        // A parameter that zstd refuses would leave its default, which is the same level.
        let _ = zstd.set_parameter(CParameter::CompressionLevel(ZSTD_LEVEL));
        Encoder {
            lz4: CompressTable::small(),
            zstd,
            slots: Vec::new(),
            bytes: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.bytes.clear();
    }

    pub(super) fn staged(&self) -> Staged<'_> {
        Staged {
            slots: &self.slots,
            bytes: &self.bytes,
        }
    }

    /// Encodes the page behind those staged before.
    pub(super) fn stage(&mut self, page: &Page, compress: Compress, hint: Temperature) {
        let start = self.bytes.len();
        let kind = match (compress, hint) {
            (Compress::None, _) => None,
            (Compress::Zstd, _) | (Compress::Tiered, Temperature::Cold) => self.zstd(page),
            (Compress::Lz4 | Compress::Tiered, _) => self.lz4(page),
        };
        let kind = kind.unwrap_or_else(|| {
            self.bytes.truncate(start);
            self.bytes.extend_from_slice(page);
            Kind::Raw
        });
        let len = self.bytes.len() - start;
        self.bytes.resize(start + units_of(len) * 64, 0);
        let len = u16::try_from(len).expect("at most a page");
        self.slots.push(Encoded { kind, len });
    }

    fn lz4(&mut self, page: &Page) -> Option<Kind> {
        let start = self.bytes.len();
        let room = lz4_flex::block::get_maximum_output_size(PAGE_SIZE);
        self.bytes.resize(start + room, 0);
        let into = &mut self.bytes[start..];
        let len = lz4_flex::block::compress_into_with_table(page, into, &mut self.lz4).ok()?;
        self.bytes.truncate(start + len);
        (len <= ENCODED_MAX).then_some(Kind::Lz4)
    }

    fn zstd(&mut self, page: &Page) -> Option<Kind> {
        let start = self.bytes.len();
        self.bytes.resize(start + ENCODED_MAX, 0);
        let len = self.zstd.compress2(&mut self.bytes[start..], page).ok()?;
        self.bytes.truncate(start + len);
        Some(Kind::Zstd)
    }
}

/// The word that the page repeats, if it does. One shifted comparison: it ends at the first
/// difference, which for other pages is nearly always among the first bytes.
pub(super) fn same_filled(page: &Page) -> Option<u32> {
    let word = page.first_chunk::<4>()?;
    let same = page[PAGE_SIZE - 4..] == *word && page[4..] == page[..PAGE_SIZE - 4];
    same.then(|| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_different_byte_anywhere_is_not_same_filled() {
        let mut page = [0; PAGE_SIZE];
        keeper::decode::fill(0x1234_5678, &mut page);
        assert_eq!(same_filled(&page), Some(0x1234_5678));
        for at in 0..PAGE_SIZE {
            page[at] ^= 1;
            assert_eq!(same_filled(&page), None, "byte {at}");
            page[at] ^= 1;
        }
    }
}
