//! Measures reading all statistics of all memcgs, by summing and by flushing, after different
//! loads.
//!
//! Invariant: the number of counters read is counted where they are read: in the sum, in the flush,
//! and in the reads after the flush.

use crate::outcome::{By, Cell, Kind, Picture, Series, Table};
use crate::stats::{median, number};
use ::engine::rstat::{GroupId, Rstat};
use std::time::Instant;

const MEMCGS: u64 = 1000;
const WORKERS: usize = 256;
/// Number of statistics: about as many as a memcg has.
const STATS: usize = 80;
/// Number of statistics that a page fault changes; these have the lowest indices.
const FAULT_STATS: usize = 6;
const ROUNDS: usize = 5;

/// Which counters changed between two reads of all statistics.
struct Load {
    name: &'static str,
    memcgs: usize,
    workers: usize,
    stats: usize,
}

/// The result for one load: number of counters that a read of all statistics reads, by summing and
/// by flushing; then the median seconds of each way.
pub(super) struct Measured {
    name: &'static str,
    summed: u64,
    flushed: u64,
    seconds: [f64; 2],
}

/// The document's measurement: seconds of system time before the patch and after it.
const DOCUMENT: [f64; 2] = [0.120, 0.027];

struct World {
    rstat: Rstat,
    memcgs: Vec<GroupId>,
}

impl World {
    fn new(memcgs: u64) -> Self {
        let mut rstat = Rstat::new(STATS, WORKERS);
        let memcgs = (0..memcgs).map(|_| rstat.create(GroupId::ROOT)).collect();
        let mut world = Self { rstat, memcgs };
        // At the beginning, each counter of each memcg changes once on every worker.
        world.update(&Load {
            name: "",
            memcgs: usize::MAX,
            workers: WORKERS,
            stats: STATS,
        });
        world.rstat.flush(GroupId::ROOT);
        world
    }

    /// Adds 1 to every counter that the load covers.
    fn update(&mut self, load: &Load) {
        for (n, &memcg) in self.memcgs.iter().enumerate().take(load.memcgs) {
            for worker in 0..load.workers {
                for stat in 0..load.stats {
                    self.rstat.update((n + worker) % WORKERS, memcg, stat, 1);
                }
            }
        }
    }

    fn measure(&mut self, load: &Load) -> Measured {
        let mut seconds = [Vec::new(), Vec::new()];
        let mut counters_read = [0, 0];
        for _ in 0..ROUNDS {
            self.update(load);
            let start = Instant::now();
            let (summed, scans) = self.read(Rstat::summed);
            seconds[0].push(start.elapsed().as_secs_f64());
            counters_read[0] += scans;
            let (before, start) = (self.rstat.counters_read(), Instant::now());
            self.rstat.flush(GroupId::ROOT);
            let (flushed, scans) = self.read(|rstat, id, stat| (rstat.local(id, stat), 1));
            seconds[1].push(start.elapsed().as_secs_f64());
            counters_read[1] += scans + self.rstat.counters_read() - before;
            assert_eq!(summed, flushed, "both sides read the same");
        }
        let [summed, flushed] = counters_read.map(|all| all / ROUNDS as u64);
        Measured {
            name: load.name,
            summed,
            flushed,
            seconds: seconds.map(|seconds| median(&seconds)),
        }
    }

    /// Reads all statistics of all memcgs. Returns the sum of the values, and the number of
    /// counters read.
    fn read(&self, of: impl Fn(&Rstat, GroupId, usize) -> (u64, u64)) -> (u64, u64) {
        let stats = |&memcg| (0..STATS).map(move |stat| (memcg, stat));
        let all = self.memcgs.iter().flat_map(stats);
        let read = all.map(|(memcg, stat)| of(&self.rstat, memcg, stat));
        read.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// Measures all loads in one world of `MEMCGS / scale` memcgs.
pub(super) fn measure(scale: u64, progress: &mut dyn FnMut(f64)) -> Vec<Measured> {
    let mut world = World::new((MEMCGS / scale).max(250));
    let all = world.memcgs.len();
    let load = |name, memcgs, workers, stats| Load {
        name,
        memcgs,
        workers,
        stats,
    };
    let loads = [
        load(
            "all, each on all workers, a fault's statistics",
            all,
            WORKERS,
            FAULT_STATS,
        ),
        load("all, each on one worker, every statistic", all, 1, STATS),
        load(
            "all, each on all workers, every statistic",
            all,
            WORKERS,
            STATS,
        ),
        load(
            "1%, each on all workers, every statistic",
            all / 100,
            WORKERS,
            STATS,
        ),
        load("none", 0, 0, 0),
    ];
    let mut measured = Vec::new();
    for (done, load) in (1..).zip(&loads) {
        measured.push(world.measure(load));
        progress(number(done) / number(loads.len() as u64));
    }
    measured
}

pub(super) fn counters(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Counters looked at to read all statistics of all memcgs",
        &[
            "updated since the last read",
            "by summing",
            "by flushing",
            "ratio",
        ],
    );
    for row in measured {
        table.row(vec![
            Cell::Text(row.name.to_owned()),
            Cell::Count(row.summed),
            Cell::Count(row.flushed),
            Cell::Figure(row.ratio()),
        ]);
    }
    table
}

impl Measured {
    /// Returns the number of counters that summing reads, divided by the number that flushing
    /// reads.
    pub(super) fn ratio(&self) -> f64 {
        number(self.summed) / number(self.flushed)
    }
}

pub(super) fn times(measured: &[Measured]) -> Table {
    let mut table = Table::new(
        "Time to read all statistics of all memcgs (medians)",
        &[
            "updated since the last read",
            "by summing (ms)",
            "by flushing (ms)",
            "ratio",
            "the document's ratio",
        ],
    );
    for row in measured {
        let [summed, flushed] = row.seconds;
        let idle = row.name == "none";
        table.row(vec![
            Cell::Text(row.name.to_owned()),
            Cell::Figure(summed * 1e3),
            Cell::Figure(flushed * 1e3),
            Cell::Figure(summed / flushed),
            if idle {
                Cell::Figure(DOCUMENT[0] / DOCUMENT[1])
            } else {
                Cell::Empty
            },
        ]);
    }
    table
}

/// Returns pictures of the counters that each way reads, and of the times.
pub(super) fn pictures(measured: &[Measured]) -> [Picture; 2] {
    let groups = || Kind::Bars(measured.iter().map(|row| row.name.to_owned()).collect());
    let bars = |name: &str, of: fn(&Measured) -> f64| {
        Series::bars(name, measured.iter().map(|row| Some(of(row))))
    };
    let updated = "what was updated since the last read";
    let document = measured
        .iter()
        .map(|row| (row.name == "none").then_some(DOCUMENT[0] / DOCUMENT[1]));
    [
        Picture::new(
            "How many counters are looked at to read all statistics of all memcgs?",
            groups(),
            [updated, "counters looked at"],
            vec![
                bars("by summing", |row| number(row.summed)),
                bars("by flushing", |row| number(row.flushed)),
            ],
        )
        .log(false, true),
        Picture::new(
            "How many times faster is flushing than summing?",
            groups(),
            [updated, "time by summing / time by flushing"],
            vec![
                bars("ours", |row| row.seconds[0] / row.seconds[1]),
                Series::bars("document: 0.120 s / 0.027 s", document).by(By::Document),
            ],
        )
        .log(false, true)
        .timed(),
    ]
}
