//! Pressure of the whole host: how little memory is available before tenants give some of theirs.
//!
//! Invariant: between the two marks what began goes on, and nothing begins: as kswapd's low and high. While tasks stall for
//! memory ([PSI](crate::system::pressure)) it begins at the high mark already: the kernel has come before us.

use std::time::{Duration, Instant};

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::{Limit, Pages, ScanReason};

use super::super::IDLE_MAX;
use super::super::room::PAGES_PER_MEASUREMENT;
use super::super::room::Room;
use super::super::tally::Tally;
use super::Tenants;
use super::under_way::Why;
use crate::system::Proc;

/// The host is asked so often, seconds apart, where nothing is wanted.
const EVERY: Duration = Duration::from_secs(1);
/// Nobody gave anything: what could leave has left.
const IN_VAIN: Duration = Duration::from_secs(10);
/// A share of the last 10 s in which some task stalled, hundredths of a percent.
const STALLED: u32 = 1000;

/// How much memory is to be available, bytes (MemAvailable of /proc/meminfo).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// Reclaim begins below this.
    pub low: u64,
    /// It ends above this.
    pub high: u64,
}

/// When it is looked at, and whether it is being relieved.
#[derive(Debug)]
pub(super) struct Pressure {
    marks: Option<Watermarks>,
    next: Instant,
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

    /// Other marks from now on.
    pub(super) fn set_marks(&mut self, marks: Option<Watermarks>) {
        *self = Pressure::new(marks);
    }

    /// How much is to leave, with so much available.
    fn wanted(&mut self, available: u64, is_stalled: bool) -> Pages {
        let Some(Watermarks { low, high }) = self.marks else {
            return Pages(0);
        };
        let begin = if self.is_on || is_stalled { high } else { low };
        self.is_on = available < begin;
        match self.is_on {
            true => Pages((high - available).div_ceil(4096)),
            false => Pages(0),
        }
    }
}

impl Tenants {
    /// Sets out to take from tenants what the host lacks; how long it need not be asked.
    pub(super) fn relieve(&mut self) -> Duration {
        // A budget is the other way to say how much tenants may use.
        let root = self.tenants.get(&MemcgId::ROOT);
        let has_budget = root.is_none_or(|root| root.limits.max != Limit::Max);
        if self.pressure.marks.is_none() || has_budget || self.is_relieving() {
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
        let why = Why::Pressure {
            available: memory.available,
            wanted: Pages(wanted.0.min(PAGES_PER_MEASUREMENT)),
        };
        self.set_out(MemcgId::ROOT, why);
        Duration::ZERO
    }

    /// What the engine is asked for.
    pub(super) fn step_for_host(&self, wanted: Pages) -> Vec<Ongoing> {
        let request = ReclaimRequest {
            reason: ScanReason::Background,
            nr: wanted,
            swappiness: None,
            now: self.now(),
        };
        vec![Ongoing::once(MemcgId::ROOT, request)]
    }

    /// What came of it.
    pub(super) fn end_relief(&mut self, tally: &Tally, available: u64, wanted: Pages) {
        self.pressure.next = Instant::now() + rest_after(Pages(tally.evicted), wanted);
        self.pressed.insert(MemcgId::ROOT);
        self.say_why_stuck("", tally);
        if tally.evicted > 0 {
            self.act(format!(
                "paged out {} pages of all tenants: the host has {} MiB available",
                tally.evicted,
                available >> 20
            ));
        }
    }

    /// Other marks from now on; none for never.
    pub fn set_watermarks(&mut self, marks: Option<Watermarks>) {
        self.pressure.set_marks(marks);
    }
}

/// How long the host is left alone after tenants gave so much of what it lacked.
fn rest_after(got: Pages, wanted: Pages) -> Duration {
    match got {
        Pages(0) => IN_VAIN,
        got if Room::is_worth_it(got, wanted) => Duration::ZERO,
        // A page a time would be asked for without a pause.
        _ => EVERY,
    }
}

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

    /// What programs waited of the last ten seconds, as the kernel tells it.
    #[test]
    fn a_host_stalls_from_a_tenth_of_the_time_on() {
        let says = |avg10: &str| {
            let directory = Directory::new("stalled");
            let folder = directory.0.join("pressure");
            std::fs::create_dir(&folder).expect("a directory");
            let line = |kind| format!("{kind} avg10={avg10} avg60=0.00 avg300=0.00 total=1\n");
            std::fs::write(folder.join("memory"), line("some") + &line("full")).expect("a file");
            is_stalled(&Proc::at(&directory.0).expect("a directory"))
        };
        assert!(says("10.00") && !says("9.99"));
        // Without PSI nobody knows.
        let nothing = Directory::new("no-psi");
        assert!(!is_stalled(
            &Proc::at(Path::new(&nothing.0)).expect("a directory")
        ));
    }

    #[test]
    fn it_begins_below_the_low_mark_and_ends_above_the_high_one() {
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
            // Once above, it does not begin again between the two.
            (150, false, 0),
            (150, true, 50),
            (201, true, 0),
        ] {
            let got = pressure.wanted(available * MIB, is_stalled);
            assert_eq!(got, Pages(wanted * 256), "{available} {is_stalled}");
        }
        assert_eq!(Pressure::new(None).wanted(0, true), Pages(0));
    }

    /// One page of all that the host lacked was enough for tenants to be asked again at once, for as long as they gave one.
    #[test]
    fn the_less_tenants_give_the_later_they_are_asked_again() {
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
        // Where little is lacking, little is enough.
        assert_eq!(rest_after(Pages(1), Pages(20)), Duration::ZERO);
    }
}
