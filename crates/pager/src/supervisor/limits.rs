//! `memory.max` and `memory.high`: measured by the kernel, held by reclaim and a page budget.
//!
//! Near a limit every page that a target adds is taken off a budget in shared memory; when it is
//! used up, first touches and refaults wait until the manager gives more (or is dead).
//!
//! Invariant: a limit never stops a program for good. When nothing can leave (the store is full,
//! `--swap-max` is reached, everything is locked) the budget is lifted, the limit is passed, and
//! the report tells so; the kernel would kill the program there.

use super::Supervisor;
use super::room::{Bounds, PAGE, Slope};
use crate::options::{Bytes, Limit as UserLimit};
use crate::target::link::Lost;
use crate::target::reclaim::Cause;
use engine::{Millis, ScanReason};
use keeper::layout::ctl;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// So much a program can touch for the first time between two looks without a budget.
const NEAR: u64 = 128 << 20;
/// Pages a slice: the budget follows after each.
const SLICE: u64 = 1024;
/// Reclaim in vain for so long, and so often (this process may have been kept off the processor),
/// means that nothing can leave.
const IN_VAIN: Duration = Duration::from_millis(300);
const TIMES: u32 = 20;
/// Then it is tried again this often.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// How near the limits the family is.
#[derive(Default, Debug)]
pub(crate) struct Limit {
    resident: u64,
    near: bool,
    /// More is to go than could be taken in this look.
    behind: bool,
    held: bool,
    slope: Slope,
    last: Millis,
    /// Pages that may come before the next look.
    allowed: u64,
    vain: Vain,
    pub(crate) max_events: u64,
}

/// Since when reclaim has moved nothing.
#[derive(Default, Debug)]
struct Vain {
    since: Option<Instant>,
    times: u32,
    tried: Option<Instant>,
}

impl Vain {
    /// Nothing can leave.
    fn given_up(&self) -> bool {
        self.times >= TIMES && self.since.is_some_and(|at| at.elapsed() > IN_VAIN)
    }

    fn worth_a_try(&self) -> bool {
        !self.given_up() || self.tried.is_none_or(|at| at.elapsed() > TRY_AGAIN)
    }

    fn note(&mut self, gone: u64) {
        let now = Instant::now();
        self.tried = Some(now);
        if gone == 0 {
            self.since = self.since.or(Some(now));
            self.times = self.times.saturating_add(1);
        } else {
            *self = Vain::default();
        }
    }
}

impl Limit {
    /// How long to sleep before the next look, if a limit has a say: half the time in which the
    /// budget can be used up.
    pub(crate) fn pause(&self) -> Option<Duration> {
        /// No keeper brings pages faster.
        const PAGE_US: u64 = 10;
        let half = (self.allowed / 2).saturating_mul(PAGE_US);
        let us = if self.behind {
            100
        } else {
            half.clamp(500, 20_000)
        };
        (self.near && !self.vain.given_up()).then_some(Duration::from_micros(us))
    }

    /// Close enough to the limit that every new mapping counts.
    pub(crate) fn near(&self) -> bool {
        self.near
    }

    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }
}

impl Supervisor {
    /// Anonymous bytes of all targets by the kernel's count.
    fn measure(&self) -> Vec<u64> {
        self.targets.iter().map(|t| t.sizes().anon).collect()
    }

    pub(super) fn bytes_of(&self, limit: UserLimit, resident: u64) -> Option<u64> {
        let whole = resident + self.looks.last.stored;
        limit.resolve(Bytes(whole)).map(|b| b.0)
    }

    fn bounds(&self, resident: u64) -> Bounds {
        Bounds {
            max: self.bytes_of(self.options.limits.max, resident),
            high: self.bytes_of(self.options.limits.high, resident),
        }
    }

    /// Brings the family under its limits and gives out the budget.
    pub(super) fn hold_limits(&mut self, now: Millis) -> Result<(), (usize, Lost)> {
        let sizes = self.measure();
        let resident: u64 = sizes.iter().sum();
        self.limit.resident = resident;
        let bounds = self.bounds(resident);
        let Some(upper) = bounds.upper() else {
            self.peak = self.peak.max(resident);
            return Ok(());
        };
        self.limit.near = resident > upper / 8 * 6 || upper - resident < NEAR;
        let over = bounds.max.is_some_and(|max| resident > max);
        if over && self.limit.held {
            self.limit.max_events += 1;
        }
        self.publish(bounds, resident, now);
        self.reclaim_surplus(bounds, sizes, now)?;
        let resident = self.limit.resident;
        self.limit.held |= resident <= upper && (over || self.limit.near);
        if self.limit.held || resident <= upper {
            self.peak = self.peak.max(resident);
        }
        Ok(())
    }

    /// Takes what is too much, for at most an interval; the budget follows after each slice.
    fn reclaim_surplus(
        &mut self,
        bounds: Bounds,
        mut sizes: Vec<u64>,
        now: Millis,
    ) -> Result<(), (usize, Lost)> {
        let begin = Instant::now();
        let mut surplus = self.surplus(bounds);
        if surplus > 0 && !self.limit.vain.worth_a_try() {
            return Ok(());
        }
        let mut total = 0;
        let wanted = surplus;
        while surplus > 0 && begin.elapsed().as_millis() < u128::from(self.options.interval.0) {
            let Some(i) = largest(&sizes) else { break };
            let want = surplus.div_ceil(PAGE).min(SLICE);
            let gone = self.reclaim_from(i, want, now).map_err(|e| (i, e))?;
            total += gone;
            let fresh = self.measure();
            let resident = fresh.iter().sum();
            sizes[i] = if gone > 0 { fresh[i] } else { 0 };
            self.limit.resident = resident;
            self.publish(bounds, resident, now);
            surplus = self.surplus(bounds);
        }
        self.limit.behind = surplus > 0 && total > 0;
        if wanted > 0 && self.dry.is_none() {
            self.limit.vain.note(total);
        }
        if wanted > 0 && self.limit.vain.given_up() {
            self.publish(bounds, self.limit.resident, now);
        }
        Ok(())
    }

    /// Bytes that must go. In a dry run, what would have left is taken as gone.
    fn surplus(&self, bounds: Bounds) -> u64 {
        let would = self
            .dry
            .as_ref()
            .map_or(0, |dry| dry.would_evict_pages * PAGE);
        bounds.surplus(self.limit.resident.saturating_sub(would))
    }

    /// Pages that may come before the next look.
    fn publish(&mut self, bounds: Bounds, resident: u64, now: Millis) {
        let ms = now.since(self.limit.last).0;
        self.limit.last = now;
        let pages = bounds.allowance(resident, &mut self.limit.slope, ms);
        self.limit.allowed = pages;
        let holds = self.limit.near && self.dry.is_none() && !self.limit.vain.given_up();
        let share = pages / self.targets.len().max(1) as u64;
        for t in &self.targets {
            t.link.beat();
            let empty = t
                .link
                .ctl(ctl::BUDGET)
                .swap(share.max(u64::from(pages > 0)), Ordering::AcqRel)
                == 0;
            let held = t.link.ctl(ctl::THROTTLE);
            let lifted = held.swap(u64::from(holds), Ordering::AcqRel) == 1 && !holds;
            if lifted || (holds && empty && pages > 0) {
                t.link.nudge();
            }
        }
    }

    fn reclaim_from(&mut self, i: usize, pages: u64, now: Millis) -> Result<u64, Lost> {
        let room = self.swap_room();
        let t = &mut self.targets[i];
        t.refresh_if_stale()?;
        t.read_log();
        let dry = self.dry.as_mut();
        let words = "over --memory-max or --memory-high; the oldest goes first";
        let mut cause = Cause {
            reason: ScanReason::Direct,
            words,
            dry,
        };
        let gone = t.shrink(pages.min(room), now, &mut cause)?;
        Ok(if self.dry.is_some() { 0 } else { gone })
    }

    /// Pages that may still go to the store (`--swap-max`), never too many: what came back since
    /// the last look counts as still there.
    pub(super) fn swap_room(&mut self) -> u64 {
        let Some(max) = self.bytes_of(self.options.limits.swap_max, self.limit.resident) else {
            return u64::MAX;
        };
        if self.stored_at_most() >= max {
            self.look_again();
        }
        max.saturating_sub(self.stored_at_most()) / PAGE
    }

    fn stored_at_most(&self) -> u64 {
        let put_out = self.evicted_pages() - self.looks.evicted_then;
        self.looks.last.stored + put_out * PAGE
    }

    /// Takes `bytes` from the family because somebody asked. Bytes that left.
    pub(super) fn reclaim_now(&mut self, bytes: u64) -> u64 {
        let now = self.now();
        let mut left = 0;
        for i in 0..self.targets.len() {
            let want = bytes.saturating_sub(left * PAGE).div_ceil(PAGE);
            let want = want.min(self.swap_room());
            if want == 0 {
                break;
            }
            let t = &mut self.targets[i];
            if t.refresh().is_ok() && t.discover().is_ok() {
                let words = "asked for by `pagetide reclaim`";
                let dry = self.dry.as_mut();
                let mut cause = Cause {
                    reason: ScanReason::Proactive,
                    words,
                    dry,
                };
                left += t.shrink(want, now, &mut cause).unwrap_or(0);
            }
        }
        left * PAGE
    }
}

fn largest(sizes: &[u64]) -> Option<usize> {
    let (i, &size) = sizes.iter().enumerate().max_by_key(|(_, s)| **s)?;
    (size > 0).then_some(i)
}
