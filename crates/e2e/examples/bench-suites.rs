//! `cargo xtask bench suites`: suites of others, alone and under `run` while all that is half a second old
//! leaves: the same result, and descendants whose memory the kernel says is in swap.
//!
//! CPython's own tests come with a python that has them (`--python PROGRAM`; without, the first that is found in
//! PATH or below ~/.pyenv). A module that is over before anything is half a second old runs several times in one process,
//! which is a shell's child: so each has a descendant from which something can leave.
//!
//! redis's need a built source tree (`--redis DIR`), and are left out without one: its units one by one, in both ways, for
//! `--redis-minutes` (5): with many all of them.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings};
use e2e::guard::{Outcome, Run};
use e2e::zram::Swap;
use e2e::{pagetide, proc};

const LIMIT: Duration = Duration::from_secs(900);
const EVERY: Duration = Duration::from_millis(20);
const EVICT: [&str; 6] = [
    "--evict-older-than",
    "500ms",
    "--age-every",
    "500ms",
    "--every",
    "500ms",
];
/// Modules, and how often each runs: for some seconds at least.
const CPYTHON: [(&str, usize); 4] = [
    ("test_mmap", 60),
    ("test_gc", 3),
    ("test_ctypes", 8),
    ("test_multiprocessing_spawn", 1),
];
/// Those that come first; then all others as its own list has them.
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
            // The shell stays, for it has something to do afterwards.
            let script = "\"$@\"; exit $?";
            let words = ["sh", "-c", script, "sh", &python, "-m", "test", "-v"];
            let names = std::iter::repeat_n(name, times);
            let mut sides = Sides::default();
            sides.add(name, &Run::new(words.into_iter().chain(names)));
            sides.tell(name, &mut findings);
        }
    }
    if let Some(tree) = args.text("--redis") {
        redis(&tree, args.number("--redis-minutes", 5), &mut findings);
    }
    findings.finish()
}

/// As many of its units as fit.
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
    sides.tell("redis", findings);
}

/// A python whose tests are installed.
fn python() -> Option<String> {
    let script = "for p in python3 ~/.pyenv/versions/*/bin/python3; do \
                  \"$p\" -m test --list-tests test_mmap test_multiprocessing_spawn >/dev/null 2>&1 && \
                  exec \"$p\" -c 'import sys; print(sys.executable)'; done";
    let outcome = Run::new(["sh", "-c", script]).finish(LIMIT);
    let path = outcome.stdout.trim().to_owned();
    (!path.is_empty()).then_some(path)
}

/// What a suite, or its parts, came to: alone and managed.
#[derive(Default)]
struct Sides {
    seconds: [f64; 2],
    failed_alone: u32,
    differ: u32,
    /// The most that was in swap at once, bytes: of the first process, of all others.
    first: u64,
    others: u64,
}

impl Sides {
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

    fn tell(&self, name: &str, findings: &mut Findings) {
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

/// How it ended and how many tests it says it ran: times and pids differ in every run.
fn result(outcome: &Outcome) -> (Option<i32>, Vec<String>) {
    let text = outcome.stdout.clone() + &outcome.stderr;
    let counts = text.lines().filter_map(|line| {
        let (ran, _) = line.strip_prefix("Ran ")?.split_once(" in ")?;
        Some(ran.to_owned())
    });
    // redis's own word for a test that passed, in green.
    let passed = text.matches("ok\x1b[0m]").count();
    let counts = counts.chain([format!("{passed} ok")]).collect();
    (outcome.status.code(), counts)
}

/// Runs it; the most that the kernel said was in swap, of its first process and of all others together.
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
