//! `cargo xtask bench saving [--keys 100000] [--seconds 120] [--json]`: what redis can give up when a
//! random tenth of its keys is in use, and what that costs the tenth.
//!
//! Two servers hold the same keys, one of them managed; one client asks each in turn for half a
//! second at a time, so that whatever else the machine does happens to both.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings, median, percents};
use e2e::guard::{Run, Running, send};
use e2e::resp::{Client, Reply, free_port};
use e2e::temp::TempDir;
use e2e::wait::Chance;
use e2e::{pagetide, proc};
use rustix::process::Signal;

const OPTIONS: [&str; 4] = ["--evict-older-than", "10s", "--every", "40s"];
const VALUE_BYTES: u64 = 4096;
const BATCH: u64 = 100;
const BATCH_STEP: usize = 100;
const SLICE: Duration = Duration::from_millis(500);

struct Server {
    /// Ends what it started when it goes; but redis overwrites the mark that it is found by.
    _running: Running,
    pid: u32,
    client: Client,
    /// Keys read a second, one entry a slice.
    rates: Vec<f64>,
    _folder: TempDir,
}

impl Server {
    fn start(managed: bool) -> Server {
        let (folder, port) = (TempDir::new(), free_port());
        let dir = folder.path().to_string_lossy().into_owned();
        let port_text = port.to_string();
        let words = [
            "redis-server",
            "--port",
            &port_text,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ];
        let run = Run::new(
            words
                .into_iter()
                .chain(["--appendonly", "no", "--dir", &dir]),
        );
        let run = if managed {
            pagetide::run(&OPTIONS, &run)
        } else {
            run
        };
        let running = run.start();
        let mut client = Client::connect(port);
        let pid = pid_of(&mut client);
        Server {
            _running: running,
            client,
            pid,
            rates: Vec::new(),
            _folder: folder,
        }
    }

    fn fill(&mut self, keys: u64) {
        for first in (0..keys).step_by(BATCH_STEP) {
            let pairs: Vec<_> = (first..(first + BATCH).min(keys))
                .map(|n| (key(n), value(n)))
                .collect();
            let words: Vec<[&[u8]; 3]> = pairs.iter().map(|(k, v)| [&b"SET"[..], k, v]).collect();
            let commands: Vec<&[&[u8]]> = words.iter().map(|words| &words[..]).collect();
            self.client.pipeline(&commands);
        }
    }

    fn resident(&self) -> f64 {
        proc::rss_anon(self.pid).unwrap_or(0) as f64
    }

    /// Reads keys in use for one slice, one at a time.
    fn slice(&mut self, used: &[u64], chance: &mut Chance) {
        let begin = Instant::now();
        let mut reads = 0u32;
        while begin.elapsed() < SLICE {
            let number = used[usize::try_from(chance.below(used.len() as u64)).unwrap_or(0)];
            let reply = self.client.pipeline(&[&[b"GET", &key(number)]]);
            assert!(
                reply[0] == Reply::Bulk(Some(value(number))),
                "key {number} is wrong"
            );
            reads += 1;
        }
        self.rates
            .push(f64::from(reads) / begin.elapsed().as_secs_f64());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        send(self.pid, Signal::KILL);
    }
}

/// The server's own process id; its name in /proc is what redis makes of it.
fn pid_of(client: &mut Client) -> u32 {
    let Reply::Bulk(Some(text)) = client.call(&["INFO", "server"]) else {
        panic!("redis has nothing to say about itself");
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"));
    line.and_then(|pid| pid.trim().parse().ok())
        .expect("redis knows its process id")
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// Half noise, half the same everywhere: about 2 to 1 for lz4.
fn value(number: u64) -> Vec<u8> {
    let mut chance = Chance::new(number);
    let words = (0..VALUE_BYTES / 8).map(|i| {
        if i % 2 == 0 {
            chance.below(u64::MAX)
        } else {
            number
        }
    });
    words.flat_map(u64::to_le_bytes).collect()
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("saving", &args);
    let keys = args.number("--keys", 100_000);
    let mut chance = Chance::from_env("saving");
    let used: Vec<u64> = (0..keys / 10).map(|_| chance.below(keys)).collect();
    let (mut alone, mut managed) = (Server::start(false), Server::start(true));
    alone.fill(keys);
    managed.fill(keys);
    let full = managed.resident();
    let begin = Instant::now();
    let (mut least, mut halved) = (full, None);
    let mut number = 0;
    while begin.elapsed() < args.seconds("--seconds", 120) {
        // Each goes first every other time.
        if number % 2 == 0 {
            alone.slice(&used, &mut chance);
            managed.slice(&used, &mut chance);
        } else {
            managed.slice(&used, &mut chance);
            alone.slice(&used, &mut chance);
        }
        number += 1;
        least = managed.resident().min(least);
        if least <= full / 2.0 && halved.is_none() {
            halved = Some(begin.elapsed().as_secs_f64());
        }
    }
    let mib = 1048576.0;
    found.figure("resident after the fill", full / mib, "MiB");
    found.figure(
        "the same, not managed, at the end",
        alone.resident() / mib,
        "MiB",
    );
    found.figure("resident at the end", managed.resident() / mib, "MiB");
    found.figure("half of it was gone after", halved.unwrap_or(f64::NAN), "s");
    let down = 100.0 * (1.0 - managed.resident() / full);
    found.at_least("resident is down at the end by", down, "%", 50.0);
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    found.figure(
        "keys read a second alone, median",
        median(&alone.rates),
        "/s",
    );
    found.figure(
        "keys read a second managed, median",
        median(&managed.rates),
        "/s",
    );
    let ratios = percents(&managed.rates, &alone.rates);
    found.figure("throughput, median of the pairs", median(&ratios), "%");
    let whole = 100.0 * sum(&managed.rates) / sum(&alone.rates);
    found.at_least("throughput over the whole time", whole, "%", 97.0);
    tell_cost(&managed, &mut found);
    check_all(&mut managed, keys);
    found.finish()
}

/// Every key is read once more, those that are out too.
fn check_all(server: &mut Server, keys: u64) {
    for number in 0..keys {
        let reply = server.client.pipeline(&[&[b"GET", &key(number)]]);
        assert!(
            reply[0] == Reply::Bulk(Some(value(number))),
            "key {number} is wrong"
        );
    }
}

/// What pagetide says of itself.
fn tell_cost(managed: &Server, found: &mut Findings) {
    let report = pagetide::report(managed.pid);
    for name in ["evicted_pages", "refaulted_pages", "limbo_returns"] {
        found.figure(name, report[name].as_f64().unwrap_or(f64::NAN), "");
    }
    let wall = report["wall_ms"].as_f64().unwrap_or(f64::NAN);
    let cpu = report["overhead"]["cpu_ms"].as_f64().unwrap_or(f64::NAN);
    found.figure(
        "CPU of manager and keepers",
        100.0 * cpu / wall,
        "% of a core",
    );
}
