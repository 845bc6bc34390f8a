//! Reclaims in progress: one after another runs for a slice.
//!
//! Invariants: a reclaim ends once, and its result is what that reclaim took, even if other work
//! ran between its slices. If its tenant is removed, it ends with ENODEV. A new reclaim waits for
//! one slice of each earlier one, however large the earlier ones are. A reclaim that waits for a
//! further scan takes no time of others.

use std::collections::VecDeque;
use std::time::Duration;

use engine::machine::Ongoing;
use engine::memcg::MemcgId;
use engine::policy::Order;
use engine::{Pages, Swappiness};
use rustix::io::Errno;

use super::super::IDLE_MAX;
use super::super::driver::PageOutOptions;
use super::super::options::Ask;
use super::super::reclaim_totals::ReclaimTotals;
use super::super::wakeup::Pause;
use super::further_scans::FurtherScans;
use super::{SLICE, Tenants};
use crate::watch::WatchError;

/// A reclaim that a user requested.
#[derive(Debug)]
pub(super) struct RequestedReclaim {
    /// The number that the caller got; [`Tenants::reclaimed`] reports the result under it.
    pub(super) number: u64,
    pub(super) ask: Ask,
    pub(super) swappiness: Option<Swappiness>,
    /// The index of the only NUMA node to reclaim from; `None` for all nodes.
    pub(super) node: Option<usize>,
    /// For reclaim by age: pages accessed after this time (milliseconds of the age table) are not
    /// reclaimed. `None` for other reclaim.
    pub(super) idle_since: Option<u64>,
    /// Number of pages that the engine must still reclaim.
    pub(super) pages: Pages,
    /// Bytes of page cache to drop before the engine reclaims; `None` until they are measured.
    pub(super) cache: Option<u64>,
    /// Number of page-cache pages dropped so far.
    pub(super) dropped: u64,
    /// Serials of tenants from which the kernel may drop more page cache, in place of pages that
    /// the engine could not reclaim; `None` until their cache is measured.
    pub(super) droppers: Option<VecDeque<u64>>,
    /// Number of pages that the kernel reclaimed in place of shared pages that were skipped.
    pub(super) by_kernel: u64,
}

impl RequestedReclaim {
    /// Returns the options with which pages are paged out.
    fn how(&self) -> PageOutOptions {
        PageOutOptions {
            idle_since: self.idle_since,
            all: self.ask == Ask::All,
            node: self.node,
            ..PageOutOptions::default()
        }
    }
}

/// Memory that is lacking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lack {
    /// The node that lacks it: its index ([`crate::ages::Ages::nodes`]), then its number. `None`:
    /// the whole host.
    pub(super) node: Option<(usize, u32)>,
    /// Bytes that are available there.
    pub(super) available: u64,
    /// Number of pages to reclaim.
    pub(super) wanted: Pages,
}

/// Why a reclaim runs, with the data that are needed when it ends.
#[derive(Debug)]
pub(super) enum ReclaimReason {
    /// A user requested it.
    RequestedReclaim(RequestedReclaim),
    /// A limit of a tenant requires it.
    Limit {
        /// Usage of the tenant when the reclaim began, in pages.
        usage: Pages,
        /// Number of pages by which the tenant, at that usage, was below the point where reclaim
        /// begins.
        left: Pages,
        /// Maximum number of pages that the engine reclaims.
        most: Pages,
        /// Whether the kernel also enforces the limit.
        has_hard_limit: bool,
    },
    /// The host, or one of its memory nodes, lacks memory.
    Pressure(Lack),
    /// A tenant's policy ordered it.
    Policy(PolicyOrder),
}

/// An order of a policy in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyOrder {
    pub(super) order: Order,
    /// How the pages are paged out.
    pub(super) how: PageOutOptions,
    /// Processor time that all page-out had taken when this request began.
    pub(super) began: Duration,
    /// Bytes of page cache to drop first; `None` until they are measured.
    pub(super) cache: Option<u64>,
    /// Page cache that was dropped or, in a dry run, would have been.
    pub(super) dropped: Pages,
    /// Processor time of dropping page cache.
    pub(super) dropping: Duration,
}

/// A reclaim in progress, and its results so far.
#[derive(Debug)]
pub(super) struct OngoingReclaim {
    /// Serial of the tenant. The engine's id is not used, as a later tenant may get the id of a
    /// removed one.
    serial: u64,
    pub(super) why: ReclaimReason,
    /// How the pages are paged out.
    how: PageOutOptions,
    /// Whether ages are fresh enough to begin, or a scan to make them so was begun.
    has_scanned: bool,
    /// Further scans, if the request was not met.
    further_scans: FurtherScans,
    /// Remaining reclaims of the engine ("steps"), in the order in which they run: serial of the
    /// step's tenant, then the step. `None` before the first slice.
    steps: Option<VecDeque<(u64, Ongoing)>>,
    /// For reclaim by age: serial of the tenant in which a generation was opened for its step.
    aged: Option<u64>,
    /// Results so far.
    totals: ReclaimTotals,
}

impl Tenants {
    /// Adds a reclaim from an existing tenant to those in progress.
    pub(super) fn start_reclaim(&mut self, memcg: MemcgId, why: ReclaimReason) {
        let how = match &why {
            ReclaimReason::RequestedReclaim(requested) => requested.how(),
            ReclaimReason::Policy(ordered) => ordered.how,
            // At a hard limit the kernel reclaims from all processes in the group, and clears their
            // accessed bits.
            ReclaimReason::Limit { has_hard_limit, .. } => PageOutOptions {
                clears: !has_hard_limit,
                ..PageOutOptions::default()
            },
            ReclaimReason::Pressure(lack) => PageOutOptions {
                clears: true,
                node: lack.node.map(|(index, _)| index),
                ..PageOutOptions::default()
            },
        };
        // A policy decides right after a scan, so ages are fresh.
        let has_scanned = matches!(why, ReclaimReason::Policy(_));
        let serial = self.serial(memcg).unwrap_or(u64::MAX);
        self.note_under_way(memcg, &why, true);
        self.under_way.push_back(OngoingReclaim {
            serial,
            why,
            how,
            has_scanned,
            further_scans: FurtherScans::default(),
            steps: None,
            aged: None,
            totals: ReclaimTotals::default(),
        });
    }

    /// Cancels the requested reclaim `number`: it ends with EINTR, and reclaimed pages stay swapped
    /// out.
    pub fn cancel(&mut self, number: u64) {
        let is_it = |one: &OngoingReclaim| matches!(&one.why, ReclaimReason::RequestedReclaim(requested) if requested.number == number);
        if let Some(at) = self.under_way.iter().position(is_it) {
            self.under_way.remove(at);
            self.ended.push((number, Err(Errno::INTR)));
        }
    }

    /// Drops the order of a tenant's policy. Returns the number of pages paged out for it, then the
    /// number of page-cache pages dropped; `None` if no order is in progress.
    pub(super) fn drop_ordered(&mut self, memcg: MemcgId) -> Option<(u64, u64)> {
        let serial = self.serial(memcg)?;
        let is_it = |one: &OngoingReclaim| {
            one.serial == serial && matches!(one.why, ReclaimReason::Policy(_))
        };
        let one = self
            .under_way
            .remove(self.under_way.iter().position(is_it)?)?;
        self.note_under_way(memcg, &one.why, false);
        let dropped = match one.why {
            ReclaimReason::Policy(ordered) if !ordered.how.dry_run => ordered.dropped.0,
            _ => 0,
        };
        Some((one.totals.evicted, dropped))
    }

    /// Whether a reclaim for a limit of this tenant is in progress.
    pub(super) fn is_reclaimed_for_limit(&self, memcg: MemcgId) -> bool {
        self.tenants
            .get(&memcg)
            .is_some_and(|one| one.is_reclaimed_for_limit)
    }

    /// Records on the tenant that a reclaim for a limit or a policy begins or ends. Otherwise all
    /// reclaims would be searched, which is slow with thousands of tenants.
    fn note_under_way(&mut self, memcg: MemcgId, why: &ReclaimReason, is_begun: bool) {
        let Some(tenant) = self.tenants.get_mut(&memcg) else {
            return;
        };
        match why {
            ReclaimReason::Limit { .. } => tenant.is_reclaimed_for_limit = is_begun,
            ReclaimReason::Policy(_) => tenant.has_policy_order = is_begun,
            ReclaimReason::RequestedReclaim(_) | ReclaimReason::Pressure(_) => {}
        }
    }

    /// Whether all tenants are being reclaimed from because the host lacks memory.
    pub(super) fn is_reclaiming_for_host(&self) -> bool {
        let is_it = |one: &OngoingReclaim| matches!(one.why, ReclaimReason::Pressure(_));
        self.under_way.iter().any(is_it)
    }

    /// Whether an order of the tenant's policy is in progress.
    pub(super) fn has_policy_order(&self, memcg: MemcgId) -> bool {
        self.tenants
            .get(&memcg)
            .is_some_and(|one| one.has_policy_order)
    }

    /// Continues reclaims in progress for one slice in total, and at least one of them. Returns
    /// whether there was any. One call serves several short reclaims, because the caller visits all
    /// tenants between two calls.
    pub(super) fn continue_reclaims(&mut self) -> Result<bool, WatchError> {
        let (slice, mut went) = (Pause::after(&self.wakeup, SLICE), false);
        for _ in 0..self.under_way.len() {
            if self.looking.is_some() || (went && slice.is_due()) {
                break;
            }
            went |= self.go_on()?;
        }
        Ok(went)
    }

    /// Continues the next reclaim for a slice. Returns whether there was one.
    fn go_on(&mut self) -> Result<bool, WatchError> {
        let Some(mut one) = self.under_way.pop_front() else {
            return Ok(false);
        };
        let Some(memcg) = self.by_serial(one.serial) else {
            if let ReclaimReason::RequestedReclaim(requested) = one.why {
                self.ended.push((requested.number, Err(Errno::NODEV)));
            }
            return Ok(true);
        };
        if one.further_scans.is_waiting() {
            let scans = self.driver.scans();
            if !one.further_scans.has_scanned(scans) && !self.is_scan_worth_it() {
                self.under_way.push_back(one);
                return Ok(false);
            }
            one.has_scanned = one.further_scans.end_wait(scans);
        }
        if !std::mem::replace(&mut one.has_scanned, true) && self.is_scan_worth_it() {
            // A requested reclaim needs fresh ages of its tenant.
            let is_requested = matches!(one.why, ReclaimReason::RequestedReclaim(_));
            let requested = is_requested.then_some(one.serial).into_iter().collect();
            self.under_way.push_front(one);
            self.begin_scan(false, &requested)?;
            return Ok(true);
        }
        let is_over = self.slice(memcg, &mut one)
            && match &mut one.why {
                ReclaimReason::RequestedReclaim(requested) => {
                    self.drop_remaining_cache(memcg, requested, one.totals.evicted)
                        && self.reclaim_requested_shared(memcg, requested, &one.totals)
                }
                _ => true,
            };
        match is_over && !self.needs_further_scan(memcg, &mut one) {
            true => self.end_one(memcg, one),
            false => self.under_way.push_back(one),
        }
        Ok(true)
    }

    /// Whether a requested amount was not met, and may be met after another scan; then the reclaim
    /// waits for the scan and begins anew.
    fn needs_further_scan(&mut self, memcg: MemcgId, one: &mut OngoingReclaim) -> bool {
        let ReclaimReason::RequestedReclaim(requested) = &one.why else {
            return false;
        };
        let is_amount = matches!(requested.ask, Ask::Bytes(_));
        if !is_amount || one.totals.no_swap || one.totals.refused.is_some() {
            return false;
        }
        // Where tenants are protected, less than requested is what a caller expects; and the more
        // often reclaim tries, the more the shares of protected siblings drift apart.
        let below = self.below(memcg);
        let mut tenants = below.iter().filter_map(|id| self.tenants.get(id));
        if tenants.any(|one| one.is_protected()) {
            return false;
        }
        let missing = requested.pages.less(Pages(one.totals.evicted));
        let machine = &mut self.driver.machine;
        let unprotected = machine.tree().pre_order(memcg).into_iter().map(|id| {
            let resident = machine.lruvec(id).resident();
            machine.unprotected_from(memcg, id).min(resident).0
        });
        if !FurtherScans::may_yield(missing, Pages(unprotected.sum())) {
            return false;
        }
        let (wait, scans) = (self.until_extra_scan(), self.driver.scans());
        let waits = one.further_scans.begin(missing, wait, scans);
        if waits {
            one.steps = None;
        }
        waits
    }

    /// Returns the time until the next scan for a reclaim that waits for one; [`IDLE_MAX`] if none
    /// waits.
    pub(super) fn until_further_scan(&self) -> Duration {
        let waits = |one: &OngoingReclaim| one.further_scans.is_waiting();
        match self.under_way.iter().any(waits) {
            true => self.until_extra_scan(),
            false => IDLE_MAX,
        }
    }

    /// Runs one slice of a reclaim. Returns whether the reclaim is complete.
    fn slice(&mut self, memcg: MemcgId, one: &mut OngoingReclaim) -> bool {
        let pause = Pause::after(&self.wakeup, SLICE);
        let is_dropped = match (&one.steps, &mut one.why) {
            (None, ReclaimReason::RequestedReclaim(requested)) => {
                self.drop_oldest_cache(memcg, requested, &pause)
            }
            (None, ReclaimReason::Policy(ordered)) => {
                self.drop_ordered_cache(memcg, ordered, &pause)
            }
            _ => true,
        };
        if !is_dropped {
            return false;
        }
        let now = self.now().millis();
        let mut steps = match one.steps.take() {
            Some(steps) => steps,
            None => {
                let steps = match &mut one.why {
                    ReclaimReason::RequestedReclaim(requested) => {
                        self.requested_steps(memcg, (requested, one.totals.evicted), now)
                    }
                    ReclaimReason::Limit { most, .. } => Tenants::step_for_limit(memcg, *most, now),
                    ReclaimReason::Pressure(lack) => Tenants::step_for_host(*lack, now),
                    ReclaimReason::Policy(ordered) => self.step_ordered(memcg, ordered, now),
                };
                let of = |step: Ongoing| Some((self.serial(step.target())?, step));
                steps.into_iter().filter_map(of).collect()
            }
        };
        while let Some((serial, step)) = steps.front_mut() {
            let is_there = self.by_serial.get(serial) == Some(&step.target());
            let by_age = matches!(&one.why, ReclaimReason::RequestedReclaim(requested) if matches!(requested.ask, Ask::OlderThan(_)));
            if is_there && by_age && one.aged != Some(*serial) {
                // Aging moves each page of the tenant, so it is done right before the tenant's
                // step, and not for all tenants at once.
                one.aged = Some(*serial);
                self.driver.age(step.target(), now);
                if pause.is_due() {
                    break;
                }
            }
            let is_over = !is_there
                || self.driver.page_out_until(
                    (one.how, &pause),
                    &mut one.totals,
                    |machine, kernel| machine.resume(step, now, kernel),
                );
            if is_over {
                steps.pop_front();
            }
            if pause.is_due() {
                break;
            }
        }
        let is_over = steps.is_empty();
        one.steps = Some(steps);
        is_over
    }

    /// Ends a complete reclaim: reports its result to what caused it.
    fn end_one(&mut self, memcg: MemcgId, one: OngoingReclaim) {
        let OngoingReclaim { why, totals, .. } = one;
        self.note_under_way(memcg, &why, false);
        match why {
            ReclaimReason::RequestedReclaim(requested) => {
                self.end_requested(memcg, requested, totals)
            }
            ReclaimReason::Limit {
                usage, left, most, ..
            } => {
                self.end_limit_reclaim(memcg, &totals, (usage, left, most));
            }
            ReclaimReason::Pressure(lack) => self.end_host_reclaim(&totals, lack),
            ReclaimReason::Policy(ordered) => self.end_ordered(memcg, &ordered, totals),
        }
    }
}
