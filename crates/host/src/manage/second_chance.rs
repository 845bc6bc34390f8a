//! The second chance of pages: reclaim clears an accessed bit that it finds set. If reclaim meets
//! the page again and the bit is still clear, the page was not used in between, and may be paged
//! out.
//!
//! Needed for processes where scans clear no bits, because clearing all at once would delay the
//! process for too long ([`crate::ages`]). Otherwise all pages of such a process would count as in
//! use for ever. At a hard limit, kernel reclaim clears bits; without one (as for `memory.high` on
//! version 1), nothing does. So pages that the engine's walk finds in use are advised to be cold
//! (MADV_COLD), which clears page by page while the process takes faults.
//!
//! Invariants:
//!
//! - Only anonymous pages in address spaces where scans clear no bits get a second chance.
//! - If the next scan finds such a bit clear, the age of the page is unknown, not old
//!   ([`crate::ages::Ages::take_bits`]).
//! - Pages that other processes map too, and huge pages, keep their bits: the kernel skips them.

use std::ops::Range;
use std::os::fd::OwnedFd;

use engine::units::PAGE_SIZE;
use pagetables::Advice;

use super::advise::{Advised, advise};
use crate::system::{Kind, Mapping};

/// Maximum number of bytes in one call. During a call, about 0.5 ms, mmap and munmap of the process
/// wait.
const AT_ONCE: u64 = 8 << 20;

/// Address ranges of pages that a walk found in use, in any order.
#[derive(Debug, Default)]
pub(super) struct InUse(Vec<Range<u64>>);

impl InUse {
    /// Adds the page at this address.
    pub(super) fn note(&mut self, address: u64) {
        match self.0.last_mut() {
            Some(last) if last.end == address => last.end += PAGE_SIZE,
            _ => self.0.push(address..address + PAGE_SIZE),
        }
    }

    /// Whether no page was found in use.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Clears the accessed bits of these pages, in a process with these mappings. Begins at address
    /// `from`, and after the highest address continues with the lowest. Stops early if `is_due`
    /// returns true (a request waits). Returns the result, then the address at which the next call
    /// should begin.
    pub(super) fn clear(
        mut self,
        process: (u32, &OwnedFd),
        mappings: &[Mapping],
        (from, is_due): (u64, &mut impl FnMut() -> bool),
    ) -> (Advised, u64) {
        self.0.sort_unstable_by_key(|range| range.start);
        let anon = mappings.iter().filter(|one| one.kind == Kind::Anon);
        let calls = anon.flat_map(|one| calls(&self.0, one.start..one.end));
        for ranges in in_turn(calls.collect(), from) {
            match advise(process, &ranges, Advice::Cold, Vec::new) {
                Advised::Done if is_due() => {
                    let end = ranges.last().map_or(0, |last| last.end);
                    return (Advised::Done, end);
                }
                Advised::Done => {}
                other => return (other, 0),
            }
        }
        (Advised::Done, 0)
    }
}

/// Rotates `calls` so that those at address `from` or above come first.
fn in_turn(mut calls: Vec<Vec<Range<u64>>>, from: u64) -> Vec<Vec<Range<u64>>> {
    let first = calls.partition_point(|call| call.first().is_some_and(|one| one.start < from));
    calls.rotate_left(first);
    calls
}

/// Returns the parts of `ranges` (in ascending order) that lie in `mapping`, as a list for each
/// call of at most [`AT_ONCE`] bytes.
fn calls(ranges: &[Range<u64>], mapping: Range<u64>) -> Vec<Vec<Range<u64>>> {
    let (mut calls, mut call, mut left) = (Vec::new(), Vec::new(), AT_ONCE);
    let first = ranges.partition_point(|range| range.end <= mapping.start);
    let inside = ranges[first..].iter();
    for range in inside.take_while(|range| range.start < mapping.end) {
        let (mut start, end) = (range.start.max(mapping.start), range.end.min(mapping.end));
        while start < end {
            let part = start..end.min(start + left);
            left -= part.end - part.start;
            start = part.end;
            call.push(part);
            if left == 0 {
                calls.push(std::mem::take(&mut call));
                left = AT_ONCE;
            }
        }
    }
    calls.extend((!call.is_empty()).then_some(call));
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_covers_more_than_its_maximum() {
        let mut in_use = InUse::default();
        for page in [0, 1, 2, 5, 6, 9] {
            in_use.note(page * PAGE_SIZE);
        }
        assert_eq!(in_use.0, [0..12288, 20480..28672, 36864..40960]);
        let of = |from: u64, to: u64| calls(&in_use.0, from * PAGE_SIZE..to * PAGE_SIZE);
        assert_eq!(of(0, 100), [in_use.0.clone()]);
        let cut = vec![8192..12288, 20480..24576];
        assert_eq!(of(2, 6), [cut], "cut where the mapping begins and ends");
        assert_eq!(of(3, 5), Vec::<Vec<Range<u64>>>::new());
        let large = [
            PAGE_SIZE..2 * PAGE_SIZE,
            4 * PAGE_SIZE..4 * PAGE_SIZE + 2 * AT_ONCE,
        ];
        let calls = calls(&large, 0..u64::MAX);
        let bytes = |call: &Vec<Range<u64>>| call.iter().map(|one| one.end - one.start).sum();
        let bytes: Vec<u64> = calls.iter().map(bytes).collect();
        assert_eq!(bytes, [AT_ONCE, AT_ONCE, PAGE_SIZE]);
        let end = 4 * PAGE_SIZE + 2 * AT_ONCE;
        assert_eq!(calls[2][0], end - PAGE_SIZE..end);
        let starts = |from: u64| {
            let turn = in_turn(calls.clone(), from);
            turn.iter().map(|call| call[0].start).collect::<Vec<_>>()
        };
        let [first, second, third] = [0, 1, 2].map(|at: usize| calls[at][0].start);
        assert_eq!(starts(0), [first, second, third]);
        assert_eq!(starts(second), [second, third, first]);
        assert_eq!(starts(third + 1), [first, second, third]);
    }
}
