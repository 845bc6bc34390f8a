//! `pagetide demo`: what a new user should see in half a minute.
//!
//! A program with known cold memory runs twice, as two separate processes that take turns: one
//! alone, the other under `pagetide run`. Both are unmodified. The cold memory of the managed one
//! is found and paged out; then its manager is killed.
//!
//! Invariant: however the demo ends, nothing remains; it succeeds only if every claim holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use daemon::control::{Ask, Request, Response, Tenant, ask, manager_of};
use daemon::options::{Bytes, Millis};
use host::report::{AgeSource, Report};
use rustix::process::{Pid, Signal, kill_process};

use super::live::Live;
use super::stop::gentle_flag;
use crate::failure::Failure;
use crate::terminal::Style;

mod pages;
mod pairs;

mod workload;

mod demo_swap;
mod subject;
mod verdict;

mod picture;

pub(crate) use demo_swap::remove_stale_swap;
pub(crate) use workload::workload;

use demo_swap::DemoSwap;
use subject::Workload;
use verdict::{Measured, Sizes};

/// First argument of the process that runs the demo's program. It is no command for users.
pub(crate) const WORKLOAD: &str = "__demo-workload";

/// Age from which memory is cold in the demo.
const COLD_AGE: Duration = Duration::from_secs(2);
/// Time for which the first program runs alone, before the managed one is started.
const ALONE_TIME: Duration = Duration::from_secs(1);
/// Time for which the manager scans before the reclaim: after that, all cold memory is older than
/// [`COLD_AGE`] by several scans.
const WATCH_TIME: Duration = Duration::from_secs(4);
/// Maximum number of checks after that, a second apart, for whether all cold memory was found: on a
/// busy machine scans are late.
const FIND_ATTEMPTS: usize = 6;
/// Time for which the speed is measured after the cold memory was paged out, and again after the
/// manager was killed.
const PART: Duration = Duration::from_secs(3);
/// Approximate time for which one program runs before the other one's turn.
const TURN_TIME: Duration = Duration::from_millis(40);
/// Longest wait for a manager to respond, or to vanish after it was killed.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn demo(json: bool) -> Result<u8, Failure> {
    let style = Style::of_stdout();
    let mut stage = DemoRun {
        style,
        live: (!json).then(|| Live::new(style, Duration::from_secs(2))),
        stop: gentle_flag()?,
        began: Instant::now(),
        turn: 1,
        ahead: 0,
    };
    let room = DemoSwap::make()?;
    let mut measured = stage.perform(&room)?;
    measured.zram = room.path();
    room.remove()?;
    if let Some(live) = stage.live {
        live.close();
    }
    let verdict = measured.verdict();
    verdict.print(json, style)?;
    verdict.first_failure().map_or(Ok(0), Err)
}

/// The state of the demo, and where it is shown.
struct DemoRun {
    style: Style,
    live: Option<Live>,
    stop: Arc<AtomicBool>,
    began: Instant,
    /// Number of passes over the hot memory before the other program runs.
    turn: u64,
    /// By how many passes the program alone is ahead of the managed one.
    ahead: u64,
}

impl DemoRun {
    fn perform(&mut self, room: &DemoSwap) -> Result<Measured, Failure> {
        let mut measured = Measured::default();
        self.say("A program of 160 MiB that uses a tenth of it, and knows nothing of pagetide.");
        if let Some(path) = room.path() {
            self.say(&format!(
                "Room for cold memory: {path}, for as long as this takes."
            ));
        }
        if let Some(note) = &room.note {
            self.say(&format!("Note: {note}"));
        }
        self.head("1. alone");
        let mut alone = Workload::start(false)?;
        measured.alone_pages_per_s = self.alone(&mut alone)?;
        self.say(&format!(
            "   {}",
            verdict::pages_per_s(measured.alone_pages_per_s)
        ));
        self.head("2. pagetide run -- PROGRAM, in turns with the one alone");
        let mut managed = Workload::start(true)?;
        self.catch_up(&mut managed)?;
        let mut pairs = self.pairs(&mut alone, &mut managed, WATCH_TIME)?;
        for again in 0..FIND_ATTEMPTS {
            self.find(&managed, &mut measured)?;
            if measured.has_found() || again + 1 == FIND_ATTEMPTS {
                break;
            }
            pairs.extend(self.pairs(&mut alone, &mut managed, Duration::from_secs(1))?);
        }
        self.show(&managed, &measured);
        self.head("3. pagetide reclaim PID --older-than 2s");
        self.reclaim(&managed, &mut measured)?;
        measured.compression = room.compressed().and_then(|zram| zram.ratio);
        pairs.extend(self.pairs(&mut alone, &mut managed, PART)?);
        measured.speed = pairs::ratio(&pairs);
        self.head("4. kill -9 of the manager, in the middle of it");
        self.kill(&managed, &mut measured)?;
        let pairs = self.pairs(&mut alone, &mut managed, PART)?;
        measured.speed_after_kill = pairs::ratio(&pairs);
        self.head("5. both read every byte, and end");
        measured.checksums = [alone.checksum()?, managed.checksum()?];
        measured.exits = [alone.end()?, managed.end()?];
        Ok(measured)
    }

    /// Runs the program alone. Returns how many pages it checks in a second, and sets the number of
    /// passes in a turn.
    fn alone(&mut self, alone: &mut Workload) -> Result<u64, Failure> {
        let begin = Instant::now();
        let (mut took, mut passes) = (0, 0);
        while begin.elapsed() < ALONE_TIME {
            self.pulse(alone)?;
            let time = alone.passes(self.turn)?;
            took += time;
            passes += self.turn;
            let each = (took / passes).max(1);
            self.turn = (nanos(TURN_TIME) / each).max(1);
        }
        self.ahead = passes;
        let pages = u128::from(passes * workload::HOT_PAGES) * 1_000_000_000;
        Ok(u64::try_from(pages / u128::from(took.max(1))).unwrap_or(u64::MAX))
    }

    /// Lets the managed program make the passes by which the program alone is ahead, so that both
    /// end with the same bytes.
    fn catch_up(&mut self, managed: &mut Workload) -> Result<(), Failure> {
        while self.ahead > 0 {
            self.pulse(managed)?;
            let turn = self.turn.min(self.ahead);
            managed.passes(turn)?;
            self.ahead -= turn;
        }
        Ok(())
    }

    /// Measures both programs in pairs of turns; in every other pair the managed program is first.
    /// Returns for each pair the nanoseconds of the program alone, then of the managed one.
    fn pairs(
        &mut self,
        alone: &mut Workload,
        managed: &mut Workload,
        time: Duration,
    ) -> Result<Vec<(u64, u64)>, Failure> {
        let begin = Instant::now();
        let mut pairs = Vec::new();
        // On a machine that has become busier, fewer pairs fit into the time.
        while begin.elapsed() < time || pairs.len() < pairs::PAIRS_MIN {
            self.pulse(managed)?;
            let turn = self.turn;
            pairs.push(match pairs.len() % 2 {
                0 => (alone.passes(turn)?, managed.passes(turn)?),
                _ => {
                    let managed_time = managed.passes(turn)?;
                    (alone.passes(turn)?, managed_time)
                }
            });
        }
        Ok(pairs)
    }

    fn find(&mut self, managed: &Workload, measured: &mut Measured) -> Result<(), Failure> {
        let Response::Report(report) = request_manager(managed, &Request::Report {})? else {
            return Err(super::requests::unexpected());
        };
        if !matches!(
            report.age_source,
            AgeSource::PageTables | AgeSource::IdleBitmap
        ) {
            return Err(Failure::missing(
                "cannot show the age of each page: no source here shows it",
                "sudo pagetide demo; `pagetide doctor` says what is missing, and how to get it",
            ));
        }
        measured.found_cold_bytes = cold(&report);
        measured.before = sizes(managed)?;
        measured.unknown_bytes = report.unknown_age_bytes;
        Ok(())
    }

    fn show(&mut self, managed: &Workload, measured: &Measured) {
        let found = Bytes(measured.found_cold_bytes);
        self.say(&format!("   {found} not accessed for 2 s or longer"));
        self.draw(managed);
    }

    fn reclaim(&mut self, managed: &Workload, measured: &mut Measured) -> Result<(), Failure> {
        let what = Ask::OlderThan(COLD_AGE);
        let Response::Reclaimed(done) = request_manager(managed, &Request::Reclaim { what })?
        else {
            return Err(super::requests::unexpected());
        };
        measured.evicted_pages = done.evicted_pages;
        measured.after = sizes(managed)?;
        self.draw(managed);
        self.say(&picture::legend(self.style));
        Ok(())
    }

    fn kill(&mut self, managed: &Workload, measured: &mut Measured) -> Result<(), Failure> {
        let tenant = Tenant::Pid(managed.pid());
        let manager = manager_of(&tenant)?.unwrap_or(0);
        measured.manager = manager;
        let pid = i32::try_from(manager).ok().and_then(Pid::from_raw);
        let killed = pid.map(|pid| kill_process(pid, Signal::KILL));
        let end = Instant::now() + RESPONSE_TIMEOUT;
        while manager_of(&tenant)?.is_some() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        measured.manager_is_gone = killed == Some(Ok(())) && manager_of(&tenant)?.is_none();
        Ok(())
    }

    /// Redraws the state of the demo; returns an error if the user has stopped it.
    fn pulse(&mut self, subject: &Workload) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            if let Some(live) = self.live.take() {
                live.close();
            }
            let hint = "nothing of it is left behind";
            return Err(Failure::new("stopped before the demo had ended", hint));
        }
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        if self.style.live {
            let now = sizes(subject)?;
            let ms = Millis::from(self.began.elapsed()).0;
            let (clock, resident) = (crate::view::clock(ms), Bytes(now.resident));
            let wide = format!(
                "   {clock}  resident {resident}  swapped {}",
                Bytes(now.swapped)
            );
            let fits = wide.len() < self.style.width;
            live.update(if fits { &wide } else { &clock });
        }
        Ok(())
    }

    fn draw(&mut self, subject: &Workload) {
        for line in picture::draw(subject, self.style) {
            self.say(&line);
        }
    }

    fn head(&mut self, text: &str) {
        let text = self.style.bold(text);
        self.say(&text);
    }

    fn say(&mut self, line: &str) {
        if let Some(live) = &mut self.live {
            live.say(line);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn request_manager(subject: &Workload, request: &Request) -> Result<Response, Failure> {
    Ok(ask(&Tenant::Pid(subject.pid()), request, RESPONSE_TIMEOUT)?)
}

/// Returns the bytes of anonymous memory older than [`COLD_AGE`], by pagetide's report.
fn cold(report: &Report) -> u64 {
    let bins = report.page_age.iter().flat_map(|node| &node.bins);
    let old = bins.filter(|bin| u128::from(bin.older_than_ms) >= COLD_AGE.as_millis());
    old.map(|bin| bin.anon_bytes).sum()
}

/// Reads from the kernel how much memory of the program is resident and swapped out.
fn sizes(subject: &Workload) -> Result<Sizes, Failure> {
    let path = format!("/proc/{}/status", subject.pid());
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::new(format!("cannot read {path}: {error}"), "is /proc mounted?")
    })?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    };
    Ok(Sizes {
        resident: field("VmRSS:"),
        swapped: field("VmSwap:"),
    })
}
