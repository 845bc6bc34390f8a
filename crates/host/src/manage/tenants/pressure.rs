//! Memory pressure of the whole host: if too little memory is available, all tenants are reclaimed
//! from.
//!
//! Invariant: reclaim begins when available memory is below the low watermark and ends when it is
//! above the high one, like kswapd. Between the two a reclaim in progress continues, and none
//! begins. While tasks stall for memory ([PSI](crate::system::pressure)), reclaim begins at the
//! high watermark, because the kernel is already reclaiming. If the root has a budget, nothing is
//! reclaimed for the host, and clients that wait for pressure are notified instead.

use std::time::{Duration, Instant};

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::units::PAGE_SIZE;
use engine::vmscan::{Headroom, PAGES_PER_MEASUREMENT};
use engine::{Limit, Pages, ScanReason};

use super::super::IDLE_MAX;
use super::super::reclaim_totals::ReclaimTotals;
use super::Tenants;
use super::under_way::ReclaimReason;
use crate::system::Proc;

/// Time between two measurements while nothing must be reclaimed.
const EVERY: Duration = Duration::from_secs(1);
/// Pause after a reclaim that got nothing: all reclaimable memory is swapped out.
const IN_VAIN: Duration = Duration::from_secs(10);
/// The host counts as stalled if some task stalled in at least this share of the last 10 s; in
/// hundredths of a percent.
const STALLED: u32 = 1000;

/// Bytes of available memory (MemAvailable of /proc/meminfo) by which reclaim for the host is
/// started and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// If less is available, reclaim begins.
    pub low: u64,
    /// If more is available, reclaim ends.
    pub high: u64,
}

/// When the host's memory is measured next, and whether reclaim for the host is in progress.
#[derive(Debug)]
pub(super) struct Pressure {
    /// The watermarks; `None` disables reclaim for the host.
    marks: Option<Watermarks>,
    /// When the host's memory is measured next.
    next: Instant,
    /// Whether reclaim has begun and not yet reached the high watermark.
    is_on: bool,
}

impl Pressure {
    pub(super) fn new(marks: Option<Watermarks>) -> Pressure {
        Pressure {
            marks,
            next: Instant::now(),
            is_on: false,
        }
    }

    /// Replaces the watermarks; an earlier reclaim is forgotten.
    pub(super) fn set_marks(&mut self, marks: Option<Watermarks>) {
        *self = Pressure::new(marks);
    }

    /// Returns the number of pages to reclaim when `available` bytes of the host's memory are
    /// available.
    fn wanted(&mut self, available: u64, is_stalled: bool) -> Pages {
        let Some(Watermarks { low, high }) = self.marks else {
            return Pages(0);
        };
        let begin = if self.is_on || is_stalled { high } else { low };
        self.is_on = available < begin;
        match self.is_on {
            true => Pages((high - available).div_ceil(PAGE_SIZE)),
            false => Pages(0),
        }
    }
}

impl Tenants {
    /// Starts reclaim from tenants for memory that the host lacks. Returns the time until the next
    /// measurement.
    pub(super) fn reclaim_for_host(&mut self) -> Duration {
        if self.pressure.marks.is_none() || self.is_reclaiming_for_host() {
            return IDLE_MAX;
        }
        let wait = self.pressure.next.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            return wait;
        }
        self.pressure.next = Instant::now() + EVERY;
        let proc = self.driver.watch.proc();
        let Ok(memory) = proc.memory() else {
            return EVERY;
        };
        let is_stalled = is_stalled(proc);
        let wanted = self.pressure.wanted(memory.available, is_stalled);
        if wanted == Pages(0) {
            return EVERY;
        }
        // A budget of the root already limits the tenants, so nothing is reclaimed then. Clients
        // that wait for pressure are notified all the same.
        let root = self.tenants.get(&MemcgId::ROOT);
        if root.is_none_or(|root| root.limits.max != Limit::Max) {
            self.note_host_pressure();
            return EVERY;
        }
        let why = ReclaimReason::Pressure {
            available: memory.available,
            wanted: Pages(wanted.0.min(PAGES_PER_MEASUREMENT)),
        };
        self.start_reclaim(MemcgId::ROOT, why);
        Duration::ZERO
    }

    /// Returns the engine's work for the host, as a list of one reclaim.
    pub(super) fn step_for_host(&self, wanted: Pages) -> Vec<Ongoing> {
        let request = ReclaimRequest {
            reason: ScanReason::Background,
            nr: wanted,
            swappiness: None,
            now: self.now(),
        };
        vec![Ongoing::once(MemcgId::ROOT, request)]
    }

    /// Ends a reclaim for the host, and sets the time of the next measurement.
    pub(super) fn end_host_reclaim(
        &mut self,
        totals: &ReclaimTotals,
        available: u64,
        wanted: Pages,
    ) {
        self.pressure.next = Instant::now() + rest_after(Pages(totals.evicted), wanted);
        self.note_host_pressure();
        self.say_why_stuck("", totals);
        if totals.evicted > 0 {
            self.act(format!(
                "paged out {} pages of all tenants: the host has {} MiB available",
                totals.evicted,
                available >> 20
            ));
        }
    }

    /// Notes that the host lacks memory, for clients of the root's reports and of those of `host`.
    pub(super) fn note_host_pressure(&mut self) {
        let host = self.host.as_ref().map(|host| host.memcg);
        self.reclaimed_from.extend(host);
        self.reclaimed_from.insert(MemcgId::ROOT);
    }

    /// Notes that memory was reclaimed from a tenant for lack of it. Clients of its report and of
    /// the reports of all tenants above it are notified: these reports count the same memory.
    pub(super) fn note_pressure(&mut self, memcg: MemcgId) {
        let tree = self.driver.machine.tree();
        let above = std::iter::successors(Some(memcg), |memcg| tree.parent(*memcg));
        self.reclaimed_from.extend(above);
    }

    /// Replaces the watermarks; `None` to disable reclaim for the host.
    pub fn set_watermarks(&mut self, marks: Option<Watermarks>) {
        self.pressure.set_marks(marks);
    }
}

/// Returns the pause after a reclaim for the host that got `got` of `wanted` pages.
fn rest_after(got: Pages, wanted: Pages) -> Duration {
    match got {
        Pages(0) => IN_VAIN,
        got if Headroom::is_worth_it(got, wanted) => Duration::ZERO,
        // With no pause, reclaim would request only a few pages again and again.
        _ => EVERY,
    }
}

/// Whether some task of the host stalled for memory in at least [`STALLED`] of the last 10 s.
fn is_stalled(proc: &Proc) -> bool {
    let pressure = proc.pressure().ok().flatten();
    pressure.is_some_and(|pressure| pressure.some.avg10 >= STALLED)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::system::testing::Directory;

    const MIB: u64 = 1 << 20;

    /// The share of the last 10 s in which tasks stalled is parsed from the kernel's format.
    #[test]
    fn a_host_counts_as_stalled_from_a_tenth_of_the_time() {
        let says = |avg10: &str| {
            let directory = Directory::new("stalled");
            let folder = directory.0.join("pressure");
            std::fs::create_dir(&folder).expect("a directory");
            let line = |kind| format!("{kind} avg10={avg10} avg60=0.00 avg300=0.00 total=1\n");
            std::fs::write(folder.join("memory"), line("some") + &line("full")).expect("a file");
            is_stalled(&Proc::at(&directory.0).expect("a directory"))
        };
        assert!(says("10.00") && !says("9.99"));
        // Without PSI, stalls are unknown.
        let nothing = Directory::new("no-psi");
        assert!(!is_stalled(
            &Proc::at(Path::new(&nothing.0)).expect("a directory")
        ));
    }

    #[test]
    fn reclaim_begins_below_the_low_watermark_and_ends_above_the_high_one() {
        let marks = Watermarks {
            low: 100 * MIB,
            high: 200 * MIB,
        };
        let mut pressure = Pressure::new(Some(marks));
        for (available, is_stalled, wanted) in [
            (150, false, 0),
            (99, false, 101),
            (150, false, 50),
            (200, false, 0),
            // Once above the high watermark, reclaim does not begin again between the watermarks.
            (150, false, 0),
            (150, true, 50),
            (201, true, 0),
        ] {
            let got = pressure.wanted(available * MIB, is_stalled);
            assert_eq!(got, Pages(wanted * 256), "{available} {is_stalled}");
        }
        assert_eq!(Pressure::new(None).wanted(0, true), Pages(0));
    }

    /// Regression: if a reclaim got a single page of all that the host lacked, the next one began
    /// without a pause, again and again.
    #[test]
    fn the_less_is_reclaimed_the_longer_the_pause() {
        for (got, rest) in [
            (0, IN_VAIN),
            (1, EVERY),
            (255, EVERY),
            (256, Duration::ZERO),
        ] {
            assert_eq!(
                rest_after(Pages(got), Pages(PAGES_PER_MEASUREMENT)),
                rest,
                "{got}"
            );
        }
        // If the host lacks few pages, few reclaimed pages are enough.
        assert_eq!(rest_after(Pages(1), Pages(20)), Duration::ZERO);
    }
}
