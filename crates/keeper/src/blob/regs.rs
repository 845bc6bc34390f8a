//! The list of registered ranges in the table: sorted, disjoint, ranges that touch are one.
//!
//! Invariant: only the keeper that serves writes it. One that died while it did leaves a list that
//! may lack something or say it twice; `register` looks at the words of what it adds.

use super::table::Table;
use keeper::layout::{REGS_MAX, ctl};

/// The list, in the table of the target.
#[derive(Clone, Copy)]
pub(super) struct Regs(pub(super) Table);

impl Regs {
    /// The range around `addr`.
    pub(super) fn around(self, addr: u64) -> Option<(u64, u64)> {
        let i = self.after(addr);
        if i == 0 {
            return None;
        }
        let (start, end) = self.get(i - 1);
        if addr < end { Some((start, end)) } else { None }
    }

    /// The next registered address at or after `addr`; the end of the address space if none.
    pub(super) fn next_from(self, addr: u64) -> u64 {
        let i = self.after(addr);
        match self.around(addr) {
            Some(_) => addr,
            None if i < self.len() => self.get(i).0,
            None => u64::MAX,
        }
    }

    /// The first part of `start..end` that is not registered; empty at its end if all is.
    pub(super) fn next_gap(self, start: u64, end: u64) -> (u64, u64) {
        let from = self.around(start).map_or(start, |(_, e)| e).min(end);
        let to = if from < end {
            self.next_from(from).min(end)
        } else {
            end
        };
        (from, to)
    }

    pub(super) fn len(self) -> usize {
        (self.0.get(ctl::REGS_USED) as usize).min(REGS_MAX)
    }

    pub(super) fn get(self, i: usize) -> (u64, u64) {
        use core::sync::atomic::Ordering::Relaxed;
        (
            self.0.reg(i, 0).load(Relaxed),
            self.0.reg(i, 1).load(Relaxed),
        )
    }

    fn set(self, i: usize, (start, end): (u64, u64)) {
        use core::sync::atomic::Ordering::Relaxed;
        self.0.reg(i, 0).store(start, Relaxed);
        self.0.reg(i, 1).store(end, Relaxed);
    }

    /// Index of the first registered range that starts after `addr`.
    fn after(self, addr: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let mid = usize::midpoint(low, high);
            if self.get(mid).0 <= addr {
                low = mid + 1
            } else {
                high = mid
            }
        }
        low
    }

    /// Adds a range to the registered ones, merging what it overlaps or touches. False when full.
    pub(super) fn add(self, mut start: u64, mut end: u64) -> bool {
        let mut first = self.after(start);
        if first > 0 && self.get(first - 1).1 >= start {
            first -= 1;
        }
        let mut last = first;
        let len = self.len();
        while last < len && self.get(last).0 <= end {
            start = start.min(self.get(last).0);
            end = end.max(self.get(last).1);
            last += 1;
        }
        if first == last && len == REGS_MAX {
            return false;
        }
        self.splice(first, last, &[(start, end)]);
        true
    }

    /// Takes `start..end` out of the registered ranges.
    pub(super) fn remove(self, start: u64, end: u64) {
        let mut first = self.after(start);
        if first > 0 && self.get(first - 1).1 > start {
            first -= 1;
        }
        let mut last = first;
        let len = self.len();
        let mut keep = [(0u64, 0u64); 2];
        let mut kept = 0;
        while last < len && self.get(last).0 < end {
            let (s, e) = self.get(last);
            for part in [(s, start.min(e)), (end.max(s), e)] {
                if part.0 < part.1 {
                    keep[kept % 2] = part;
                    kept += 1;
                }
            }
            last += 1;
        }
        // When a split does not fit, the tail is forgotten: it is only never moved out again.
        let kept = if len - (last - first) + kept > REGS_MAX {
            1
        } else {
            kept
        };
        self.splice(first, last, &keep[..kept.min(2)]);
    }

    fn splice(self, first: usize, last: usize, with: &[(u64, u64)]) {
        let len = self.len();
        let new_len = len - (last - first) + with.len();
        if with.len() <= last - first {
            for i in last..len {
                self.set(i - (last - first) + with.len(), self.get(i));
            }
        } else {
            for i in (last..len).rev() {
                self.set(i + with.len() - (last - first), self.get(i));
            }
        }
        for (i, r) in with.iter().enumerate() {
            self.set(first + i, *r);
        }
        self.0.set(ctl::REGS_USED, new_len as u64);
    }
}
