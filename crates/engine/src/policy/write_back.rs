//! Writeback: chooses the oldest swapped-out pages, which the caller then writes from compressed
//! memory (zram) to the disk behind it.
//!
//! Invariants: no page younger than requested is chosen, and older pages are chosen first. In each
//! period no more pages are chosen than the budget allows, because writes wear out flash.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use super::why::Why;
use crate::units::{Bytes, Millis, Pages};

/// A budget: how much may be written in a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteBudget {
    /// Maximum number of bytes written in a period.
    pub most: Bytes,
    /// Length of a period.
    pub per: Millis,
}

impl WriteBudget {
    /// Returns a budget of `most` bytes a day.
    #[must_use]
    pub const fn a_day(most: Bytes) -> Self {
        Self {
            most,
            per: Millis(86_400_000),
        }
    }
}

impl Default for WriteBudget {
    /// One GiB a day: 1.8 TiB in 5 years, about a hundredth of the writes that a small SSD is built
    /// for.
    fn default() -> Self {
        Self::a_day(Bytes(1 << 30))
    }
}

/// A write budget, and how much of it was used in the present period. The first period begins at
/// creation.
#[derive(Clone, Debug)]
pub struct WriteBack {
    budget: WriteBudget,
    began: Millis,
    written: Pages,
}

/// The pages to write, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen<T> {
    /// The pages, oldest first; pages of the same age in the order of `T`.
    pub pages: Vec<T>,
    /// Why these pages were chosen.
    pub why: Why,
}

impl WriteBack {
    /// Creates the state for a budget of which nothing is used yet.
    #[must_use]
    pub const fn new(budget: WriteBudget, now: Millis) -> Self {
        Self {
            budget,
            began: now,
            written: Pages(0),
        }
    }

    /// Returns the budget.
    #[must_use]
    pub const fn budget(&self) -> WriteBudget {
        self.budget
    }

    /// Sets another budget; pages written in this period still count.
    pub const fn set_budget(&mut self, budget: WriteBudget) {
        self.budget = budget;
    }

    /// Returns how many more pages may be written in the period that contains `now`.
    pub fn left(&mut self, now: Millis) -> Pages {
        let per = self.budget.per.0.max(1);
        let passed = now.since(self.began).0 / per;
        if passed > 0 {
            self.began = Millis(self.began.0 + passed * per);
            self.written = Pages(0);
        }
        self.budget.most.pages().less(self.written)
    }

    /// Notes that `written` pages were written.
    pub fn note(&mut self, written: Pages) {
        self.written = Pages(self.written.0.saturating_add(written.0));
    }

    /// Chooses the pages to write now, at most `at_once`. `out` are the swapped-out pages, each
    /// with the time of its last use. `None` if no page must be written.
    pub fn choose<T: Ord + Copy>(
        &mut self,
        (now, older_than): (Millis, Millis),
        at_once: Pages,
        out: impl IntoIterator<Item = (T, Millis)>,
    ) -> Option<Chosen<T>> {
        let most = usize::try_from(self.left(now).min(at_once).0).unwrap_or(usize::MAX);
        // The youngest of the pages chosen so far is on top.
        let mut oldest = BinaryHeap::new();
        let is_old = |last: &Millis| *last <= now && now.since(*last) >= older_than;
        for (page, last) in out.into_iter().filter(|(_, last)| is_old(last)) {
            if oldest.len() < most {
                oldest.push((last, page));
            } else if let Some(mut youngest) = oldest.peek_mut()
                && (last, page) < *youngest
            {
                *youngest = (last, page);
            }
        }
        let pages: Vec<T> = oldest
            .into_sorted_vec()
            .into_iter()
            .map(|(_, page)| page)
            .collect();
        let WriteBudget { most, per } = self.budget;
        (!pages.is_empty()).then_some(Chosen {
            pages,
            why: Why::WriteBack {
                older_than,
                written: self.written,
                most,
                per,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Noise;
    use super::*;

    fn budget(pages: u64, per: u64) -> WriteBudget {
        WriteBudget {
            most: Pages(pages).bytes(),
            per: Millis(per),
        }
    }

    /// Chooses in the simplest way: collects all pages that are old enough, sorts them, and
    /// truncates the list.
    fn naive(now: u64, older: u64, most: usize, out: &[(u32, Millis)]) -> Vec<u32> {
        let mut old: Vec<(u64, u32)> = Vec::new();
        for (page, last) in out {
            if last.0 <= now && now - last.0 >= older {
                old.push((last.0, *page));
            }
        }
        old.sort_unstable();
        old.truncate(most);
        old.into_iter().map(|(_, page)| page).collect()
    }

    #[test]
    fn chosen_as_a_naive_model_chooses() {
        let mut noise = Noise(7);
        let mut random = |below: u64| noise.below(below);
        for _ in 0..500 {
            let (now, older, at_once) = (random(200), random(120), random(30));
            let count = random(60);
            let out: Vec<(u32, Millis)> = (0..count)
                .map(|page| (u32::try_from(page).unwrap(), Millis(random(210))))
                .collect();
            let (allowed, before) = (random(40), random(40));
            let mut policy = WriteBack::new(budget(allowed, 1_000), Millis(0));
            policy.note(Pages(before));
            let most = allowed.saturating_sub(before).min(at_once);
            let ages = (Millis(now), Millis(older));
            let chosen = policy.choose(ages, Pages(at_once), out.iter().copied());
            let chosen = chosen.map_or_else(Vec::new, |chosen| chosen.pages);
            let naive = naive(now, older, usize::try_from(most).unwrap(), &out);
            assert_eq!(chosen, naive, "{now} {older} {most} {out:?}");
        }
    }

    #[test]
    fn a_budget_is_of_a_period() {
        let mut policy = WriteBack::new(budget(10, 1_000), Millis(500));
        policy.note(Pages(4));
        assert_eq!(policy.left(Millis(600)), Pages(6));
        policy.note(Pages(9));
        assert_eq!(policy.left(Millis(1_499)), Pages(0));
        let out = [(1_u32, Millis(0))];
        let ages = |now| (Millis(now), Millis(100));
        assert_eq!(policy.choose(ages(1_499), Pages(9), out), None);
        assert!(policy.choose(ages(1_500), Pages(9), out).is_some());
        policy.note(Pages(10));
        // The budget of unused periods is not carried over.
        assert_eq!(policy.left(Millis(9_700)), Pages(10));
        policy.note(Pages(3));
        assert_eq!(policy.left(Millis(10_499)), Pages(7));
        policy.set_budget(budget(2, 1_000));
        assert_eq!(policy.left(Millis(10_499)), Pages(0));
        assert_eq!(policy.left(Millis(10_500)), Pages(2));
    }
}
