//! `cargo xtask bench saving [--keys 100000] [--seconds 120] [--noise 30] [--compress
//! lz4|lzo|lzo-rle] [--older-than 10s] [--json]`
//!
//! Measures how much memory redis can do without when a random tenth of its keys is in use, and
//! what that costs requests for these keys. `--noise` percent of each value cannot be compressed.
//! The kernel chooses the compressor unless `--compress` names one.
//!
//! Two servers have the same keys. One client sends requests to each in turn, for a tenth of a
//! second at a time, so that other load on the machine affects them equally. As long as they live,
//! two servers differ by some percent, also when neither is managed. So they are compared before
//! and after `pagetide attach` takes over one of them, and the second ratio is divided by the
//! first. The servers run on one processor and the client on another. The swap is a zram of our own
//! with the highest priority, so all memory that it uses is for pages of the managed server.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use e2e::bench::{Args, Findings};
use e2e::guard::Run;
use e2e::redis::{NOISE, Redis};
use e2e::redis_pairs::{Pairs, throughput};
use e2e::wait::Chance;
use e2e::zram::Swap;
use e2e::{pagetide, proc};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Further options of `attach`.
const OPTIONS: [&str; 4] = ["--every", "5s", "--age-every", "5s"];
/// Time for which the two servers are compared before one of them is managed.
const BEFORE: Duration = Duration::from_secs(40);
/// Time from `attach` until all cold pages are paged out.
const SETTLED: Duration = Duration::from_secs(30);
const MIB: f64 = 1_048_576.0;

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("saving", &args);
    let keys = args.number("--keys", 100_000);
    let mut chance = Chance::from_env("saving");
    let used: Vec<u64> = (0..keys / 10).map(|_| chance.below(keys)).collect();
    let noise = args.number("--noise", NOISE);
    let swap = Swap::compressed_by(2048, args.text("--compress").as_deref());
    let start = || {
        let mut server = Redis::start(noise, &|run| bound_to_processors("0", run));
        server.fill(keys);
        server
    };
    let mut servers = [start(), start()];
    let mut one = CpuSet::new();
    one.set(available_parallelism().map_or(0, |all| all.get() - 1));
    sched_setaffinity(None, &one).expect("the client may run on the last processor");
    let before = Pairs::measure(&mut servers, &used, &mut chance, BEFORE, &mut |_| ());

    let pid = servers[1].pid;
    let full = resident(pid);
    let older_than = args.text("--older-than");
    let older_than = older_than.as_deref().unwrap_or("10s");
    let words = ["attach", "--evict-older-than", older_than].into_iter();
    let words = words.chain(OPTIONS);
    let attach = pagetide::command(words.chain([pid.to_string().as_str()]));
    // The manager may run on any processor, not only on the client's.
    let _manager = bound_to_processors("0-1023", &attach).start();
    let mut halved = f64::INFINITY;
    let mut settled = None;
    let time = args.seconds("--seconds", 120);
    let managed = Pairs::measure(&mut servers, &used, &mut chance, time, &mut |passed| {
        if resident(pid) <= full / 2.0 {
            halved = halved.min(passed.as_secs_f64());
        }
        if passed > SETTLED && settled.is_none() {
            settled = Some(cost(pid));
        }
    });
    let (left, after) = (resident(pid), cost(pid));
    let (stored, out) = (swap.memory_used() as f64, swap.used() as f64);
    found.figure("resident after the fill", full / MIB, "MiB");
    found.figure("resident at the end", left / MIB, "MiB");
    found.figure("of zram's memory", stored / MIB, "MiB");
    let compressed = format!("compressed to one of, by {}", swap.compressor());
    found.figure(&compressed, out / stored, "");
    let down = |left: f64| 100.0 * (1.0 - left / full);
    found.at_least("resident is down by", down(left), "%", 80.0);
    found.at_least("net of zram's memory", down(left + stored), "%", 50.0);
    found.at_most("half was gone after", halved, "s", 30.0);
    throughput(&mut found, &before, &managed);
    let from = settled.unwrap_or_default();
    let share = 100.0 * (after.1 - from.1) / (after.0 - from.0);
    found.at_most("manager, after the first 30 s", share, "% of a core", 1.0);
    ledger(&mut found, pid, &swap);
    (0..keys).for_each(|number| servers[1].check(number));
    drop(servers);
    found.finish()
}

/// The command `run`, bound to the processors `which` (such as `0-3`).
fn bound_to_processors(which: &str, run: &Run) -> Run {
    run.under(["taskset", "-c", which].map(str::to_owned))
}

/// Resident memory of a process, bytes.
fn resident(pid: u32) -> f64 {
    proc::number(pid, "VmRSS").unwrap_or(0) as f64
}

/// Memory of a process in swap, bytes.
fn swapped(pid: u32) -> f64 {
    proc::number(pid, "VmSwap").unwrap_or(0) as f64
}

/// Milliseconds since the manager's start, and milliseconds of processor time that it has taken.
fn cost(pid: u32) -> (f64, f64) {
    let report = pagetide::report(pid);
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    (
        number(&report["wall_ms"]),
        number(&report["overhead"]["cpu_ms"]),
    )
}

/// Compares the swapped-out memory that pagetide counts with what the kernel counts.
fn ledger(found: &mut Findings, pid: u32, swap: &Swap) {
    let report = pagetide::report(pid);
    let number = |name: &str| report[name].as_f64().unwrap_or(f64::NAN);
    let out = swapped(pid);
    let by_engine = (number("evicted_pages") - number("refaulted_pages")) * 4096.0;
    found.figure("out by the kernel's VmSwap", out / MIB, "MiB");
    found.figure("used of the swap", swap.used() as f64 / MIB, "MiB");
    let said = number("swapped_bytes");
    found.at_least(
        "of swapped_bytes the kernel has",
        100.0 * out / said,
        "%",
        99.0,
    );
    let of_booked = 100.0 * out / by_engine;
    found.at_least(
        "of evicted less refaulted the kernel has",
        of_booked,
        "%",
        99.0,
    );
}
