//! `cargo xtask bench parked [--mib 700] [--rounds 3] [--json]`: idle programs that are paged out as a whole, and back: one
//! process, a pre-fork server, PostgreSQL.
//!
//! `pagetide reclaim PID --all`, then `pagetide detach PID --bring-back`; a program is usable when it has touched all of its
//! memory, and found it right. The same without bringing it back stands beside it. What left is the kernel's figure: of the
//! program's control group, which counts each page once, and of what one process alone maps (pages that several map stay,
//! docs/known-gaps.md).
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::aged::rollup;
use e2e::bench::{Args, Findings, median};
use e2e::memcg::MemoryGroup;
use e2e::pagetide;
use e2e::postgres::Postgres;
use e2e::sleeper::Sleeper;
use e2e::zram::Swap;

const LIMIT: Duration = Duration::from_secs(120);
/// Nothing is touched for so long before it is parked: what was in use a moment ago stays.
const IDLE: Duration = Duration::from_secs(3);
/// Each worker of the pre-fork server has written a quarter of its memory anew.
const WORKERS: u64 = 4;
const MIB: f64 = 1_048_576.0;

/// A program that has nothing to do.
struct Idle<'a> {
    group: &'a MemoryGroup,
    pid: u32,
    /// Has it use all of its memory; how long that took.
    touch: &'a dyn Fn() -> f64,
}

/// What came of it, a value each time.
#[derive(Default)]
struct Parked {
    private_down: Vec<f64>,
    down: Vec<f64>,
    swapped: Vec<f64>,
    park: Vec<f64>,
    back: Vec<f64>,
    usable: Vec<f64>,
    by_faults: Vec<f64>,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("parked", &args);
    let _swap = Swap::if_none(2048);
    let (mib, rounds) = (args.number("--mib", 700), args.number("--rounds", 3));
    for (name, mib, workers) in [
        ("one process", mib, None),
        ("pre-fork server", mib / 4, Some(WORKERS)),
    ] {
        let mut parked = Parked::default();
        for _ in 0..rounds {
            let group = MemoryGroup::new();
            let sleeper = Sleeper::start_in(&group, mib, workers);
            let (pid, touch) = (sleeper.pid(), &|| sleeper.touch());
            parked.round(&Idle {
                group: &group,
                pid,
                touch,
            });
        }
        parked.tell(name, workers.is_none(), &mut found);
    }
    let mut parked = Parked::default();
    for _ in 0..rounds {
        let group = MemoryGroup::new();
        let server = Postgres::start_as("128MB", 8, &|run| group.run(run));
        let right = answer(&server).1;
        parked.round(&Idle {
            group: &group,
            pid: server.pid(),
            touch: &|| {
                let (took, told) = answer(&server);
                assert_eq!(told, right, "its answer has changed");
                took
            },
        });
    }
    parked.tell("PostgreSQL", false, &mut found);
    found.finish()
}

impl Parked {
    fn round(&mut self, idle: &Idle) {
        self.park(idle);
        self.by_faults.push((idle.touch)());
        self.park(idle);
        let took = command("detach", idle.pid, "--bring-back");
        self.back.push(took);
        self.usable.push(took + (idle.touch)());
    }

    fn park(&mut self, idle: &Idle) {
        std::thread::sleep(IDLE);
        let (private, charged) = (private(idle.group), charged(idle.group));
        self.park.push(command("reclaim", idle.pid, "--all"));
        let left = |now: f64, was: f64| 100.0 * (1.0 - now / was);
        self.private_down
            .push(left(self::private(idle.group), private));
        self.down.push(left(self::charged(idle.group), charged));
        let swapped = idle.group.line("memory.stat", "swap ");
        self.swapped.push(swapped as f64 / MIB);
    }

    fn tell(&self, name: &str, is_alone: bool, found: &mut Findings) {
        let of = |what: &str| format!("{name}: {what}");
        let private = median(&self.private_down);
        found.at_least(
            &of("what one process alone maps is down by"),
            private,
            "%",
            90.0,
        );
        let (all, down) = (of("all of its memory is down by"), median(&self.down));
        match is_alone {
            true => found.at_least(&all, down, "%", 90.0),
            false => found.figure(&all, down, "%"),
        }
        found.figure(
            &of("in swap by its control group"),
            median(&self.swapped),
            "MiB",
        );
        found.figure(&of("reclaim --all took"), median(&self.park), "s");
        found.figure(&of("detach --bring-back took"), median(&self.back), "s");
        found.at_most(
            &of("it and touching all of it"),
            median(&self.usable),
            "s",
            1.0,
        );
        found.figure(
            &of("touching all of it without"),
            median(&self.by_faults),
            "s",
        );
    }
}

/// Anonymous and shared memory of its group, each page once.
fn charged(group: &MemoryGroup) -> f64 {
    let of = |name: &str| group.line("memory.stat", name) as f64;
    of("rss ") + of("shmem ")
}

/// Pages that one of its processes alone maps, and has written.
fn private(group: &MemoryGroup) -> f64 {
    rollup(&group.pids(), "Private_Dirty") as f64
}

/// A sum over all that it has, and how long that took.
fn answer(server: &Postgres) -> (f64, String) {
    let begin = Instant::now();
    let sums = "SELECT count(*), sum(abalance), sum(length(filler)) FROM pgbench_accounts";
    let outcome = server.psql(sums).finish(LIMIT);
    assert!(outcome.status.success(), "psql: {}", outcome.stderr);
    (begin.elapsed().as_secs_f64(), outcome.stdout)
}

/// Runs `pagetide VERB PID OPTION`; how long it took.
fn command(verb: &str, pid: u32, option: &str) -> f64 {
    let begin = Instant::now();
    let outcome = pagetide::command([verb, &pid.to_string(), option]).finish(LIMIT);
    assert!(outcome.status.success(), "{verb}: {}", outcome.stderr);
    begin.elapsed().as_secs_f64()
}
