//! The order in which tenants run. In each turn a tenant does [`SLICE`] touches. The turns go
//! through the tenants in order, again and again, until each tenant has done all its touches. A
//! case may list its turns instead.
//!
//! Invariant: the order of touches over all tenants does not depend on the burst length, which only
//! sets how often a turn is interrupted.

use crate::case::Case;
use crate::stream::Stream;

/// Number of touches in one turn, if the case has several tenants.
pub const SLICE: u64 = 256;

/// An iterator over bursts (parts of turns): index of the tenant, then number of touches.
#[derive(Clone, Debug)]
pub struct Turns {
    /// For each tenant: number of touches that it has not done.
    left: Vec<u64>,
    /// Maximum number of touches in a burst.
    burst: u64,
    /// Index of the tenant whose turn it is.
    tenant: usize,
    /// Number of touches left in this turn.
    of_turn: u64,
    /// The listed turns that have not begun; `None` if the case lists none.
    listed: Option<std::slice::Iter<'static, (usize, u64)>>,
}

impl Turns {
    /// Returns the turns of `case` in bursts of at most `burst` touches; a `burst` of 0 counts as
    /// 1.
    #[must_use]
    pub fn new(case: &Case, burst: u64) -> Self {
        Self {
            left: case.tenants.iter().map(Stream::total).collect(),
            burst: burst.max(1),
            tenant: 0,
            of_turn: match case.turns {
                [] => Self::slice(case.tenants.len()),
                _ => 0,
            },
            listed: (!case.turns.is_empty()).then(|| case.turns.iter()),
        }
    }

    /// Returns whether the case lists its turns.
    #[must_use]
    pub const fn are_listed(&self) -> bool {
        self.listed.is_some()
    }

    /// Begins the next turn.
    fn begin_turn(&mut self) {
        let tenants = self.left.len();
        let next = self.listed.as_mut().and_then(Iterator::next);
        // Touches that are in no listed turn are done in turns of [`SLICE`], after all listed
        // turns.
        let slice = || ((self.tenant + 1) % tenants, Self::slice(tenants));
        (self.tenant, self.of_turn) = next.copied().unwrap_or_else(slice);
    }

    /// Returns the number of touches in a turn, in a case with so many tenants. A single tenant
    /// does all its touches in one turn.
    const fn slice(tenants: usize) -> u64 {
        if tenants == 1 { u64::MAX } else { SLICE }
    }
}

impl Iterator for Turns {
    type Item = (usize, u64);

    fn next(&mut self) -> Option<(usize, u64)> {
        if self.left.iter().all(|left| *left == 0) {
            return None;
        }
        while self.of_turn == 0 || self.left[self.tenant] == 0 {
            self.begin_turn();
        }
        let nr = self.burst.min(self.of_turn).min(self.left[self.tenant]);
        self.of_turn -= nr;
        self.left[self.tenant] -= nr;
        Some((self.tenant, nr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{ALL, find};

    #[test]
    fn each_tenant_gets_all_its_touches() {
        for case in ALL {
            let mut done = vec![0; case.tenants.len()];
            for (tenant, nr) in Turns::new(case, 100) {
                assert!((1..=100).contains(&nr));
                done[tenant] += nr;
            }
            let wanted: Vec<u64> = case.tenants.iter().map(Stream::total).collect();
            assert_eq!(done, wanted, "{}", case.name);
        }
    }

    #[test]
    fn the_order_does_not_depend_on_the_burst() {
        let case = find("tree-low").expect("a case");
        let order = |burst| {
            let one_by_one =
                |(tenant, nr)| std::iter::repeat_n(tenant, usize::try_from(nr).unwrap_or(0));
            Turns::new(case, burst)
                .flat_map(one_by_one)
                .collect::<Vec<usize>>()
        };
        assert_eq!(order(64), order(u64::MAX));
        assert_eq!(order(100), order(1024));
        assert_eq!(&order(64)[255..257], &[0, 1]);
    }

    #[test]
    fn listed_turns_are_made_in_their_order() {
        for case in ALL {
            let listed = case.turns.iter();
            let mut of_tenants = vec![0; case.tenants.len()];
            listed.for_each(|(tenant, nr)| of_tenants[*tenant] += nr);
            let wanted: Vec<u64> = case.tenants.iter().map(Stream::total).collect();
            assert!(
                case.turns.is_empty() || of_tenants == wanted,
                "{}",
                case.name
            );
        }
        let case = find("two-limits").expect("a case");
        let turns: Vec<(usize, u64)> = Turns::new(case, u64::MAX).collect();
        assert_eq!(turns, case.turns);
    }
}
