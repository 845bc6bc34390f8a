//! Reclaim that users request.
//!
//! Invariant: a page counts as reclaimed only if the kernel's page tables or counters show that.

use std::collections::BTreeSet;

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::units::PAGE_SIZE;
use engine::{Bytes, Millis, NodeId, Pages, ScanReason, Swappiness};
use rustix::io::Errno;

use super::super::headroom::CACHE_FIRST_SWAPPINESS;
use super::super::options::{Ask, Reclaimed};
use super::super::reclaim_totals::ReclaimTotals;
use super::super::wakeup::Pause;
use super::under_way::{ReclaimReason, RequestedReclaim};
use super::unmapped::{LEAST, drop_in_steps};
use super::{SLICE, Tenants};
use crate::hard_limit::HardLimit;
use crate::system::cgroup::Version;

/// Which pages a requested reclaim takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReclaimFrom {
    /// Swappiness to use instead of the tenants' own; `None` to use theirs.
    pub swappiness: Option<Swappiness>,
    /// The number of the only NUMA node to reclaim from; `None` for all nodes. Only for reclaim of
    /// an amount.
    pub node: Option<u32>,
}

impl Tenants {
    /// Starts a requested reclaim: of an amount (memory.reclaim), by age, or of all pages. From the
    /// root it chooses tenants by [`super::TreeSettings::global`]. It runs in slices
    /// ([`Tenants::work`]). Returns the number under which [`Tenants::reclaimed`] reports the
    /// result.
    ///
    /// # Errors
    /// ENODEV: the tenant is gone. EPERM: the group is the host's and may not be changed. ENXIO:
    /// there is no such node.
    pub fn reclaim(
        &mut self,
        memcg: MemcgId,
        ask: Ask,
        ReclaimFrom { swappiness, node }: ReclaimFrom,
    ) -> Result<u64, Errno> {
        self.may_change(memcg)?;
        let nodes = self.driver.watch.ages().nodes();
        let node = match node {
            None => None,
            Some(number) => Some(nodes.index(number).ok_or(Errno::NXIO)?),
        };
        self.last_requested += 1;
        let idle = match ask {
            Ask::OlderThan(age) => Some(self.now().since(Millis::from(age)).0),
            Ask::Bytes(_) | Ask::All => None,
        };
        let requested = RequestedReclaim {
            number: self.last_requested,
            ask,
            swappiness,
            node,
            idle_since: idle,
            pages: Pages(0),
            cache: None,
            dropped: 0,
            droppers: None,
            by_kernel: 0,
        };
        self.start_reclaim(memcg, ReclaimReason::RequestedReclaim(requested));
        Ok(self.last_requested)
    }

    /// Returns the reclaims that have ended since the last call: number, then result; ENODEV if the
    /// tenant was removed, EINTR if the reclaim was cancelled.
    pub fn reclaimed(&mut self) -> Vec<(u64, Result<Reclaimed, Errno>)> {
        std::mem::take(&mut self.ended)
    }

    /// Drops page cache that is among the tenant's oldest memory, for one slice. Returns whether
    /// that is complete. Dropping gigabytes takes seconds: between slices other requests are
    /// served, and this one may be cancelled.
    pub(super) fn drop_oldest_cache(
        &mut self,
        memcg: MemcgId,
        requested: &mut RequestedReclaim,
        pause: &Pause,
    ) -> bool {
        // The kernel drops page cache of all nodes.
        let may = memcg != MemcgId::ROOT
            && requested.swappiness != Some(Swappiness::ANON_ONLY)
            && requested.node.is_none();
        let mut left = match (requested.cache, requested.ask) {
            (Some(left), _) => left,
            (None, Ask::Bytes(bytes)) if may => self.cache_to_take(memcg, bytes),
            _ => 0,
        };
        if left > 0 {
            let swappiness = self.for_cache(requested);
            requested.dropped += self.take_cache(memcg, (&mut left, swappiness), pause) / PAGE_SIZE;
        }
        requested.cache = Some(left);
        left == 0
    }

    /// Returns the swappiness with which the kernel drops page cache. It is 0 on version 2 if the
    /// request excludes anonymous memory.
    fn for_cache(&self, requested: &RequestedReclaim) -> u8 {
        let is_strict = requested.swappiness == Some(Swappiness::FILE_ONLY);
        match self.groups.version {
            Version::V2 if is_strict => 0,
            _ => CACHE_FIRST_SWAPPINESS,
        }
    }

    /// Drops page cache in place of pages that the engine could not reclaim, for one slice. Returns
    /// whether that is complete. Needed for the root, and for tenants whose cache is not measured
    /// because no user requested their reports.
    pub(super) fn drop_remaining_cache(
        &self,
        memcg: MemcgId,
        requested: &mut RequestedReclaim,
        evicted: u64,
    ) -> bool {
        let mut rest = requested.pages.less(Pages(evicted));
        let may = matches!(requested.ask, Ask::Bytes(_))
            && requested.swappiness != Some(Swappiness::ANON_ONLY)
            && requested.node.is_none();
        let least = Bytes(LEAST).pages();
        let is_little = requested.droppers.is_none() && rest < least;
        if !may || is_little || rest == Pages(0) {
            return true;
        }
        let swappiness = self.for_cache(requested);
        let Some(who) = &mut requested.droppers else {
            // Measuring the cache of all tenants is a slice of its own: there may be many.
            let who = self
                .droppable_tenants(memcg, HardLimit::cache_clean)
                .into_iter();
            requested.droppers = Some(who.filter_map(|(_, id)| self.serial(id)).collect());
            return false;
        };
        let pause = Pause::after(&self.wakeup, SLICE);
        while let Some(serial) = who.front().copied().filter(|_| rest > Pages(0)) {
            let id = self.by_serial(serial);
            let spare = id.and_then(|id| self.droppable_cache(memcg, id, HardLimit::cache_clean));
            let spare = Bytes(spare.unwrap_or(0)).pages().min(rest);
            let is_few = spare < least.min(rest);
            let mut left = if is_few { 0 } else { spare.bytes().0 };
            let hard_limit = id
                .and_then(|id| self.tenants.get(&id))
                .map(|one| &one.hard_limit);
            let got = hard_limit.map_or(0, |hard_limit| {
                drop_in_steps(hard_limit, &mut left, swappiness, &pause)
            });
            let got = Bytes(got).pages();
            (requested.pages, rest) = (requested.pages.less(got), rest.less(got));
            requested.dropped += got.0;
            // Continues with the next tenant if this one has hardly any cache left, or if the
            // kernel dropped less than half of what was requested.
            if left == 0 && (is_few || got.0 == 0 || got.0 < spare.0 / 2) {
                who.pop_front();
            }
            if pause.is_due() {
                break;
            }
        }
        who.is_empty() || rest == Pages(0)
    }

    /// Returns the engine's work for a request, as a list of reclaims. `evicted` pages were paged
    /// out so far, and page cache was dropped before.
    pub(super) fn requested_steps(
        &mut self,
        memcg: MemcgId,
        (requested, evicted): (&mut RequestedReclaim, u64),
    ) -> Vec<Ongoing> {
        let now = self.now();
        let below = self.driver.machine.tree().pre_order(memcg);
        let lruvecs = below.iter().map(|id| self.driver.machine.lruvec(*id));
        let resident = Pages(lruvecs.map(|lruvec| lruvec.resident().0).sum());
        requested.pages = match requested.ask {
            Ask::Bytes(bytes) => Bytes(bytes).pages().less(Pages(requested.dropped)),
            Ask::OlderThan(_) | Ask::All => resident,
        };
        if let Ask::OlderThan(_) = requested.ask {
            let machine = &mut self.driver.machine;
            // The age table has each page's age, so the engine offers all pages but those of its
            // two youngest generations. Each step reclaims only from one tenant's own pages: a step
            // for the whole subtree would take pages that a tenant's own protection keeps.
            let step = |id: &MemcgId| {
                let most = machine.unprotected_from(memcg, *id);
                Ongoing::own_by_age(*id, most, now)
            };
            return below.iter().map(step).collect();
        }
        let request = ReclaimRequest {
            reason: ScanReason::Proactive,
            nr: requested.pages.less(Pages(evicted)),
            swappiness: requested.swappiness,
            now,
        };
        let node = requested.node.map(NodeId::of_index);
        vec![Ongoing::proactive(memcg, request).on_node(node)]
    }

    /// Ends a requested reclaim: stores its result for [`Tenants::reclaimed`].
    pub(super) fn end_requested(
        &mut self,
        memcg: MemcgId,
        requested: RequestedReclaim,
        totals: ReclaimTotals,
    ) {
        let (dropped, by_kernel) = (requested.dropped, requested.by_kernel);
        let all = requested.pages.0 + dropped + by_kernel;
        if let Ok(path) = self.path(memcg) {
            let path = path.display().to_string();
            let node = requested.node.and_then(|index| self.nodes().get(index));
            let node = node.map_or(String::new(), |node| format!(" on memory node {node}"));
            let shared = match by_kernel {
                0 => String::new(),
                pages => format!("; the kernel reclaimed {pages}, as others are shared"),
            };
            self.act(format!(
                "paged out {} pages of /{path}{node}, and dropped {dropped} of files{shared}: {all} were requested (memory.reclaim)",
                totals.evicted,
            ));
        }
        let below: BTreeSet<MemcgId> = self.below(memcg).into_iter().collect();
        let is_below = |home: &MemcgId| below.contains(home);
        let members = self.tenant_map.iter().filter(|(_, home)| is_below(home));
        let members = members.map(|(identity, _)| *identity);
        let got = Reclaimed {
            asked_pages: all,
            evicted_pages: totals.evicted + dropped + by_kernel,
            would_pages: 0,
            kept: totals.kept(),
            pinned_pages: totals.pinned(),
            unknown_pages: self.driver.unknown(members, requested.ask),
            no_swap: totals.no_swap,
            refused: totals.refused,
        };
        self.ended.push((requested.number, Ok(got)));
    }
}
