//! The workloads of `bench kernel`. Each is a fixed amount of work that takes some seconds on an
//! idle machine; the time to its end is measured.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::guard::{Run, Running};
use crate::postgres::Postgres;
use crate::redis::{NOISE, Redis};
use crate::sides::RunSetup;
use crate::wait::Chance;
use crate::{proc, programs, wait};

/// Time limit of a run; a run that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(300);
/// Number of keys in redis, and number of reads.
const KEYS: (u64, u64) = (40_000, 60_000);

/// A workload of `bench kernel`.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Name in the table of results.
    pub name: &'static str,
    /// Name of the program that must be installed.
    needs: &'static str,
    work: Work,
}

/// What a workload does.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Runs a command to its end.
    Command(fn() -> Run),
    /// Fills a redis server and reads keys.
    Redis,
    /// Runs read-only transactions of pgbench.
    Postgres,
}

const fn cell(name: &'static str, needs: &'static str, work: Work) -> Cell {
    Cell { name, needs, work }
}

/// All workloads.
pub const CELLS: [Cell; 12] = [
    cell("zipf", "cc", Work::Command(|| patterns("zipf", "2000"))),
    cell(
        "hot+cold",
        "cc",
        Work::Command(|| patterns("hotcold", "4000")),
    ),
    cell(
        "scan+hot",
        "cc",
        Work::Command(|| patterns("scanhot", "2500")),
    ),
    cell("moving", "cc", Work::Command(|| patterns("moving", "2500"))),
    cell("loop", "cc", Work::Command(|| patterns("loop", "400"))),
    cell(
        "dicts",
        "python3",
        Work::Command(|| python("dicts.py", &["400000"])),
    ),
    cell(
        "sqlite",
        "python3",
        Work::Command(|| python("rows.py", &[])),
    ),
    cell("redis", "redis-server", Work::Redis),
    cell(
        "go",
        "go",
        Work::Command(|| Run::new([programs::go("gc"), "6".into()])),
    ),
    cell("java", "java", Work::Command(java)),
    cell("sort", "sort", Work::Command(sort)),
    cell("postgres", "psql", Work::Postgres),
];

impl Cell {
    /// Whether the program that the workload needs is installed.
    #[must_use]
    pub fn is_there(&self) -> bool {
        proc::in_path(self.needs)
    }

    /// Does the work; returns its duration in seconds, or `None` if it did not come to its end.
    /// Calls `scan` from time to time with the pids of the workload.
    pub fn run(&self, place: &RunSetup, scan: &mut dyn FnMut(&[u32])) -> Option<f64> {
        match self.work {
            Work::Command(make) => command(place.wrap(&make()).start(), scan),
            // A killed server makes its client panic, which counts as a killed run.
            Work::Redis => catch_unwind(AssertUnwindSafe(|| redis(place, scan))).ok(),
            Work::Postgres => catch_unwind(AssertUnwindSafe(|| postgres(place, scan))).ok(),
        }
    }
}

/// A pattern of accesses of `tests/programs/patterns.c` to 256 MiB.
fn patterns(pattern: &str, thousands: &str) -> Run {
    Run::new([&programs::c("patterns"), pattern, "256", thousands])
}

/// Runs a Python script of `tests/programs`.
fn python(name: &str, words: &[&str]) -> Run {
    let file = programs::source(name);
    Run::new(["python3", &file].iter().chain(words).copied())
}

/// Runs a Java program with a heap of 256 MiB.
fn java() -> Run {
    let classes = programs::java("Heap");
    let heap = ["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-cp", &classes];
    let words = ["Heap", "200000", "800000"];
    Run::new(["java"].iter().chain(&heap).chain(&words).copied())
}

/// Sorts lines. The input comes through a pipe and only a checksum is printed, so no page cache is
/// used.
fn sort() -> Run {
    let script = "seq 1500000 | sed 's/.*/&0123456789&/' | rev | sort -S 1G --parallel=1 | cksum";
    Run::new(["sh", "-c", script]).env("LC_ALL", "C")
}

/// Waits for a command's end; returns its duration in seconds, or `None` if it failed.
fn command(mut running: Running, scan: &mut dyn FnMut(&[u32])) -> Option<f64> {
    let mut next = Instant::now() + Duration::from_secs(1);
    let status = wait::poll(LIMIT, || {
        if Instant::now() > next {
            scan(&running.tree());
            next = Instant::now() + Duration::from_secs(1);
        }
        running.ended()
    });
    let outcome = running.wait(Duration::from_secs(1));
    if !outcome.status.success() {
        eprintln!("  it ended with {}: {}", outcome.status, outcome.stderr);
    }
    status?.success().then_some(outcome.took.as_secs_f64())
}

/// Fills redis and reads keys; returns the seconds that it took.
fn redis(place: &RunSetup, scan: &mut dyn FnMut(&[u32])) -> f64 {
    let mut server = Redis::start(NOISE, &|run| place.wrap(run));
    let begin = Instant::now();
    server.fill(KEYS.0);
    let mut chance = Chance::new(1);
    for number in 0..KEYS.1 {
        // Of five requests four are for a fifth of the keys.
        let among = if number % 5 > 0 { KEYS.0 / 5 } else { KEYS.0 };
        server.check(chance.below(among) * 7919 % KEYS.0);
        if number % (KEYS.1 / 4) == KEYS.1 / 8 {
            scan(&[server.pid]);
        }
    }
    begin.elapsed().as_secs_f64()
}

/// Runs pgbench; returns the seconds that it took.
fn postgres(place: &RunSetup, scan: &mut dyn FnMut(&[u32])) -> f64 {
    let server = Postgres::start_as("160MB", 10, &|run| place.wrap(run));
    let work = server.pgbench(&["-S", "-n", "-c", "2", "-t", "15000", "postgres"]);
    let begin = Instant::now();
    let outcome = work.finish(LIMIT);
    let took = begin.elapsed().as_secs_f64();
    assert!(outcome.status.success(), "pgbench: {}", outcome.stderr);
    scan(&proc::descendants(server.pid()));
    took
}
