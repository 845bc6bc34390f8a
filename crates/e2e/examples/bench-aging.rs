//! `cargo xtask bench aging [--part cost|slowdown|waits|looking] [--pairs N] [--seconds N]
//! [--window 80] [--mib 8192] [--json]`
//!
//! Measures what `pagetide report` costs the programs that it scans, and what it costs itself. All
//! parts together take a quarter of an hour. No other program may be busy: the program and the
//! report need the machine's two processors.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::aged::{RunningReport, number, process};
use e2e::bench::{Args, Findings, median};
use e2e::guard::{Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::paired::{self, mean};
use e2e::postgres::Postgres;
use e2e::subject::Subject;
use e2e::zram::Swap;
use e2e::{aged, frames, pagetide, proc, programs, wait};
use rustix::process::Signal;
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Time limit of each wait.
const LIMIT: Duration = Duration::from_secs(300);
/// A duration in seconds that is longer than any part. A program is killed when it is no longer
/// needed.
const FOREVER: &str = "100000";

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("aging", &args);
    let part = args.text("--part");
    let is_wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if is_wanted("cost") {
        cost(&args, &mut found);
        database(&mut found);
    }
    if is_wanted("slowdown") {
        slowdown(&args, &mut found);
    }
    if is_wanted("waits") {
        waits(&args, &mut found);
    }
    if is_wanted("looking") {
        looking(&args, &mut found);
    }
    found.finish()
}

#[expect(clippy::cast_precision_loss, reason = "sizes below 2^52")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Waits for a program's end; returns the JSON in the last line that it printed.
fn wait_for_json(running: Running) -> Value {
    let outcome = running.wait(LIMIT);
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let line = outcome.stdout.lines().last().unwrap_or_default().to_owned();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Part `cost`: what a report costs itself when it scans a program of 8 GiB, of which a fifth is in
/// use, every 20 s.
fn cost(args: &Args, found: &mut Findings) {
    let mib = args.number("--mib", 8192);
    let (all, hot) = (mib.to_string(), (mib / 5).to_string());
    let program = Subject::start("hotset", &[&all, &hot, FOREVER]);
    let seconds = args.number("--window", 80);
    let looking = RunningReport::at(program.pid, seconds, 20_000);
    let (pid, mut cpu) = (looking.pid(), 0.0);
    let report =
        looking.finish_while(|| cpu = proc::processor_seconds(pid).unwrap_or(cpu).max(cpu));
    let report = report.report;
    let overhead = &report["overhead"];
    let reported = |name: &str| float(number(overhead, name));
    let (elapsed_ms, walks) = (
        float(number(&report, "wall_ms")),
        float(number(&report, "walks")),
    );
    let gib = float(number(&report, "resident_bytes")) / float(1 << 30);
    // n scans have n - 1 intervals between them; each scan's cost belongs to the interval before
    // it. So the time is extended by one interval.
    let elapsed_ms = elapsed_ms * walks / (walks - 1.0).max(1.0);
    let share = reported("cpu_ms") / elapsed_ms * 100.0;
    let what = format!("looking at {mib} MiB every 20 s");
    found.at_most(&what, share, "% of a core", 1.0);
    let by_proc = cpu * 1e5 / elapsed_ms;
    let what = "  the same by /proc, with its start";
    found.at_most(what, by_proc, "% of a core", 1.0);
    found.figure(
        "  reading",
        reported("walk_ms") / walks / gib,
        "ms a GiB a look",
    );
    found.figure("  clearing", reported("clear_ms") / walks, "ms a look");
    let longest = reported("clear_longest_us") / 1000.0;
    found.figure("  the longest clearing", longest, "ms");
    let age_table = reported("memory_bytes") / float(MIB);
    found.figure("  its books", age_table, "MiB");
    let rest = (reported("cpu_ms") - reported("walk_ms") - reported("clear_ms")) / walks;
    found.figure("  all else", rest, "ms a look");
    let unknown = float(number(&report, "unknown_age_bytes"));
    let share = 100.0 * unknown / float(number(&report, "resident_bytes"));
    found.figure("  of unknown age at the end", share, "% of it");
}

/// Part `cost`, too: compares a report's resident size with the kernel's, for a database under load
/// with 1 GiB of shared buffers.
fn database(found: &mut Findings) {
    let postgres = Postgres::start("1GB", 60);
    let words = ["-c", "4", "-j", "1", "-T", "120", "-S", "postgres"];
    let _clients = postgres.pgbench(&words).start();
    let server = postgres.pid();
    wait::until("the backends", LIMIT, || {
        proc::descendants(server).len() > 8
    });
    std::thread::sleep(Duration::from_secs(15));
    let report = RunningReport::at(server, 4, 1000).finish().report;
    let pids = aged::pids(&report);
    let sizes = [frames::pss_alone(&pids), aged::rollup(&pids, "Pss")];
    let resident = float(number(&report, "resident_bytes"));
    found.figure("PostgreSQL, 1 GB buffers", resident / float(MIB), "MiB");
    for (what, size, goal) in [
        ("  off Pss, were it alone", sizes[0], Some(1.0)),
        ("  off Pss", sizes[1], None),
    ] {
        let off = 100.0 * (resident / float(size) - 1.0).abs();
        match goal {
            Some(goal) => found.at_most(what, off, "%", goal),
            None => found.figure(what, off, "%"),
        }
    }
    let mapped = pids.iter().filter_map(|pid| process(&report, *pid));
    let mapped: u64 = mapped.map(|one| number(one, "mapped_bytes")).sum();
    found.figure("  what all of it maps", float(mapped / MIB), "MiB");
}

/// A running `report --watch`, which prints a line for each scan and can be stopped for a while.
struct Watcher(Running);

impl Watcher {
    /// Starts a report that scans every `every` seconds, and waits for its first scan.
    fn start(pid: u32, every: u64) -> Watcher {
        let watch = format!("--watch={every}s");
        let words = ["report", &pid.to_string(), &watch, "--csv"].map(str::to_owned);
        let watcher = Watcher(pagetide::command(words).start());
        watcher.next();
        watcher
    }

    /// Number of scans so far.
    fn scans(&self) -> u32 {
        let lines = self.0.stdout().lines().count().saturating_sub(1);
        u32::try_from(lines).expect("a few")
    }

    /// Waits for the end of the next scan; returns when that was.
    fn next(&self) -> Instant {
        let before = self.scans();
        wait::until("a look", LIMIT, || self.scans() > before);
        Instant::now()
    }
}

/// Processor time of a program's first thread, seconds, counted in nanoseconds.
fn thread_seconds(pid: u32) -> f64 {
    let text = proc::read(pid, "schedstat").unwrap_or_default();
    let ns = text
        .split_whitespace()
        .next()
        .and_then(|text| text.parse().ok());
    float(ns.expect("the program runs")) / 1e9
}

/// Highest load of a processor (1 is all of it) that is counted. Above it a program may not keep up
/// with its rate, and then its processor time shows nothing.
const FULL: f64 = 0.95;

/// Load of a processor (1 is all of it) by the program's first thread, from now until the instant
/// `until`.
fn load_until(pid: u32, until: Instant) -> f64 {
    let begin = (Instant::now(), thread_seconds(pid));
    std::thread::sleep(until.saturating_duration_since(begin.0));
    (thread_seconds(pid) - begin.1) / begin.0.elapsed().as_secs_f64()
}

/// For rare scans: what each scan costs the program, in percent of the time between two scans.
/// Compares the two seconds around a scan with the two seconds before and the two seconds after
/// them, as a scan's cost is over in less than one second.
fn around_scans(args: &Args, pid: u32, every: u64) -> Vec<f64> {
    let watcher = Watcher::start(pid, every);
    let mut more = Vec::new();
    for _ in 0..args.number("--pairs", 20) {
        let scan = watcher.next() + Duration::from_secs(every);
        let at = |ms: u64| scan + Duration::from_millis(ms) - Duration::from_secs(3);
        std::thread::sleep(at(0).saturating_duration_since(Instant::now()));
        let before = load_until(pid, at(2000));
        let scans = watcher.scans();
        let with = load_until(pid, at(4000));
        let scanned = watcher.scans() - scans;
        let after = load_until(pid, at(6000));
        if scanned != 1 {
            eprintln!("left out: {scanned} looks in a window");
            continue;
        }
        if with.max(before).max(after) > FULL {
            eprintln!("left out: no processor time is left over");
            continue;
        }
        let without = f64::midpoint(before, after);
        more.push(100.0 * (with - without) * 2.0 / float(every));
    }
    more
}

/// For frequent scans: what scans cost the program, in percent. Compares times with scans and times
/// during which the report is stopped.
fn with_and_without(args: &Args, pid: u32, every: u64) -> Vec<f64> {
    let mut watcher = Watcher::start(pid, every);
    watcher.0.signal(Signal::STOP);
    let seconds = args.number("--seconds", 4);
    let window = || load_until(pid, Instant::now() + Duration::from_secs(seconds));
    let pairs = paired::pairs(
        args.number("--pairs", 20),
        &mut watcher,
        |watcher| {
            let before = watcher.scans();
            watcher.0.signal(Signal::CONT);
            let used = window();
            watcher.0.signal(Signal::STOP);
            (used, watcher.scans() - before)
        },
        |_| (window(), 0),
    );
    // A time with scans may have one scan more or less than its length divided by the interval.
    let scans: u32 = pairs.iter().map(|pair| pair.0.1).sum();
    let expected = float(seconds / every) * float(pairs.len() as u64);
    let scale = expected / f64::from(scans.max(1));
    let more =
        |((with, _), (without, _)): &((f64, u32), (f64, u32))| 100.0 * (with - without) * scale;
    let has_room = |pair: &&((f64, u32), (f64, u32))| pair.0.0.max(pair.1.0) <= FULL;
    pairs.iter().filter(has_room).map(more).collect()
}

/// Part `slowdown`: what scans cost a program. It touches memory at a steady rate, well below what
/// the machine can do, so scans do not slow it down but raise its processor time. That is measured:
/// a program without spare time would do that much less. Times with and without scans alternate
/// within one run of the program.
fn slowdown(args: &Args, found: &mut Findings) {
    for (mib, every, goal) in [(200, 10, 0.5), (200, 1, 4.0), (1024, 10, 2.0)] {
        let size = mib.to_string();
        let alone = Subject::start("hotset", &[&size, &size, "3"]);
        let most = wait_for_json(alone.running)["touches_per_second"].as_f64();
        let rate = format!("{:.0}", most.expect("a rate") * 0.4);
        let program = Subject::start("hotset", &[&size, &size, FOREVER, "--rate", &rate]);
        let more = match every {
            1 => with_and_without(args, program.pid, every),
            _ => around_scans(args, program.pid, every),
        };
        found.at_least("  pairs", float(more.len() as u64), "", 1.0);
        let mean = mean(&more);
        let what = format!("{mib} MiB hot, a look every {every} s");
        found.at_most(&what, mean.mean, "% slower", goal);
        found.figure(
            "  with a confidence of 95% within",
            mean.within,
            "% of that",
        );
        found.figure("  median of the pairs", median(&more), "% slower");
    }
}

/// Part `waits`: how long a program waits that changes its memory map all the time. Compares the
/// longest wait in each kind of call, milliseconds, with and without scans.
fn waits(args: &Args, found: &mut Findings) {
    let mib = args.number("--mib", 8192);
    let hot = (mib / 5).to_string();
    let seconds = args.number("--waits", 40).to_string();
    let words = [&mib.to_string(), &seconds, "--hot", &hot];
    let calls = ["fault", "mmap", "munmap"];
    let run = |every: Option<&str>| {
        let program = Subject::start("allocator", &words);
        let watch = every.map(|every| format!("--watch={every}"));
        let words = |watch: String| {
            [
                "report".to_owned(),
                program.pid.to_string(),
                watch,
                "--json".to_owned(),
            ]
        };
        let watcher = watch.map(|watch| pagetide::command(words(watch)).start());
        let said = wait_for_json(program.running);
        let at = |name: &str| calls.map(|call| float(number(&said[call], name)) / 1e6);
        let last = watcher.map(|watcher| watcher.wait(LIMIT).stdout);
        let unknown = last.as_deref().map_or(0.0, unknown_share);
        ([at("p9999_ns"), at("max_ns")], unknown)
    };
    let (alone, _) = run(None);
    for every in ["20s", "1s"] {
        let (watched, unknown) = run(Some(every));
        for (number, name) in ["p99.99", "max"].into_iter().enumerate() {
            for (at, call) in calls.into_iter().enumerate() {
                let (a, b) = (alone[number][at], watched[number][at]);
                let what = format!("{call}, {name}, a look every {every}, over {a:.3} alone");
                found.at_most(&what, b - a, "ms", 5.0);
            }
        }
        found.figure("  of unknown age", unknown, "% (mean)");
    }
}

/// Mean percentage of memory of unknown age over all reports but the first two.
fn unknown_share(lines: &str) -> f64 {
    let reports = lines
        .lines()
        .skip(2)
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let shares = reports
        .filter(|report| number(report, "resident_bytes") > 0)
        .map(|report| {
            100.0 * float(number(&report, "unknown_age_bytes"))
                / float(number(&report, "resident_bytes"))
        });
    mean(&shares.collect::<Vec<_>>()).mean
}

/// Runs the program once in the group, watched by a report or not. Returns its seconds and its
/// refaults; `None` if the kernel killed it.
fn under_pressure(program: &Run, group: &MemoryGroup, watch: bool) -> Option<(f64, f64)> {
    let refaults = || group.line("memory.stat", "total_workingset_refault_anon ");
    let before = refaults();
    let program = program.start();
    let watcher = watch.then(|| {
        let pid = program.pid().to_string();
        pagetide::command(["report", &pid, "--watch=1s", "--csv"]).start()
    });
    let outcome = program.wait(LIMIT);
    drop(watcher);
    let done = outcome.status.success();
    done.then(|| (outcome.took.as_secs_f64(), float(refaults() - before)))
}

/// Part `looking`: scans must not make the kernel reclaim more from a program that is limited to
/// nine tenths of its memory.
///
/// The program uses some of its memory less often than the rest. If it used all evenly, the kernel
/// would find no page that is not in use, and kill it (8 of 8 runs without a report). Pairs of runs
/// in which it was killed all the same are not compared but counted.
fn looking(args: &Args, found: &mut Findings) {
    /// Memory of the program, MiB.
    const SIZE: u64 = 512;
    let _swap = Swap::new(1024);
    let group = MemoryGroup::new();
    group.limit(SIZE * MIB / 10 * 9);
    let thousands = args.number("--thousands", 12_000).to_string();
    let words = [
        programs::c("patterns"),
        "zipf".to_owned(),
        SIZE.to_string(),
        thousands,
    ];
    let program = group.run(&Run::new(words));
    let pairs = paired::pairs(
        args.number("--pairs", 8),
        &mut (),
        |()| under_pressure(&program, &group, true),
        |()| under_pressure(&program, &group, false),
    );
    let killed = pairs
        .iter()
        .map(|pair| [pair.0.is_none(), pair.1.is_none()]);
    let killed = killed.fold([0_u32; 2], |sum, one| {
        [sum[0] + u32::from(one[0]), sum[1] + u32::from(one[1])]
    });
    found.figure("killed by the kernel, watched", killed[0].into(), "runs");
    found.figure("killed by the kernel, alone", killed[1].into(), "runs");
    let pairs: Vec<_> = pairs
        .iter()
        .filter_map(|(with, without)| with.zip(*without))
        .collect();
    found.at_least("  pairs", float(pairs.len() as u64), "", 1.0);
    if pairs.is_empty() {
        // Without pairs there is no mean, and the goal is not met.
        return;
    }
    let slower = |pair: &((f64, f64), (f64, f64))| 100.0 * (pair.0.0 / pair.1.0 - 1.0);
    let slower: Vec<f64> = pairs.iter().map(slower).collect();
    let faults = |pair: &((f64, f64), (f64, f64))| pair.0.1 / pair.1.1;
    let faults: Vec<f64> = pairs.iter().map(faults).collect();
    let (mean_slower, mean_faults) = (mean(&slower), mean(&faults));
    found.at_most(
        "under pressure, a look every 1 s",
        mean_slower.mean,
        "% slower",
        3.0,
    );
    found.figure(
        "  with a confidence of 95% within",
        mean_slower.within,
        "% of that",
    );
    found.figure("  median of the pairs", median(&slower), "% slower");
    found.at_most("  refaults", mean_faults.mean, "times", 1.1);
    found.figure(
        "  with a confidence of 95% within",
        mean_faults.within,
        "times",
    );
}
