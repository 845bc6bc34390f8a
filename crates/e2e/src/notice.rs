//! A program beside itself: alone, and while everything that is cold leaves ten times a second.
//!
//! Invariant: a comparison counts only with the kernel's word that memory had left: the page map or mincore(2) as the
//! scenarios of `tests/programs/notice` read them, or VmSwap of what was started. Nothing is taken from pagetide.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::RefUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::guard::{Outcome, Run, Running, tail};
use crate::temp::TempDir;
use crate::{pagetide, proc, programs};

/// Everything that was not touched for a tenth of a second leaves, ten times a second.
pub const POLICY: [&str; 6] = [
    "--evict-older-than",
    "100ms",
    "--age-every",
    "100ms",
    "--every",
    "100ms",
];

/// Longer than any pair of runs takes.
pub const SOON: Duration = Duration::from_secs(120);

/// What the kernel said of some memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Whether it has to leave, or to stay.
    pub leaves: bool,
    /// Scenario and memory.
    pub what: String,
    /// Its pages.
    pub pages: u64,
    /// Those of them that are out.
    pub out: u64,
    /// Percent that have to be.
    pub share: u64,
}

impl Figure {
    fn parse(line: &str) -> Option<Figure> {
        let (kind, rest) = line.split_once(' ')?;
        // What it is called may have spaces.
        let mut ends = rest.rsplitn(4, ' ');
        let share = ends.next()?.parse().ok()?;
        let out = ends.next()?.parse().ok()?;
        let pages = ends.next()?.parse().ok()?;
        Some(Figure {
            leaves: kind == "leaves",
            what: ends.next()?.to_owned(),
            pages,
            out,
            share,
        })
    }

    fn holds(&self) -> bool {
        match self.leaves {
            true => self.out * 100 >= self.pages * self.share,
            false => self.out == 0,
        }
    }
}

/// Both runs.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Without pagetide.
    pub alone: Outcome,
    /// Under it.
    pub managed: Outcome,
    /// What the scenarios noted while managed.
    pub figures: Vec<Figure>,
    /// The most that was in swap at any look, of all that was started: bytes.
    pub swapped: u64,
}

/// A scenario of `tests/programs/notice`; addresses are the same in each run.
#[must_use]
pub fn scenario(name: &str) -> Run {
    Run::new(["setarch", "-R", &notice(), name])
}

/// The program of the scenarios.
#[must_use]
pub fn notice() -> String {
    programs::folder("notice")
}

/// Runs it alone and managed.
///
/// # Panics
/// If one does not end.
#[must_use]
pub fn beside(run: &Run) -> Pair {
    let folder = TempDir::public();
    let with = |name: &str, managed: &str, run: &Run| {
        let file = folder.file(name);
        fs::write(&file, "").expect("a file can be written");
        // Another user's process writes to it as well.
        let mode = fs::Permissions::from_mode(0o666);
        fs::set_permissions(&file, mode).expect("the owner sets the mode");
        run.clone()
            .env("NOTICE_FIGURES", &file)
            .env("NOTICE_MANAGED", managed)
    };
    // Both at a time: most of it is waiting, and neither is slower than it may be.
    let alone = with("run0", "0", run).start();
    let managed = with("run1", "1", &pagetide::run(&POLICY, run));
    let (managed, swapped) = watched(managed.start());
    let alone = alone.wait(SOON);
    let text = fs::read_to_string(folder.file("run1")).unwrap_or_default();
    let figures = text.lines().filter_map(Figure::parse).collect();
    Pair {
        alone,
        managed,
        figures,
        swapped,
    }
}

/// Its end, and the most that the kernel counts in swap at a time.
///
/// # Panics
/// If it does not end in time.
#[must_use]
pub fn watched(mut running: Running) -> (Outcome, u64) {
    let (begin, mut swapped) = (Instant::now(), 0);
    while running.ended().is_none() && begin.elapsed() < SOON * 3 {
        let of = |pid: &u32| proc::number(*pid, "VmSwap");
        swapped = swapped.max(running.tree().iter().filter_map(of).sum());
        std::thread::sleep(Duration::from_millis(50));
    }
    (running.wait(SOON), swapped)
}

impl Pair {
    /// The same output, the same end.
    ///
    /// # Panics
    /// If not.
    pub fn assert_same(&self, name: &str) {
        let said = |outcome: &Outcome| tail(&outcome.stderr, 2000).to_owned();
        assert_eq!(
            (self.alone.status, self.alone.stdout.as_str()),
            (self.managed.status, self.managed.stdout.as_str()),
            "{name}: alone and managed differ; alone: {}; managed: {}",
            said(&self.alone),
            said(&self.managed)
        );
        assert_eq!(said(&self.alone), said(&self.managed), "{name}");
    }

    /// What had to leave left, and what had to stay stayed.
    ///
    /// # Panics
    /// If not, or if nothing had to leave.
    pub fn assert_left(&self, name: &str) {
        for figure in &self.figures {
            eprintln!("{}: {} of {} out", figure.what, figure.out, figure.pages);
            assert!(figure.holds(), "{name}: {figure:?}");
        }
        let counts = |figure: &&Figure| figure.leaves && figure.share > 0;
        let left = self.figures.iter().filter(counts).count();
        assert!(left > 0, "{name}: nothing was seen to leave");
    }
}

/// Scenarios by name, each beside itself; all are tried, and those that fail are named.
///
/// # Panics
/// If one fails.
pub fn check_all(names: &[&str], status: i32) {
    each(names, |name| {
        let pair = beside(&scenario(name));
        assert_eq!(
            pair.alone.status.code(),
            Some(status),
            "{name} alone: {}",
            pair.alone.stderr
        );
        pair.assert_same(name);
        pair.assert_left(name);
    });
}

/// Most of a pair's time is waiting until memory has left.
const AT_A_TIME: usize = 2;

/// Tries each of these, some at a time; those that fail are named.
///
/// # Panics
/// If one fails.
pub fn each(names: &[&str], what: impl Fn(&str) + Sync + RefUnwindSafe) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            if std::panic::catch_unwind(|| what(name)).is_err() {
                failed
                    .lock()
                    .expect("nobody panics with it")
                    .push((*name).to_owned());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    assert!(failed.is_empty(), "something was noticed by {failed:?}");
}
