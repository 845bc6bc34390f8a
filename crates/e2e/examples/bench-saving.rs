//! `cargo xtask bench saving [--keys 100000] [--seconds 120] [--noise 30] [--compress lz4|lzo|lzo-rle]
//! [--older-than 10s] [--json]`: what redis can give up when a random tenth of its keys is in use, and what that costs the
//! tenth. Of each value `--noise` percent cannot be compressed; the compressor is the kernel's own choice unless one is named.
//!
//! Two servers hold the same keys; one client asks each in turn for a tenth of a second at a time, so that whatever else the
//! machine does happens to both. Two servers differ by some percent for as long as they live, though nobody manages them:
//! so they are compared before `pagetide attach` is given one of them, and the comparison after it is divided by
//! that. Servers are on one processor and the client on another. The swap is a zram of our own, with the highest
//! priority, so that what it takes is what the managed server's pages take.
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

const OPTIONS: [&str; 4] = ["--every", "5s", "--age-every", "5s"];
/// The two are compared for so long before one is managed.
const BEFORE: Duration = Duration::from_secs(40);
/// What could go has gone then.
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
        let mut server = Redis::start(noise, &|run| on_processors("0", run));
        server.fill(keys);
        server
    };
    let mut servers = [start(), start()];
    let mut one = CpuSet::new();
    one.set(available_parallelism().map_or(0, |all| all.get() - 1));
    sched_setaffinity(None, &one).expect("the client may run on the last processor");
    let before = Pairs::take(&mut servers, &used, &mut chance, BEFORE, &mut |_| ());

    let pid = servers[1].pid;
    let full = resident(pid);
    let older_than = args.text("--older-than");
    let older_than = older_than.as_deref().unwrap_or("10s");
    let words = ["attach", "--evict-older-than", older_than].into_iter();
    let words = words.chain(OPTIONS);
    let attach = pagetide::command(words.chain([pid.to_string().as_str()]));
    // The client's processor is not the manager's alone.
    let _manager = on_processors("0-1023", &attach).start();
    let mut halved = f64::INFINITY;
    let mut settled = None;
    let time = args.seconds("--seconds", 120);
    let managed = Pairs::take(&mut servers, &used, &mut chance, time, &mut |passed| {
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

/// The command, on some of the processors.
fn on_processors(which: &str, run: &Run) -> Run {
    run.under(["taskset", "-c", which].map(str::to_owned))
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
