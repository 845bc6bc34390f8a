//! `cargo xtask bench cold-age [--seconds 60] [--before 20] [--older-than 10] [--every 5]
//! [--compress lz4|lzo|lzo-rle] [--only LPUSH,GET,LPOP] [--pipeline 32] [--names 0] [--json]`
//!
//! Runs redis's own benchmark under the policy `cold-age`, which pages out memory that was not used
//! for ten seconds (docs/spec/workingset-report.md; there the policy scans every 40 s). The
//! benchmark's five operations, or those in `--only`, run one after the other. The first grows a
//! list by hundreds of MiB, and the last takes it apart again. Keys and members are the same each
//! time, unless `--names` sets their number. The kernel chooses the compressor unless `--compress`
//! names one.
//!
//! Two servers, each in a control group of its own, do the same number of operations in turn. As
//! long as they live, two servers differ by some percent, also when neither is managed. So each
//! operation is compared on the two servers before and after `pagetide attach` takes over one of
//! them, and the second ratio is divided by the first. In between the servers are emptied; peaks
//! are the kernel's count of the group's charge from then on. The servers run on one processor and
//! the client on another.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median, percents};
use e2e::guard::{Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::pagetide;
use e2e::resp::{Client, free_port};
use e2e::temp::TempDir;
use e2e::zram::Swap;

const MIB: f64 = 1_048_576.0;
/// Operations of the benchmark, in the order in which they run. LPUSH grows a list that LPOP takes
/// apart.
const OPERATIONS: [&str; 5] = ["LPUSH", "GET", "SET", "SADD", "LPOP"];
/// Number of operations in one turn of a server; a turn takes a third of a second or so.
const SLICE: &str = "300000";
/// Time limit of one turn.
const LIMIT: Duration = Duration::from_secs(60);

/// A redis server and its control group.
struct Server {
    /// Dropped before the group, as a group must be empty when it is removed.
    running: Running,
    group: MemoryGroup,
    client: Client,
    port: u16,
    _folder: TempDir,
}

impl Server {
    /// Starts an empty server on the first processor.
    fn start() -> Server {
        let (group, folder, port) = (MemoryGroup::new(), TempDir::new(), free_port());
        let words = ["taskset", "-c", "0", "redis-server", "--bind", "127.0.0.1"];
        let more = ["--save", "", "--appendonly", "no", "--port"].map(str::to_owned);
        let place = [
            port.to_string(),
            "--dir".to_owned(),
            folder.path().display().to_string(),
        ];
        let run = Run::new(
            words
                .map(str::to_owned)
                .into_iter()
                .chain(more)
                .chain(place),
        );
        let running = group.run(&run).start();
        Server {
            running,
            group,
            client: Client::connect(port),
            port,
            _folder: folder,
        }
    }

    /// Runs one turn of an operation; returns operations per second, as redis's benchmark reports
    /// them.
    fn slice(&self, operation: &str, how: &[String]) -> f64 {
        let (port, last) = (self.port.to_string(), last_processor());
        let words = ["taskset", "-c", &last, "redis-benchmark", "-p", &port];
        let more = ["-t", operation, "-n", SLICE, "-c", "50", "--csv"];
        let words = words.into_iter().chain(more).map(str::to_owned);
        let done = Run::new(words.chain(how.iter().cloned())).finish(LIMIT);
        let line = done.stdout.lines().last().unwrap_or_default();
        let speed = line.split(',').nth(1).map(|word| word.trim_matches('"'));
        let speed = speed.and_then(|word| word.parse().ok());
        speed.unwrap_or_else(|| panic!("{}{}", done.stdout, done.stderr))
    }

    /// Removes all keys, and begins a new peak of the group's charge.
    fn empty(&mut self) {
        self.client.call(&["FLUSHALL"]);
        std::fs::write(
            format!("{}/memory.max_usage_in_bytes", self.group.path()),
            "0",
        )
        .expect("the peak can be begun anew");
    }

    /// Highest charge of the group, bytes.
    fn peak(&self) -> f64 {
        self.group.number("memory.max_usage_in_bytes") as f64
    }
}

/// Number of the machine's last processor.
fn last_processor() -> String {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    (all - 1).to_string()
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("cold-age", &args);
    let mut how = vec!["-P".to_owned(), args.number("--pipeline", 32).to_string()];
    if let names @ 1.. = args.number("--names", 0) {
        how.extend(["-r".to_owned(), names.to_string()]);
    }
    let operations = operations(&args);
    let _swap = Swap::compressed_by(4096, args.text("--compress").as_deref());
    let mut servers = [Server::start(), Server::start()];
    let time = args.seconds("--before", 20);
    let before = operations
        .iter()
        .map(|operation| pairs(&servers, operation, &how, time));
    let before: Vec<_> = before.collect();
    servers.iter_mut().for_each(Server::empty);

    let policy = format!(
        "cold-age:older-than={}s,every={}s",
        args.number("--older-than", 10),
        args.number("--every", 5)
    );
    let pid = servers[1].running.pid().to_string();
    let attach = pagetide::command(["attach", "--evict-by", &policy, &pid]);
    let manager = attach.start();
    let time = args.seconds("--seconds", 60);
    for (operation, before) in operations.iter().zip(before) {
        let (was, is) = (
            median(&before),
            median(&pairs(&servers, operation, &how, time)),
        );
        found.figure(&format!("{operation}: unmanaged, of the other's"), was, "%");
        found.at_least(
            &format!("{operation}: over that"),
            100.0 * is / was,
            "%",
            99.0,
        );
    }
    let [alone, managed] = [0, 1].map(|side: usize| servers[side].peak());
    found.figure("peak of who is not managed", alone / MIB, "MiB");
    found.figure("peak of who is", managed / MIB, "MiB");
    found.at_least("down by", 100.0 * (1.0 - managed / alone), "%", 50.0);
    let report = pagetide::report(servers[1].running.pid());
    let evicted = report["policy"]["evicted_pages"].as_f64();
    found.figure("pages that it put out", evicted.unwrap_or(f64::NAN), "");
    drop(manager);
    found.finish()
}

/// The operations that `--only` names, or all, in the order in which they run.
fn operations(args: &Args) -> Vec<&'static str> {
    let only = args.text("--only");
    let is_requested = |name: &&str| {
        let only = only.as_deref();
        only.is_none_or(|only| only.split(',').any(|one| one == *name))
    };
    let requested: Vec<_> = OPERATIONS.into_iter().filter(is_requested).collect();
    assert!(
        !requested.is_empty(),
        "--only: none of {}",
        OPERATIONS.join(", ")
    );
    requested
}

/// Speed of the second server in percent of the first one's, for each pair of turns.
fn pairs(servers: &[Server; 2], operation: &str, how: &[String], time: Duration) -> Vec<f64> {
    let (begin, mut all) = (Instant::now(), [Vec::new(), Vec::new()]);
    while begin.elapsed() < time {
        // Each server is first in every other pair.
        let turn = all[0].len() % 2;
        for side in [turn, 1 - turn] {
            all[side].push(servers[side].slice(operation, how));
        }
    }
    percents(&all[1], &all[0])
}
