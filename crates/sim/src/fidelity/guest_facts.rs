//! Facts that the guest reports about a run. They are not compared: the simulation uses them as its
//! input, because only a real machine has them.
//!
//! Invariant: if an older guest does not report a fact, the simulation runs without it.

use ::engine::Pages;
use touches::figures::{FLUSHES, Figures, KERNELS, RESTED};

/// Facts that the guest reported about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFacts {
    /// For each group: number of pages of kernel structures that are charged to it and to the
    /// groups below it. An older guest reports only the first group's.
    pub kernels: Vec<Pages>,
    /// Number of touches between two forced context switches.
    pub burst: u64,
    /// For each periodic flush of the kernel's statistics, the number of bursts before it.
    pub flushes: Option<Vec<u64>>,
    /// Numbers (from 1) of the walks of the only tenant's page tables before which its program had
    /// not run since the previous walk.
    pub idle_walks: Option<Vec<u64>>,
}

impl Default for GuestFacts {
    fn default() -> Self {
        Self {
            kernels: Vec::new(),
            burst: 64,
            flushes: None,
            idle_walks: None,
        }
    }
}

impl GuestFacts {
    /// Returns the facts in a line of figures.
    #[must_use]
    pub fn of(figures: &Figures) -> Self {
        let list = |name: &str| {
            let mut list = figures.lists.get(name)?.clone();
            list.sort_unstable();
            Some(list)
        };
        let of_first = figures.counts.get("kernel").copied();
        let kernels = figures.lists.get(KERNELS).cloned();
        let kernels = kernels.unwrap_or_else(|| of_first.into_iter().collect());
        Self {
            kernels: kernels.into_iter().map(Pages).collect(),
            burst: figures.key.burst.max(1),
            flushes: list(FLUSHES),
            idle_walks: list(RESTED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_reported_or_absent() {
        let of = |line: &str| GuestFacts::of(&Figures::parse(line).expect("figures"));
        let old = of("figures loop classic 1 64 all kernel=3");
        assert_eq!((old.kernels, old.flushes), (vec![Pages(3)], None));
        let new = of("figures loop classic 1 32 all kernel=9 flushes:9,4 kernels:9,4 rested:");
        assert_eq!((new.kernels, new.burst), (vec![Pages(9), Pages(4)], 32));
        assert_eq!(
            (new.flushes, new.idle_walks),
            (Some(vec![4, 9]), Some(vec![]))
        );
    }
}
