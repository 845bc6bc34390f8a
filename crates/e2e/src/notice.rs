//! Checks that a program does not notice that pagetide pages out its memory: runs it alone, and
//! under pagetide, which pages out all cold memory ten times a second, and compares what it prints.
//!
//! Invariant: a comparison counts only if the kernel says that memory was paged out. The kernel
//! says it by the page map or mincore(2), which the scenarios of `tests/programs/notice` read, or
//! by VmSwap of the started processes. No figure comes from pagetide.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::RefUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::guard::{Outcome, Run, Running, tail};
use crate::temp::TempDir;
use crate::{pagetide, proc, programs};

/// Options that page out all memory that was not touched for a tenth of a second, ten times a
/// second.
pub const POLICY: [&str; 6] = [
    "--evict-older-than",
    "100ms",
    "--age-every",
    "100ms",
    "--every",
    "100ms",
];

/// Time limit for running one program alone and under pagetide.
pub const SOON: Duration = Duration::from_secs(120);

/// How much of one area of a scenario's memory is paged out, by the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Whether this memory must be paged out; if false, it must stay resident.
    pub must_leave: bool,
    /// Names of the scenario and of the area.
    pub what: String,
    /// Number of pages in the area.
    pub pages: u64,
    /// Number of pages in the area that are paged out.
    pub out: u64,
    /// Percentage of the area's pages that must be paged out.
    pub share: u64,
}

impl Figure {
    /// Parses `leaves NAME PAGES OUT SHARE`; another first word means that the memory must stay.
    fn parse(line: &str) -> Option<Figure> {
        let (kind, rest) = line.split_once(' ')?;
        // The name may have spaces.
        let mut ends = rest.rsplitn(4, ' ');
        let share = ends.next()?.parse().ok()?;
        let out = ends.next()?.parse().ok()?;
        let pages = ends.next()?.parse().ok()?;
        Some(Figure {
            must_leave: kind == "leaves",
            what: ends.next()?.to_owned(),
            pages,
            out,
            share,
        })
    }

    /// Whether as many pages are paged out as must be, or none if the memory must stay.
    fn holds(&self) -> bool {
        match self.must_leave {
            true => self.out * 100 >= self.pages * self.share,
            false => self.out == 0,
        }
    }
}

/// The results of a program run alone and run under pagetide.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The run without pagetide.
    pub alone: Outcome,
    /// The run under pagetide.
    pub managed: Outcome,
    /// What the scenario recorded in the run under pagetide.
    pub figures: Vec<Figure>,
    /// Highest sum, in bytes, of what all processes of the run under pagetide had in swap; sampled
    /// every 50 ms.
    pub swapped: u64,
}

/// The command of a scenario of `tests/programs/notice`, without address randomization: the two
/// runs must print the same addresses.
#[must_use]
pub fn scenario(name: &str) -> Run {
    Run::new(["setarch", "-R", &notice(), name])
}

/// Path of the program that holds the scenarios.
#[must_use]
pub fn notice() -> String {
    programs::folder("notice")
}

/// Runs a program alone and, at the same time, under pagetide.
///
/// # Panics
/// If one of the two runs does not end in time.
#[must_use]
pub fn beside(run: &Run) -> Pair {
    let folder = TempDir::public();
    let with = |name: &str, managed: &str, run: &Run| {
        let file = folder.file(name);
        fs::write(&file, "").expect("a file can be written");
        // A process of another user writes to the file, too.
        let mode = fs::Permissions::from_mode(0o666);
        fs::set_permissions(&file, mode).expect("the owner sets the mode");
        run.clone()
            .env("NOTICE_FIGURES", &file)
            .env("NOTICE_MANAGED", managed)
    };
    // The two run at the same time: they mostly wait, and their speed does not matter.
    let alone = with("run0", "0", run).start();
    let managed = with("run1", "1", &pagetide::run(&POLICY, run));
    let (managed, swapped) = wait_watching_swap(managed.start());
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

/// Waits until the processes end; returns how the first one ended, and the highest sum of what they
/// all had in swap, in bytes.
///
/// # Panics
/// If they do not end in time.
#[must_use]
pub fn wait_watching_swap(mut running: Running) -> (Outcome, u64) {
    let (begin, mut swapped) = (Instant::now(), 0);
    while running.ended().is_none() && begin.elapsed() < SOON * 3 {
        let of = |pid: &u32| proc::number(*pid, "VmSwap");
        swapped = swapped.max(running.tree().iter().filter_map(of).sum());
        std::thread::sleep(Duration::from_millis(50));
    }
    (running.wait(SOON), swapped)
}

impl Pair {
    /// Checks that the two runs have the same output and exit status.
    ///
    /// # Panics
    /// If they differ.
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

    /// Checks that all memory that must be paged out was paged out, and that all other memory
    /// stayed resident.
    ///
    /// # Panics
    /// If that is not so, or if no memory had to be paged out.
    pub fn assert_paged_out(&self, name: &str) {
        for figure in &self.figures {
            eprintln!("{}: {} of {} out", figure.what, figure.out, figure.pages);
            assert!(figure.holds(), "{name}: {figure:?}");
        }
        let counts = |figure: &&Figure| figure.must_leave && figure.share > 0;
        let left = self.figures.iter().filter(counts).count();
        assert!(left > 0, "{name}: nothing was seen to leave");
    }
}

/// Runs each named scenario alone and under pagetide, and checks the results and the exit `status`.
/// All scenarios are tried; the message names those that fail.
///
/// # Panics
/// If a scenario fails.
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
        pair.assert_paged_out(name);
    });
}

/// Number of scenarios that run at the same time. They mostly wait until memory is paged out.
const AT_A_TIME: usize = 2;

/// Calls `what` for each name, for `AT_A_TIME` names at the same time. All are tried; the message
/// names those that fail.
///
/// # Panics
/// If a call of `what` panics.
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
