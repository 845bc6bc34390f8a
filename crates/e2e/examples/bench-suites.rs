//! `cargo xtask bench suites`: suites of others, alone and under `run` while all that is half a second old
//! leaves: the same result, and descendants whose memory the kernel says is in swap.
//!
//! CPython's own tests come with a python that has them (`--python PROGRAM`; without, the first that is found in
//! PATH or below ~/.pyenv). redis's need a built source tree (`--redis DIR`), and are left out without one.
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
const CPYTHON: [&str; 4] = [
    "test_mmap",
    "test_gc",
    "test_ctypes",
    "test_multiprocessing_spawn",
];
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
        for name in CPYTHON {
            let suite = Run::new([python.as_str(), "-m", "test", "-v", name]);
            both(name, &suite, &mut findings);
        }
    }
    if let Some(tree) = args.text("--redis") {
        let singles = REDIS.map(|name| format!("--single {name}")).join(" ");
        let script = format!("cd {tree} && exec ./runtest --clients 2 {singles}");
        both("redis", &Run::new(["sh", "-c", &script]), &mut findings);
    }
    findings.finish()
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

/// One suite on both sides.
fn both(name: &str, suite: &Run, findings: &mut Findings) {
    let alone = suite.finish(LIMIT);
    let (managed, first, others) = watched(&pagetide::run(&EVICT, suite));
    let is_same = result(&alone) == result(&managed);
    if !is_same {
        eprintln!(
            "{name} alone: {:?}\nmanaged: {:?}",
            result(&alone),
            result(&managed)
        );
    }
    let failed = |outcome: &Outcome| f64::from(u8::from(!outcome.status.success()));
    findings.figure(&format!("{name}: alone"), alone.took.as_secs_f64(), "s");
    findings.figure(&format!("{name}: managed"), managed.took.as_secs_f64(), "s");
    findings.figure(&format!("{name}: failed alone"), failed(&alone), "");
    findings.at_least(
        &format!("{name}: the same result"),
        f64::from(u8::from(is_same)),
        "",
        1.0,
    );
    findings.figure(
        &format!("{name}: VmSwap of its first process, most"),
        mib(first),
        "MiB",
    );
    findings.figure(
        &format!("{name}: VmSwap of its descendants, most"),
        mib(others),
        "MiB",
    );
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
        for pid in running.tree() {
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
