//! `memory.max` and `memory.high`: measured by the kernel, held by reclaim and a page budget.
//!
//! Under a limit every page that a target adds is taken off a budget in shared memory; when it is
//! used up, first touches and refaults wait until reclaim has made room (or the manager is dead).

use super::Supervisor;
use crate::options::{Bytes, Limit as UserLimit};
use crate::target::link::Lost;
use crate::target::proc;
use crate::target::reclaim::Cause;
use engine::{Millis, ScanReason};
use keeper::layout::ctl;
use std::sync::atomic::Ordering;

const PAGE: u64 = 4096;
/// Room that reclaim leaves below the limit, so that a fault seldom waits: 1/64 of it.
const HEADROOM: u64 = 64;

/// How near the limit the family is.
#[derive(Default, Debug)]
pub(crate) struct Limit {
    resident: u64,
    effective: Option<u64>,
    near: bool,
    pressed: bool,
    held: bool,
    pub(crate) max_events: u64,
}

impl Limit {
    /// Faults may be waiting for room.
    pub(crate) fn pressed(&self) -> bool {
        self.pressed
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
        self.targets
            .iter()
            .map(|t| proc::anon_bytes(t.pid).unwrap_or(0))
            .collect()
    }

    fn bytes_of(&self, limit: UserLimit, resident: u64) -> Option<u64> {
        let whole = || {
            resident
                + self
                    .targets
                    .iter()
                    .map(|t| t.census().stored * PAGE)
                    .sum::<u64>()
        };
        match limit {
            UserLimit::Percent(_) => limit.resolve(Bytes(whole())).map(|b| b.0),
            other => other.resolve(Bytes(0)).map(|b| b.0),
        }
    }

    /// Brings the family under its limits and gives out the budget.
    pub(super) fn hold_limits(&mut self, now: Millis) -> Result<(), (usize, Lost)> {
        let mut sizes = self.measure();
        let resident: u64 = sizes.iter().sum();
        let max = self.bytes_of(self.options.limits.max, resident);
        let high = self.bytes_of(self.options.limits.high, resident);
        let limit = match (max, high) {
            (Some(m), Some(h)) => Some(m.min(h)),
            (m, h) => m.or(h),
        };
        self.limit.effective = limit;
        self.limit.resident = resident;
        let Some(limit) = limit else {
            self.peak = self.peak.max(resident);
            return Ok(());
        };
        self.limit.near = resident > limit / 8 * 6;
        let over = resident > limit;
        if over && self.limit.held {
            self.limit.max_events += 1;
        }
        let goal = limit - limit / HEADROOM;
        let mut left = resident.saturating_sub(goal);
        if over || left > 0 {
            self.publish_budget(limit.saturating_sub(resident));
        }
        while left > 0 {
            let Some(i) = largest(&sizes) else { break };
            let gone = self
                .reclaim_from(i, left.div_ceil(PAGE), now)
                .map_err(|e| (i, e))?;
            let size = proc::anon_bytes(self.targets[i].pid).unwrap_or(0);
            self.targets[i].link.beat();
            let progress = size < sizes[i] || gone > 0;
            sizes[i] = if progress { size } else { 0 };
            left = self.measure().iter().sum::<u64>().saturating_sub(goal);
        }
        let resident: u64 = self.measure().iter().sum();
        self.limit.resident = resident;
        self.limit.held |= resident <= limit && (over || self.limit.near);
        if self.limit.held || resident <= limit {
            self.peak = self.peak.max(resident);
        }
        self.publish_budget(limit.saturating_sub(resident));
        Ok(())
    }

    /// Pages that may come before the next look.
    fn publish_budget(&mut self, room: u64) {
        self.limit.pressed = self.limit.near;
        let near = u64::from(self.limit.near && self.dry.is_none());
        let share = room / PAGE / self.targets.len().max(1) as u64;
        for t in &self.targets {
            t.link.ctl(ctl::BUDGET).store(share, Ordering::Release);
            t.link.ctl(ctl::THROTTLE).store(near, Ordering::Release);
        }
    }

    fn reclaim_from(&mut self, i: usize, pages: u64, now: Millis) -> Result<u64, Lost> {
        let t = &mut self.targets[i];
        if let Ok(done) = t.regions.refresh(t.pid, &t.link) {
            done?;
        }
        t.read_log();
        t.discover()?;
        let dry = self.dry.as_mut();
        let words = "over --memory-max or --memory-high; the oldest generation goes first";
        let mut cause = Cause {
            reason: ScanReason::Direct,
            words,
            dry,
        };
        // In small parts, so that the budget follows quickly.
        let gone = t.shrink(pages.min(2048), now, &mut cause)?;
        Ok(if self.dry.is_some() { 0 } else { gone })
    }

    /// Takes `bytes` from the family because somebody asked. Bytes that left.
    pub(super) fn reclaim_now(&mut self, bytes: u64) -> u64 {
        let now = self.now();
        let mut left = 0;
        for i in 0..self.targets.len() {
            let want = bytes.saturating_sub(left * PAGE).div_ceil(PAGE);
            if want == 0 {
                break;
            }
            let t = &mut self.targets[i];
            if let Ok(Ok(())) = t.regions.refresh(t.pid, &t.link)
                && t.discover().is_ok()
            {
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
