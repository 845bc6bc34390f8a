//! The workloads of `bench kernel`: each a fixed amount of work, some seconds alone, timed to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::guard::{Run, Running};
use crate::postgres::Postgres;
use crate::redis::{NOISE, Redis};
use crate::sides::Place;
use crate::wait::Chance;
use crate::{proc, programs, wait};

/// A run that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(300);
/// Keys of redis, and how many are read.
const KEYS: (u64, u64) = (40_000, 60_000);

/// A workload.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// What it is called.
    pub name: &'static str,
    /// The program that must be there.
    needs: &'static str,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    /// A command from its start to its end.
    Command(fn() -> Run),
    /// Reads of some keys.
    Redis,
    /// Transactions that read.
    Postgres,
}

const fn cell(name: &'static str, needs: &'static str, work: Work) -> Cell {
    Cell { name, needs, work }
}

/// All of them.
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
    /// Whether what it needs is installed.
    #[must_use]
    pub fn is_there(&self) -> bool {
        proc::in_path(self.needs)
    }

    /// Does the work; how long it took, none if it was killed. `look` is called about once a second with what runs.
    pub fn run(&self, place: &Place, look: &mut dyn FnMut(&[u32])) -> Option<f64> {
        match self.work {
            Work::Command(make) => command(place.wrap(&make()).start(), look),
            // The client cannot go on without its server.
            Work::Redis => catch_unwind(AssertUnwindSafe(|| redis(place, look))).ok(),
            Work::Postgres => catch_unwind(AssertUnwindSafe(|| postgres(place, look))).ok(),
        }
    }
}

fn patterns(pattern: &str, thousands: &str) -> Run {
    Run::new([&programs::c("patterns"), pattern, "256", thousands])
}

fn python(name: &str, words: &[&str]) -> Run {
    let file = programs::source(name);
    Run::new(["python3", &file].iter().chain(words).copied())
}

fn java() -> Run {
    let classes = programs::java("Heap");
    let heap = ["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-cp", &classes];
    let words = ["Heap", "200000", "800000"];
    Run::new(["java"].iter().chain(&heap).chain(&words).copied())
}

/// What is sorted comes by a pipe and goes nowhere, so that files have no part in it.
fn sort() -> Run {
    let script = "seq 1500000 | sed 's/.*/&0123456789&/' | rev | sort -S 1G --parallel=1 | cksum";
    Run::new(["sh", "-c", script]).env("LC_ALL", "C")
}

fn command(mut running: Running, look: &mut dyn FnMut(&[u32])) -> Option<f64> {
    let mut next = Instant::now() + Duration::from_secs(1);
    let status = wait::poll(LIMIT, || {
        if Instant::now() > next {
            look(&running.tree());
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

fn redis(place: &Place, look: &mut dyn FnMut(&[u32])) -> f64 {
    let mut server = Redis::start(NOISE, &|run| place.wrap(run));
    let begin = Instant::now();
    server.fill(KEYS.0);
    let mut chance = Chance::new(1);
    for number in 0..KEYS.1 {
        // Four of five ask a fifth of the keys.
        let among = if number % 5 > 0 { KEYS.0 / 5 } else { KEYS.0 };
        server.check(chance.below(among) * 7919 % KEYS.0);
        if number % (KEYS.1 / 4) == KEYS.1 / 8 {
            look(&[server.pid]);
        }
    }
    begin.elapsed().as_secs_f64()
}

fn postgres(place: &Place, look: &mut dyn FnMut(&[u32])) -> f64 {
    let server = Postgres::start_as("160MB", 10, &|run| place.wrap(run));
    let work = server.pgbench(&["-S", "-n", "-c", "2", "-t", "15000", "postgres"]);
    let begin = Instant::now();
    let outcome = work.finish(LIMIT);
    let took = begin.elapsed().as_secs_f64();
    assert!(outcome.status.success(), "pgbench: {}", outcome.stderr);
    look(&proc::descendants(server.pid()));
    took
}
