//! Inactive pages of the node, all tenants together: what a reclaim of the root starts from. spec: memcg-lru.md 6.
//!
//! Invariant: a sum is exact, and costs a look at each tenant whose lruvec was given out for changes since the last one; the
//! kernel counts in deltas of each processor instead. So among ever more idle tenants it costs the same.

use super::Machine;
use crate::folio::FolioType;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::Pages;
use alloc::vec::Vec;

/// What was last seen of one tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    pages: [u64; 2],
    /// It is among those to be looked at.
    is_changed: bool,
}

/// Sums by type, and whose part of them is old.
#[derive(Debug, Default)]
pub(super) struct Inactive {
    seen: Vec<Seen>,
    changed: Vec<MemcgId>,
    total: [u64; 2],
}

impl Inactive {
    /// The lruvec of `id` may change, or goes.
    pub(super) fn note(&mut self, id: MemcgId) {
        if self.seen.len() <= id.index() {
            self.seen.resize(id.index() + 1, Seen::default());
        }
        let seen = &mut self.seen[id.index()];
        if !seen.is_changed {
            seen.is_changed = true;
            self.changed.push(id);
        }
    }

    /// Those to be looked at.
    pub(super) fn changed(&self) -> &[MemcgId] {
        &self.changed
    }

    pub(super) fn sum(&mut self, lruvecs: &[Option<Lruvec>]) -> [u64; 2] {
        for id in self.changed.drain(..) {
            let lruvec = lruvecs.get(id.index()).and_then(Option::as_ref);
            let inactive = |ty| lruvec.map_or(0, |lruvec| lruvec.active_inactive(ty).1.0);
            let now = Seen {
                pages: FolioType::ALL.map(inactive),
                is_changed: false,
            };
            let before = core::mem::replace(&mut self.seen[id.index()], now);
            for (total, (now, before)) in self
                .total
                .iter_mut()
                .zip(now.pages.into_iter().zip(before.pages))
            {
                *total = *total + now - before;
            }
        }
        self.total
    }
}

impl Machine {
    /// Inactive pages of the node that reclaim may take: anonymous ones only where there is swap.
    pub(super) fn inactive(&mut self) -> Pages {
        self.flush();
        let sum = self.inactive.sum(&self.lruvecs);
        let anon = match self.tree.swap_available(MemcgId::ROOT) {
            Pages(0) => 0,
            _ => sum[FolioType::Anon.index()],
        };
        Pages(anon + sum[FolioType::File.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::machine;
    use crate::memcg::MemcgProfile;
    use crate::units::Millis;

    fn counted(machine: &Machine) -> u64 {
        let tenants = machine.tree().pre_order(MemcgId::ROOT);
        let each = tenants
            .iter()
            .flat_map(|&id| FolioType::ALL.map(|ty| machine.lruvec(id).active_inactive(ty).1.0));
        each.sum()
    }

    #[test]
    fn the_sum_follows_whatever_changes() {
        let (mut machine, ids) = machine(MemcgProfile::Newer, 5, 100);
        assert_eq!(machine.inactive(), Pages(counted(&machine)));
        for (n, &id) in ids.iter().enumerate() {
            (0..n).for_each(|_| machine.age(id, Millis(1)));
            assert_eq!(machine.inactive(), Pages(counted(&machine)));
        }
        assert_eq!(machine.inactive(), Pages(400), "all but the first");
        machine
            .lruvec_mut(ids[4])
            .unmap_range(crate::folio::FolioId(0), 100);
        assert_eq!(machine.inactive(), Pages(300));
    }
}
