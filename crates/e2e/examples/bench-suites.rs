//! `cargo xtask bench suites [--python PROGRAM] [--redis DIR] [--redis-minutes 5] [--json]`
//!
//! Runs test suites of other projects alone and under `pagetide run`, which pages out all memory
//! that was not used for half a second. The results must be the same, and the kernel must count
//! memory of descendants in swap.
//!
//! CPython's own tests need a python that has them: `--python`, or else the first one that is found
//! in PATH or below ~/.pyenv. A shell starts python, so each module runs in a descendant with
//! memory that can be paged out; a short module runs several times in that process.
//!
//! redis's tests need a built source tree (`--redis`), and are skipped without one. Its units run
//! one at a time, each alone and under `run`, until `--redis-minutes` are over.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings};
use e2e::guard::{Outcome, Run};
use e2e::zram::Swap;
use e2e::{pagetide, proc};

/// Time limit of a module or unit.
const LIMIT: Duration = Duration::from_secs(900);
/// Interval of the samples of memory in swap.
const EVERY: Duration = Duration::from_millis(20);
/// Options of `run`.
const EVICT: [&str; 6] = [
    "--evict-older-than",
    "500ms",
    "--age-every",
    "500ms",
    "--every",
    "500ms",
];
/// Modules of CPython's tests, and how often each runs, so that it takes at least some seconds.
const CPYTHON: [(&str, usize); 4] = [
    ("test_mmap", 60),
    ("test_gc", 3),
    ("test_ctypes", 8),
    ("test_multiprocessing_spawn", 1),
];
/// Units of redis's tests that run first; all others follow in the order of redis's own list.
const REDIS: [&str; 6] = [
    "unit/type/hash",
    "unit/type/string",
    "unit/expire",
    "unit/scan",
    "unit/multi",
    "unit/keyspace",
];

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut findings = Findings::new("suites", &args);
    let _swap = Swap::new(2048);
    if let Some(python) = args.text("--python").or_else(python) {
        eprintln!("tests of {python}");
        for (name, times) in CPYTHON {
            // The shell does not replace itself by the command, as it has another one to run.
            let script = "\"$@\"; exit $?";
            let words = ["sh", "-c", script, "sh", &python, "-m", "test", "-v"];
            let names = std::iter::repeat_n(name, times);
            let mut sides = Sides::default();
            sides.add(name, &Run::new(words.into_iter().chain(names)));
            sides.add_figures(name, &mut findings);
        }
    }
    if let Some(tree) = args.text("--redis") {
        redis(&tree, args.number("--redis-minutes", 5), &mut findings);
    }
    findings.finish()
}

/// Runs as many units of redis's tests as fit into the time.
fn redis(tree: &str, minutes: u64, findings: &mut Findings) {
    let in_tree = |words: &str| Run::new(["sh", "-c", &format!("cd {tree} && exec {words}")]);
    let list = in_tree("./runtest --list-tests").finish(LIMIT);
    assert!(list.status.success(), "{tree}: {}", list.stderr);
    let others = list.stdout.split_whitespace();
    let others = others.filter(|unit| !REDIS.contains(unit));
    let units: Vec<&str> = REDIS.into_iter().chain(others).collect();
    let (begin, mut sides, mut ran) = (Instant::now(), Sides::default(), 0_u32);
    for unit in &units {
        if begin.elapsed() > Duration::from_secs(60 * minutes) {
            break;
        }
        let words = format!("./runtest --clients 2 --single {unit}");
        sides.add(unit, &in_tree(&words));
        ran += 1;
    }
    let of = format!("redis: units, of {}", units.len());
    findings.at_least(&of, f64::from(ran), "", REDIS.len() as f64);
    sides.add_figures("redis", findings);
}

/// Finds a python with its tests; `None` if there is none.
fn python() -> Option<String> {
    let script = "for p in python3 ~/.pyenv/versions/*/bin/python3; do \
                  \"$p\" -m test --list-tests test_mmap test_multiprocessing_spawn >/dev/null 2>&1 && \
                  exec \"$p\" -c 'import sys; print(sys.executable)'; done";
    let outcome = Run::new(["sh", "-c", script]).finish(LIMIT);
    let path = outcome.stdout.trim().to_owned();
    (!path.is_empty()).then_some(path)
}

/// Results of one or several runs, alone and under `run`.
#[derive(Default)]
struct Sides {
    /// Seconds: alone, under `run`.
    seconds: [f64; 2],
    /// Number of runs that failed alone.
    failed_alone: u32,
    /// Number of runs whose result was different under `run`.
    differ: u32,
    /// Highest memory in swap at any sample, bytes: of the first process.
    first: u64,
    /// Highest memory in swap at any sample, bytes: of all other processes together.
    others: u64,
}

impl Sides {
    /// Runs a suite alone and under `run`, and adds the results.
    fn add(&mut self, name: &str, suite: &Run) {
        let alone = suite.finish(LIMIT);
        let (managed, first, others) = watched(&pagetide::run(&EVICT, suite));
        let results = [result(&alone), result(&managed)];
        if results[0] != results[1] {
            eprintln!("{name} alone: {:?}\nmanaged: {:?}", results[0], results[1]);
            self.differ += 1;
        }
        self.failed_alone += u32::from(!alone.status.success());
        self.seconds[0] += alone.took.as_secs_f64();
        self.seconds[1] += managed.took.as_secs_f64();
        self.first = self.first.max(first);
        self.others = self.others.max(others);
    }

    /// Adds the figures and the goals to the findings.
    fn add_figures(&self, name: &str, findings: &mut Findings) {
        let of = |what: &str| format!("{name}: {what}");
        findings.figure(&of("alone"), self.seconds[0], "s");
        findings.figure(&of("managed"), self.seconds[1], "s");
        let (failed, differ) = (f64::from(self.failed_alone), f64::from(self.differ));
        findings.figure(&of("failed alone"), failed, "");
        findings.at_most(&of("another result than alone"), differ, "", 0.0);
        let what = of("VmSwap of its first process, most");
        findings.figure(&what, mib(self.first), "MiB");
        let what = of("VmSwap of its descendants, most");
        findings.figure(&what, mib(self.others), "MiB");
        let pages = (self.others / 4096) as f64;
        findings.at_least(&of("pages of its descendants in swap"), pages, "", 1.0);
    }
}

/// Exit status, and numbers of tests in the output; the rest of the output has times and pids,
/// which differ in every run.
fn result(outcome: &Outcome) -> (Option<i32>, Vec<String>) {
    let text = outcome.stdout.clone() + &outcome.stderr;
    let counts = text.lines().filter_map(|line| {
        let (ran, _) = line.strip_prefix("Ran ")?.split_once(" in ")?;
        Some(ran.to_owned())
    });
    // redis prints this text, in green, for each passed test.
    let passed = text.matches("ok\x1b[0m]").count();
    let counts = counts.chain([format!("{passed} ok")]).collect();
    (outcome.status.code(), counts)
}

/// Runs a command. Returns how it ended, and the highest memory in swap at any sample, bytes: of
/// its first process, and of all others together.
fn watched(run: &Run) -> (Outcome, u64, u64) {
    let mut running = run.start();
    let (mut first, mut others) = (0, 0);
    let begin = Instant::now();
    while running.ended().is_none() && begin.elapsed() < LIMIT {
        let mut sum = 0;
        let is_theirs = |pid: &u32| proc::comm(*pid).is_some_and(|comm| comm != "pagetide");
        for pid in running.tree().into_iter().filter(is_theirs) {
            let swapped = proc::number(pid, "VmSwap").unwrap_or(0);
            match pid == running.pid() {
                true => first = first.max(swapped),
                false => sum += swapped,
            }
        }
        others = others.max(sum);
        std::thread::sleep(EVERY);
    }
    (running.wait(LIMIT), first, others)
}

#[expect(clippy::cast_precision_loss, reason = "some megabytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
