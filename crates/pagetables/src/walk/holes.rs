//! Holes of 512 GiB: programs reserve terabytes that they never touch (ThreadSanitizer 133 TiB, which took a
//! reading 35 s in pieces of 2 MiB).
//!
//! Invariant: a span is left out only if an entry on the way to it is not present, and then is told as a hole.

use std::io;

use super::{Pass, REGIONS};
use crate::entry::Entry;
use crate::reader::{Reader, Space};

/// A span is what one entry of the third level above the leaves maps.
const SHIFT: u32 = 39;
/// Up to so many regions are read as they are: one group.
const FEW: usize = REGIONS;
/// Entries that are asked for in one run.
const AT_ONCE: usize = 256;

impl Reader {
    /// Tells the spans in which there is nothing; the regions outside of them.
    pub(super) fn skip_holes(
        &mut self,
        space: &Space,
        mut bases: Vec<u64>,
        pass: &mut Pass<'_, '_>,
    ) -> io::Result<Vec<u64>> {
        if bases.len() <= FEW {
            return Ok(bases);
        }
        let mut spans: Vec<u64> = bases.iter().map(|base| base >> SHIFT).collect();
        spans.dedup();
        for some in spans.chunks(AT_ONCE) {
            let empty = self.empty(space, some)?;
            for (span, entry) in &empty {
                pass.tell_whole((span << SHIFT, 1 << SHIFT), 1 << SHIFT, *entry);
            }
            let is_empty = |base: &u64| empty.binary_search_by_key(&(base >> SHIFT), |one| one.0);
            bases.retain(|base| is_empty(base).is_err());
        }
        Ok(bases)
    }

    /// Those of these spans that hold nothing, with the entry that says so.
    fn empty(&mut self, space: &Space, spans: &[u64]) -> io::Result<Vec<(u64, Entry)>> {
        let mut open: Vec<(u64, u64)> = spans.iter().map(|span| (*span, space.pgd)).collect();
        let mut empty = Vec::new();
        let mut shift = self.top_shift();
        while shift >= SHIFT {
            for (span, table) in &open {
                let slot = (span << SHIFT) >> shift & 511;
                self.copier.ask(table.wrapping_add(slot * 8), 8);
            }
            self.copier.run()?;
            let mut below = Vec::with_capacity(open.len());
            for (number, (span, _)) in open.iter().enumerate() {
                // What cannot be read any more is looked at like the rest.
                let entry = self.copier.answer(number).map(|words| Entry(words[0]));
                match entry {
                    Some(entry) if !entry.is_present() => empty.push((*span, entry)),
                    Some(entry) => {
                        let table = self.direct_map.wrapping_add(entry.physical(self.mask));
                        below.push((*span, table));
                    }
                    None => {}
                }
            }
            open = below;
            shift -= 9;
        }
        empty.sort_unstable_by_key(|one| one.0);
        Ok(empty)
    }
}
