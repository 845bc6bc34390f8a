//! What the guest has told of a run: no count that is compared, but what only a machine has.
//!
//! Invariant: what an older guest has not told changes nothing.

use ::engine::Pages;
use touches::figures::{FLUSHES, Figures, RESTED};

/// What the guest has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Pages that the kernel itself has charged to the first group.
    pub kernel: Pages,
    /// Touches between two forced context switches.
    pub burst: u64,
    /// After how many bursts the kernel's periodic flush of statistics was seen, each time.
    pub flushes: Option<Vec<u64>>,
    /// Which walks of the only tenant's page tables found that its program had not run since the one before.
    pub idle_walks: Option<Vec<u64>>,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            kernel: Pages(0),
            burst: 64,
            flushes: None,
            idle_walks: None,
        }
    }
}

impl Told {
    /// From a line of figures.
    #[must_use]
    pub fn of(figures: &Figures) -> Self {
        let list = |name: &str| {
            let mut list = figures.lists.get(name)?.clone();
            list.sort_unstable();
            Some(list)
        };
        Self {
            kernel: Pages(figures.counts.get("kernel").copied().unwrap_or(0)),
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
    fn lists_are_told_or_not() {
        let of = |line: &str| Told::of(&Figures::parse(line).expect("figures"));
        let old = of("figures loop classic 1 64 all kernel=3");
        let kernel = Pages(3);
        assert_eq!((old.kernel, old.flushes), (kernel, None));
        let new = of("figures loop classic 1 32 all flushes:9,4 rested:");
        assert_eq!((new.kernel, new.burst), (Pages(0), 32));
        assert_eq!(
            (new.flushes, new.idle_walks),
            (Some(vec![4, 9]), Some(vec![]))
        );
    }
}
