//! `cargo xtask bench needs [--watch 120] [--program NAME] [--beside 4] [--json]`: the number of `report`, how much a
//! program needs, beside the exact one. Twenty programs write each touch into a trace; an LRU stack of all touches says
//! how many pages would come back in a minute at each size, and the smallest size at which that costs at most 0.1% of the
//! time, at the report's price of a page, is exact.
//!
//! The report's number has more in it than the trace: the program's own code and stack, some hundred KiB.
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
const PAGE: f64 = 4096.0;
/// Of the time, what coming back may cost.
const BUDGET: f64 = 0.001;
/// Once begun, it has touched what it uses.
const WARM: Duration = Duration::from_secs(30);
const SLACK: Duration = Duration::from_secs(120);

/// Pattern, MiB, touches a second, kind of memory, as tests/programs/paced.c has them.
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

/// What came of a program.
struct Outcome {
    name: String,
    told: f64,
    exact: f64,
    /// Share of the time that the program would wait for refaults at the reported size.
    costs: f64,
    confidence: String,
}

/// Touches as (second, page), in their order.
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

/// How many touches from second `from` to `to` found their page at each depth of an LRU stack of all touches; a page's
/// first touch has none.
fn depths(trace: &[u8], from: u32, to: u32) -> Vec<u64> {
    let count = trace.len() / 24;
    // A Fenwick tree over the touches: a touch counts while it is its page's last.
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

/// The smallest number of pages at which no more than `most` touches find their page deeper.
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

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn started(folder: &TempDir, program: (&str, u64, u64, &str)) -> Running {
    let (pattern, mib, rate, kind) = program;
    let words = format!(
        "sleep 3600 | exec {} {pattern} {mib} {rate} 3600 {} {kind}",
        programs::c("paced"),
        folder.file("trace"),
    );
    Run::new(["sh", "-c", &words]).start()
}

fn measured(program: (&str, u64, u64, &str), watch: Duration) -> Outcome {
    let (pattern, _, rate, kind) = program;
    let folder = TempDir::new();
    let running = started(&folder, program);
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
    let told = number(&needed["bytes"]);
    let size = needed["bytes"].as_u64().unwrap_or(0) / 4096;
    let size = usize::try_from(size).unwrap_or(usize::MAX - 1);
    let deeper: u64 = depths.iter().skip(size + 1).sum();
    Outcome {
        name: format!("{pattern} {kind}, {rate} a second"),
        told,
        exact,
        costs: deeper as f64 * price / micros,
        confidence: needed["confidence"].as_str().unwrap_or("none").to_owned(),
    }
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("needs", &args);
    let watch = args.seconds("--watch", 120);
    let beside = usize::try_from(args.number("--beside", 4)).unwrap_or(1);
    let only = args.text("--program");
    let is_asked = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let asked: Vec<_> = PROGRAMS.into_iter().filter(|one| is_asked(one.0)).collect();
    let _ = programs::c("paced");
    let (mut near, mut dear) = (0, 0);
    for batch in asked.chunks(beside) {
        let threads: Vec<_> = batch
            .iter()
            .map(|program| {
                let program = *program;
                thread::spawn(move || measured(program, watch))
            })
            .collect();
        for one in threads {
            let one = one.join().expect("it was measured");
            let error = 100.0 * (one.told / one.exact - 1.0);
            near += u64::from(error.abs() <= 15.0);
            dear += u64::from(one.costs > 2.0 * BUDGET);
            let what = format!(
                "{}: {:.1} MiB told with {} confidence, {:.1} exact; costs {:.3}% of its time",
                one.name,
                one.told / MIB,
                one.confidence,
                one.exact / MIB,
                one.costs * 100.0
            );
            found.figure(&what, error, "% more");
        }
    }
    let share = near as f64 / asked.len() as f64;
    found.at_least("within 15% of the exact number", share * 100.0, "%", 90.0);
    found.at_most(
        "would cost more than twice the budget",
        dear as f64,
        "",
        0.0,
    );
    found.finish()
}
