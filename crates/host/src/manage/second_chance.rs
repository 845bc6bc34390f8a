//! Pages that get a second chance: an accessed bit that reclaim finds set is cleared, and a page that it meets again with the bit
//! still clear may leave, for nobody used it in between.
//!
//! This is for processes whose bits looks leave set, because clearing them all at once would hold the process up for too long
//! ([`crate::ages`]). All of such a process would count as in use for ever. At a wall the kernel's own reclaim clears bits; where no wall is,
//! nobody does. (The story: a program of 1 GiB that used a tenth of it gave nothing for `memory.high` on version 1.) So what the engine's
//! walk finds in use is advised to be cold (MADV_COLD), which clears page by page while faults go on.
//!
//! Invariants: anonymous pages alone, of an address space that looks do not clear. A bit that the next look finds clear makes its page's age
//! unknown, not old ([`crate::ages::Ages::take_bits`]). Pages that other processes map, too, and huge pages keep their bits: the
//! kernel passes them over.

use std::ops::Range;
use std::os::fd::OwnedFd;

use pagetables::Advice;

use super::advise::{Advised, advise};
use crate::system::{Kind, Mapping};

/// Bytes that one call goes through: for so long mmap and munmap of the process wait, half a millisecond.
const AT_ONCE: u64 = 8 << 20;
const PAGE: u64 = 4096;

/// Pages that a walk found in use, in any order.
#[derive(Debug, Default)]
pub(super) struct InUse(Vec<Range<u64>>);

impl InUse {
    /// The page at this address is.
    pub(super) fn note(&mut self, address: u64) {
        match self.0.last_mut() {
            Some(last) if last.end == address => last.end += PAGE,
            _ => self.0.push(address..address + PAGE),
        }
    }

    /// There is nothing to clear.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Clears their bits, in a process with these mappings: from the address `from` upwards and then from the lowest one, until all is
    /// done or `is_due` says that somebody waits for us. What became of it, and the address to go on from the next time.
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

/// Calls that begin at the address `from` or above it come first, the others after them.
fn in_turn(mut calls: Vec<Vec<Range<u64>>>, from: u64) -> Vec<Vec<Range<u64>>> {
    let first = calls.partition_point(|call| call.first().is_some_and(|one| one.start < from));
    calls.rotate_left(first);
    calls
}

/// What of `ranges`, which ascend, lies in `mapping`, call by call.
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
    fn each_call_goes_through_no_more_than_it_may() {
        let mut in_use = InUse::default();
        for page in [0, 1, 2, 5, 6, 9] {
            in_use.note(page * PAGE);
        }
        assert_eq!(in_use.0, [0..12288, 20480..28672, 36864..40960]);
        let of = |from: u64, to: u64| calls(&in_use.0, from * PAGE..to * PAGE);
        assert_eq!(of(0, 100), [in_use.0.clone()]);
        let cut = vec![8192..12288, 20480..24576];
        assert_eq!(of(2, 6), [cut], "cut where the mapping begins and ends");
        assert_eq!(of(3, 5), Vec::<Vec<Range<u64>>>::new());
        let large = [PAGE..2 * PAGE, 4 * PAGE..4 * PAGE + 2 * AT_ONCE];
        let calls = calls(&large, 0..u64::MAX);
        let bytes = |call: &Vec<Range<u64>>| call.iter().map(|one| one.end - one.start).sum();
        let bytes: Vec<u64> = calls.iter().map(bytes).collect();
        assert_eq!(bytes, [AT_ONCE, AT_ONCE, PAGE]);
        let end = 4 * PAGE + 2 * AT_ONCE;
        assert_eq!(calls[2][0], end - PAGE..end);
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
