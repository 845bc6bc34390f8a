//! `cargo xtask bench needs [--watch 120] [--program NAME] [--beside 4] [--json]`
//!
//! Compares the memory that a program needs by `report` with the exact size, for twenty programs.
//! Each writes all its touches into a trace. An LRU stack of the touches shows how many pages would
//! refault in a minute at each size. The exact size is the smallest at which refaults cost at most
//! 0.1% of the time, at the report's price of a page. `pagetide mrc` reads the same traces: at the
//! reported size it must count as many misses as the stack.
//!
//! The reported size includes what is not in the trace: the program's own code and stack, some
//! hundred KiB.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use e2e::bench::{Args, Findings};
use e2e::guard::{Run, Running};
use e2e::temp::TempDir;
use e2e::{pagetide, programs, wait};
use serde_json::Value;

const MIB: f64 = 1_048_576.0;
/// Size of a page, bytes.
const PAGE: f64 = 4096.0;
/// Part of the time that refaults may cost.
const BUDGET: f64 = 0.001;
/// Time after which a program has touched all the memory that it uses.
const WARM: Duration = Duration::from_secs(30);
/// Time that a command may take longer than it watches.
const SLACK: Duration = Duration::from_secs(120);

/// The programs: pattern, memory in MiB, touches per second, and kind of memory, as in
/// `tests/programs/paced.c`.
const PROGRAMS: [(&str, u64, u64, &str); 20] = [
    ("even", 64, 2000, "anon"),
    ("zipf0.6", 96, 3000, "anon"),
    ("zipf0.8", 96, 3000, "anon"),
    ("zipf1.0", 96, 3000, "anon"),
    ("zipf1.2", 96, 3000, "anon"),
    ("zipf0.6", 96, 500, "anon"),
    ("loop", 48, 4000, "anon"),
    ("loop", 64, 500, "anon"),
    ("phases10", 96, 3000, "anon"),
    ("phases", 96, 3000, "anon"),
    ("phases60", 96, 3000, "anon"),
    ("hotcold", 128, 3000, "anon"),
    ("scanhot", 96, 2000, "anon"),
    ("tail", 96, 3000, "anon"),
    ("rare", 96, 3000, "anon"),
    ("grow", 256, 3000, "anon"),
    ("keep", 256, 3000, "anon"),
    ("rare", 96, 3000, "huge"),
    ("tail", 96, 3000, "file"),
    ("tail", 96, 3000, "shared"),
];

/// Results for one program.
struct Outcome {
    name: String,
    /// Needed memory by the report, bytes.
    reported: f64,
    /// Exact needed memory, bytes.
    exact: f64,
    /// Part of the time that the program would wait for refaults at the reported size.
    costs: f64,
    /// The report's confidence in the needed memory.
    confidence: String,
    /// Misses at the reported size in the whole trace, first touches included: by the stack, by
    /// `pagetide mrc`.
    misses: (u64, u64),
}

/// The touches in a trace, in their order: the second of each, and its page.
fn touches(trace: &[u8]) -> impl Iterator<Item = (u32, u64)> {
    trace.chunks_exact(24).map(|record| {
        let (second, page) = (&record[..4], &record[4..12]);
        let page = u64::from_le_bytes(page.try_into().unwrap_or_default());
        (
            u32::from_le_bytes(second.try_into().unwrap_or_default()),
            page,
        )
    })
}

/// Counts the touches from second `from` to before second `to` by depth: index d counts those whose
/// page was at depth d of an LRU stack of all touches. A page's first touch has no depth and is not
/// counted.
fn depths(trace: &[u8], from: u32, to: u32) -> Vec<u64> {
    let count = trace.len() / 24;
    // A Fenwick tree over the touches, in which only the last touch of each page is set.
    let mut tree = vec![0_i64; count + 1];
    let add = |tree: &mut Vec<i64>, at: usize, by: i64| {
        let mut at = at + 1;
        while at < tree.len() {
            tree[at] += by;
            at += at & at.wrapping_neg();
        }
    };
    let below = |tree: &Vec<i64>, at: usize| {
        let (mut at, mut sum) = (at + 1, 0);
        while at > 0 {
            sum += tree[at];
            at &= at - 1;
        }
        sum
    };
    let (mut last, mut found) = (HashMap::new(), Vec::new());
    for (number, (second, page)) in touches(trace).enumerate() {
        if let Some(before) = last.insert(page, number) {
            let depth = below(&tree, number) - below(&tree, before) + 1;
            let depth = usize::try_from(depth).unwrap_or(0);
            if found.len() <= depth {
                found.resize(depth + 1, 0);
            }
            found[depth] += u64::from((from..to).contains(&second));
            add(&mut tree, before, -1);
        }
        add(&mut tree, number, 1);
    }
    found
}

/// The smallest number of pages for which at most `most` touches find their page deeper in the
/// stack.
fn smallest(depths: &[u64], most: f64) -> usize {
    let mut deeper = 0_u64;
    for (depth, count) in depths.iter().enumerate().rev() {
        deeper += count;
        if deeper as f64 > most {
            return depth;
        }
    }
    0
}

/// Number of misses of an LRU memory of `pages` pages in the whole trace, first touches included,
/// by `pagetide mrc`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count below 2^53"
)]
fn misses_by_mrc(trace: &str, pages: usize) -> u64 {
    let pages = pages.to_string();
    let words = [
        "mrc",
        "--json",
        "--format",
        "oracle-general",
        "--sizes",
        &pages,
        trace,
    ];
    let reported = pagetide::command(words).finish(SLACK);
    assert!(reported.status.success(), "{}", reported.stderr);
    let reported: Value = serde_json::from_str(&reported.stdout).expect("JSON");
    let ratio = number(&reported["sizes"][0]["miss_ratio"]["lru"]);
    (ratio * number(&reported["references"])).round() as u64
}

/// Number of misses of an LRU memory of `pages` pages in the whole trace, first touches included,
/// by the stack.
fn misses_by_stack(trace: &[u8], pages: usize) -> u64 {
    let hits: u64 = depths(trace, 0, u32::MAX).iter().take(pages + 1).sum();
    touches(trace).count() as u64 - hits
}

/// A JSON number; NaN if it is none.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Starts a program, which writes its trace to the folder.
fn start_program(folder: &TempDir, program: (&str, u64, u64, &str)) -> Running {
    let (pattern, mib, rate, kind) = program;
    let words = format!(
        "sleep 3600 | exec {} {pattern} {mib} {rate} 3600 {} {kind}",
        programs::c("paced"),
        folder.file("trace"),
    );
    Run::new(["sh", "-c", &words]).start()
}

/// Runs a program and a report on it for `watch`; returns its results.
fn measure_program(program: (&str, u64, u64, &str), watch: Duration) -> Outcome {
    let (pattern, _, rate, kind) = program;
    let folder = TempDir::new();
    let running = start_program(&folder, program);
    wait::until("it is filled", SLACK, || running.stdout().contains("ready"));
    let pid = running.stdout();
    let pid = pid.trim().rsplit('=').next().unwrap_or_default().to_owned();
    thread::sleep(WARM);
    let time = format!("{}s", watch.as_secs());
    let words = ["report", &pid, "--for", &time, "--json"];
    let report = pagetide::command(words).finish(watch + SLACK);
    assert!(report.status.success(), "{}", report.stderr);
    let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
    running.signal(rustix::process::Signal::KILL);
    let trace = std::fs::read(folder.file("trace")).expect("its trace");
    let from = u32::try_from(WARM.as_secs()).unwrap_or(0);
    let to = from + u32::try_from(watch.as_secs()).unwrap_or(0);
    let depths = depths(&trace, from, to);
    let needed = &report["needed"];
    let price = match kind {
        "file" => number(&needed["price"]["file_us"]),
        _ => number(&needed["price"]["anon_us"]),
    };
    let micros = watch.as_secs_f64() * 1e6;
    let exact = smallest(&depths, BUDGET * micros / price) as f64 * PAGE;
    let reported = number(&needed["bytes"]);
    let size = needed["bytes"].as_u64().unwrap_or(0) / 4096;
    let size = usize::try_from(size).unwrap_or(usize::MAX - 1);
    let deeper: u64 = depths.iter().skip(size + 1).sum();
    // The program may write until it has ended: the stack and `mrc` get the same part of the trace.
    let read = folder.file("read");
    std::fs::write(&read, &trace[..trace.len() / 24 * 24]).expect("room for the trace");
    // `mrc` accepts no size that is larger than the program.
    let shown = size.clamp(1, depths.len());
    let misses = (misses_by_stack(&trace, shown), misses_by_mrc(&read, shown));
    Outcome {
        name: format!("{pattern} {kind}, {rate} a second"),
        reported,
        exact,
        costs: deeper as f64 * price / micros,
        misses,
        confidence: needed["confidence"].as_str().unwrap_or("none").to_owned(),
    }
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("needs", &args);
    let watch = args.seconds("--watch", 120);
    let beside = usize::try_from(args.number("--beside", 4)).unwrap_or(1);
    let only = args.text("--program");
    let is_requested = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let requested: Vec<_> = PROGRAMS
        .into_iter()
        .filter(|one| is_requested(one.0))
        .collect();
    let _ = programs::c("paced");
    let (mut near, mut dear, mut apart) = (0, 0, 0);
    for batch in requested.chunks(beside) {
        let threads: Vec<_> = batch
            .iter()
            .map(|program| {
                let program = *program;
                thread::spawn(move || measure_program(program, watch))
            })
            .collect();
        for one in threads {
            let one = one.join().expect("it was measured");
            let error = 100.0 * (one.reported / one.exact - 1.0);
            near += u64::from(error.abs() <= 15.0);
            dear += u64::from(one.costs > 2.0 * BUDGET);
            apart += one.misses.0.abs_diff(one.misses.1);
            let what = format!(
                "{}: {:.1} MiB told with {} confidence, {:.1} exact; costs {:.3}% of its time; {} misses by mrc",
                one.name,
                one.reported / MIB,
                one.confidence,
                one.exact / MIB,
                one.costs * 100.0,
                one.misses.1,
            );
            found.figure(&what, error, "% more");
        }
    }
    let share = near as f64 / requested.len() as f64;
    found.at_least("within 15% of the exact number", share * 100.0, "%", 90.0);
    found.at_most(
        "would cost more than twice the budget",
        dear as f64,
        "",
        0.0,
    );
    found.at_most(
        "misses by mrc that the stack has not, or the reverse",
        apart as f64,
        "",
        0.0,
    );
    found.finish()
}
