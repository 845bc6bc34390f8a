//! `cargo xtask bench tenants-agent [--keys 100000] [--seconds 160] [--every 40] [--cold-ms 10000]
//! [--rule label] [--noise 30] [--json]`
//!
//! Runs the agent of the author of working-set reporting (`tests/programs/agent.py`, which knows
//! nothing of pagetide) on the files of `serve`. Every 40 s the agent reclaims from each tenant the
//! bins that are labelled 10 s or more. Other options choose other rules, and `--agent FILE`
//! another program ([`e2e::agent`]). The tenant is a redis server of which a tenth is in use.
//! Another server is in no tenant, and the two get requests in turn.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::bench::{Args, Findings};
use e2e::guard::Run;
use e2e::redis::{NOISE, Redis};
use e2e::redis_pairs::{Pairs, throughput};
use e2e::tenants::Tree;
use e2e::wait::Chance;
use e2e::zram::Swap;
use rustix::thread::{CpuSet, sched_setaffinity};

const MIB: f64 = 1_048_576.0;
/// Time for which the two servers are compared before the agent begins.
const BEFORE: Duration = Duration::from_secs(40);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants-agent", &args);
    let keys = args.number("--keys", 100_000);
    let mut chance = Chance::from_env("tenants-agent");
    let used: Vec<u64> = (0..keys / 10).map(|_| chance.below(keys)).collect();
    let noise = args.number("--noise", NOISE);
    let _swap = Swap::new(2048);
    let tree = Tree::serve(&["--age-every", "5s"]);
    tree.make("redis");
    let on = |run: &Run| run.under(["taskset", "-c", "0"].map(str::to_owned));
    let mut servers = [
        Redis::start(noise, &|run| on(run)),
        Redis::start(noise, &|run| on(run).under(tree.inside("redis"))),
    ];
    servers.iter_mut().for_each(|server| server.fill(keys));
    let mut last = CpuSet::new();
    last.set(available_parallelism().map_or(0, |all| all.get() - 1));
    sched_setaffinity(None, &last).expect("the client may run on the last processor");
    let before = Pairs::measure(&mut servers, &used, &mut chance, BEFORE, &mut |_| ());

    // Sets the bins of the file that the author's agent reads; every page is in exactly one bin.
    let by = Agent::of(&args);
    by.enable_reports(&tree, "redis");
    let agent = by.start(&tree, "redis", &["taskset", "-c", "0-1023"]);
    let time = args.seconds("--seconds", 160);
    let managed = Pairs::measure(&mut servers, &used, &mut chance, time, &mut |_| ());
    let (peak, left) = (
        tree.number("redis/memory.peak") as f64,
        tree.number("redis/memory.current") as f64,
    );
    found.figure("the most that was charged", peak / MIB, "MiB");
    found.figure("charged at the end", left / MIB, "MiB");
    found.at_least("down by", 100.0 * (1.0 - left / peak), "%", 50.0);
    throughput(&mut found, &before, &managed);
    sums(&tree, &mut found);
    found.figure(
        "times that the agent asked",
        by.count_requests(&agent.stdout()) as f64,
        "",
    );
    (0..keys).for_each(|number| servers[1].check(number));
    drop(servers);
    found.finish()
}

/// Compares the sum of the tenant's page ages with the size of its processes by the kernel.
fn sums(tree: &Tree, found: &mut Findings) {
    let text = tree.read("redis/memory.workingset.page_age");
    let words = text.split([' ', '\n']);
    let bytes = words.filter_map(|word| word.split_once('=')?.1.parse::<u64>().ok());
    let reported: u64 = bytes.sum();
    let pids = tree.read("redis/cgroup.procs");
    let pids: Vec<u32> = pids.lines().filter_map(|pid| pid.parse().ok()).collect();
    let alone = e2e::frames::pss_alone(&pids);
    let ratio = 100.0 * reported as f64 / alone as f64;
    found.at_least("page_age, of its processes' memory", ratio, "%", 98.0);
    found.at_most("page_age, of its processes' memory", ratio, "%", 102.0);
}
