//! `cargo xtask bench saving [--keys 100000] [--seconds 120] [--json]`: what redis can give up when a random tenth of its keys is
//! in use, and what that costs the tenth.
//!
//! Two servers hold the same keys, one of them managed; one client asks each in turn for half a second at a time, so
//! that whatever else the machine does happens to both. The swap is a zram of our own, with the highest priority, so that
//! what it takes is what the managed server's pages take.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median, percents};
use e2e::redis::Redis;
use e2e::wait::Chance;
use e2e::zram::Swap;
use e2e::{pagetide, proc};

const OPTIONS: [&str; 6] = [
    "--evict-older-than",
    "10s",
    "--every",
    "5s",
    "--age-every",
    "5s",
];
const SLICE: Duration = Duration::from_millis(500);
const MIB: f64 = 1_048_576.0;

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("saving", &args);
    let keys = args.number("--keys", 100_000);
    let mut chance = Chance::from_env("saving");
    let used: Vec<u64> = (0..keys / 10).map(|_| chance.below(keys)).collect();
    let swap = Swap::new(2048);
    let mut alone = Redis::start(&Clone::clone);
    let mut managed = Redis::start(&|run| pagetide::run(&OPTIONS, run));
    alone.fill(keys);
    managed.fill(keys);
    // While it is filled what is old leaves already.
    let full = resident(managed.pid) + swapped(managed.pid);
    let mut rates = [Vec::new(), Vec::new()];
    let mut halved = f64::INFINITY;
    let (begin, mut settled) = (Instant::now(), None);
    while begin.elapsed() < args.seconds("--seconds", 120) {
        // Each goes first every other time.
        let turn = rates[0].len() % 2;
        for side in [turn, 1 - turn] {
            let server = if side == 0 { &mut alone } else { &mut managed };
            rates[side].push(slice(server, &used, &mut chance));
        }
        let passed = begin.elapsed();
        if resident(managed.pid) <= full / 2.0 {
            halved = halved.min(passed.as_secs_f64());
        }
        if passed > Duration::from_secs(30) && settled.is_none() {
            settled = Some(cost(managed.pid));
        }
    }
    let left = resident(managed.pid);
    let stored = swap.memory_used() as f64;
    found.figure("resident after the fill", full / MIB, "MiB");
    found.figure("resident at the end", left / MIB, "MiB");
    found.figure("of zram's memory", stored / MIB, "MiB");
    let down = |left: f64| 100.0 * (1.0 - left / full);
    found.at_least("resident is down by", down(left), "%", 80.0);
    found.at_least("net of zram's memory", down(left + stored), "%", 50.0);
    found.at_most("half was gone after", halved, "s", 30.0);
    let ratios = percents(&rates[1], &rates[0]);
    found.at_least(
        "throughput, median of the pairs",
        median(&ratios),
        "%",
        99.0,
    );
    let whole = 100.0 * rates[1].iter().sum::<f64>() / rates[0].iter().sum::<f64>();
    found.figure("throughput over the whole time", whole, "%");
    let (before, after) = (settled.unwrap_or_default(), cost(managed.pid));
    let share = 100.0 * (after.1 - before.1) / (after.0 - before.0);
    found.at_most("manager, after the first 30 s", share, "% of a core", 1.0);
    ledger(&mut found, managed.pid, &swap);
    for number in 0..keys {
        managed.check(number);
    }
    drop((alone, managed));
    found.finish()
}

/// Reads keys in use for one slice; keys a second.
fn slice(server: &mut Redis, used: &[u64], chance: &mut Chance) -> f64 {
    let begin = Instant::now();
    let mut reads = 0_u32;
    while begin.elapsed() < SLICE {
        let at = chance.below(used.len() as u64);
        server.check(used[usize::try_from(at).unwrap_or(0)]);
        reads += 1;
    }
    f64::from(reads) / begin.elapsed().as_secs_f64()
}

fn resident(pid: u32) -> f64 {
    proc::number(pid, "VmRSS").unwrap_or(0) as f64
}

fn swapped(pid: u32) -> f64 {
    proc::number(pid, "VmSwap").unwrap_or(0) as f64
}

/// Milliseconds that passed, and of our processor time.
fn cost(pid: u32) -> (f64, f64) {
    let report = pagetide::report(pid);
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    (
        number(&report["wall_ms"]),
        number(&report["overhead"]["cpu_ms"]),
    )
}

/// What the report says is out, beside what the kernel says.
fn ledger(found: &mut Findings, pid: u32, swap: &Swap) {
    let report = pagetide::report(pid);
    let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    let out = swapped(pid);
    let booked = (number("evicted_pages") - number("refaulted_pages")) * 4096.0;
    found.figure("out by the kernel's VmSwap", out / MIB, "MiB");
    found.figure("used of the swap", swap.used() as f64 / MIB, "MiB");
    let said = number("swapped_bytes");
    found.at_least(
        "of swapped_bytes the kernel has",
        100.0 * out / said,
        "%",
        99.0,
    );
    let books = 100.0 * out / booked;
    found.at_least("of evicted less refaulted the kernel has", books, "%", 99.0);
}
