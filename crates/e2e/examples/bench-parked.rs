//! `cargo xtask bench parked [--mib 700] [--rounds 3] [--json]`
//!
//! Pages out idle programs as a whole with `pagetide reclaim PID --all`, and swaps them in again
//! with `pagetide detach PID --bring-back`. The programs are one process, a pre-fork server and
//! PostgreSQL. A program is usable again when it has touched all its memory and found it right. For
//! comparison each program is also swapped in by its own page faults.
//!
//! The amount paged out is the kernel's count, of two kinds: for the program's control group, which
//! counts each page once; and for pages that only one process maps (pages that several processes
//! map stay, docs/known-gaps.md).
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::aged::rollup;
use e2e::bench::{Args, Findings, median};
use e2e::idle_program::IdleProgram;
use e2e::memcg::MemoryGroup;
use e2e::pagetide;
use e2e::postgres::Postgres;
use e2e::zram::Swap;

/// Time limit of a command.
const LIMIT: Duration = Duration::from_secs(120);
/// Time for which a program is idle before it is paged out: pages that were just used would stay.
const IDLE: Duration = Duration::from_secs(3);
/// Number of workers of the pre-fork server; each has rewritten a quarter of its memory.
const WORKERS: u64 = 4;
const MIB: f64 = 1_048_576.0;

/// An idle program to be paged out.
struct Idle<'a> {
    group: &'a MemoryGroup,
    pid: u32,
    /// Makes the program touch all its memory; returns the seconds that this took.
    touch: &'a dyn Fn() -> f64,
}

/// Results, one value for each repetition.
#[derive(Default)]
struct Parked {
    /// Percent by which the pages that only one process maps became fewer.
    private_down: Vec<f64>,
    /// Percent by which the memory of the control group became less.
    down: Vec<f64>,
    /// Memory of the control group in swap, MiB.
    swapped: Vec<f64>,
    /// Seconds that `reclaim --all` took.
    park: Vec<f64>,
    /// Seconds that `detach --bring-back` took.
    back: Vec<f64>,
    /// Seconds that `detach --bring-back` and touching all memory after it took.
    usable: Vec<f64>,
    /// Seconds that touching all memory took without `--bring-back`.
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
            let idle_program = IdleProgram::start_in(&group, mib, workers);
            let (pid, touch) = (idle_program.pid(), &|| idle_program.touch());
            parked.round(&Idle {
                group: &group,
                pid,
                touch,
            });
        }
        parked.add_figures(name, workers.is_none(), &mut found);
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
                let (took, reported) = answer(&server);
                assert_eq!(reported, right, "its answer has changed");
                took
            },
        });
    }
    parked.add_figures("PostgreSQL", false, &mut found);
    found.finish()
}

impl Parked {
    /// Pages a program out twice: swaps it in first by faults, then by `--bring-back`.
    fn round(&mut self, idle: &Idle) {
        self.park(idle);
        self.by_faults.push((idle.touch)());
        self.park(idle);
        let took = command("detach", idle.pid, "--bring-back");
        self.back.push(took);
        self.usable.push(took + (idle.touch)());
    }

    /// Pages a program out and records how much of it that was.
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

    /// Adds the medians to the results.
    fn add_figures(&self, name: &str, is_alone: bool, found: &mut Findings) {
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

/// Anonymous and shared memory of a control group, bytes; each page counts once.
fn charged(group: &MemoryGroup) -> f64 {
    let of = |name: &str| group.line("memory.stat", name) as f64;
    of("rss ") + of("shmem ")
}

/// Size of the pages that only one process of the group maps and that were written to, bytes.
fn private(group: &MemoryGroup) -> f64 {
    rollup(&group.pids(), "Private_Dirty") as f64
}

/// Runs a query that sums up all rows; returns the seconds that it took, and the sums as text.
fn answer(server: &Postgres) -> (f64, String) {
    let begin = Instant::now();
    let sums = "SELECT count(*), sum(abalance), sum(length(filler)) FROM pgbench_accounts";
    let outcome = server.psql(sums).finish(LIMIT);
    assert!(outcome.status.success(), "psql: {}", outcome.stderr);
    (begin.elapsed().as_secs_f64(), outcome.stdout)
}

/// Runs `pagetide VERB PID OPTION`; returns the seconds that it took.
fn command(verb: &str, pid: u32, option: &str) -> f64 {
    let begin = Instant::now();
    let outcome = pagetide::command([verb, &pid.to_string(), option]).finish(LIMIT);
    assert!(outcome.status.success(), "{verb}: {}", outcome.stderr);
    begin.elapsed().as_secs_f64()
}
