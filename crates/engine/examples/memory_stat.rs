//! Benchmark: the time to read memory.stat of every memcg, compared with the time of the rstat
//! flush alone: `cargo run --release -p pagetide-engine --example memory_stat -- [MEMCGS] [RUNS]`.
//!
//! Two sides make the same changes: each tenant faults in some pages, which are then reclaimed.
//! Tenants are all directly below the root, or in groups of ten below a parent. One side reads
//! memory.stat of all tenants through the machine. The other side is a bare rstat: it gets the same
//! deltas outside the measured time, and only flushes. The sides are measured in turn. The program
//! prints the medians of both times and of their ratio.
#![forbid(unsafe_code)]

use engine::machine::ReclaimRequest;
use engine::rstat::{GroupId, Rstat};
use engine::vmscan::Memory;
use engine::vmstat::VmEvent;
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Millis, PageOut, Pages,
    ScanReason,
};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PAGES: u32 = 64;

/// A memory that pages out every page; no page is accessed.
struct Simple;

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, _: &mut Lruvec) {}

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

struct Pair {
    machine: Machine,
    ids: Vec<MemcgId>,
    rstat: Rstat,
    groups: Vec<GroupId>,
    /// For each memcg: the counter values that the bare rstat has received so far.
    reported: Vec<Vec<u64>>,
    now: u64,
}

impl Pair {
    fn new(memcgs: usize, below_each: usize) -> Self {
        let mut machine = Machine::new(MachineConfig::default(), Millis(0));
        let nr_stats = machine.memory_stat(MemcgId::ROOT).iter().count();
        let (mut rstat, mut ids, mut groups) = (Rstat::new(nr_stats, 1), Vec::new(), Vec::new());
        let mut above = (MemcgId::ROOT, GroupId::ROOT);
        for n in 0..memcgs {
            if n % (below_each + 1) == 0 {
                above = (MemcgId::ROOT, GroupId::ROOT);
            }
            let id = machine.create(above.0, Millis(0));
            let group = rstat.create(above.1);
            if n % (below_each + 1) == 0 {
                above = (id, group);
            }
            machine.lruvec_mut(id).ensure(PAGES as usize);
            ids.push(id);
            groups.push(group);
        }
        Self {
            machine,
            ids,
            rstat,
            groups,
            reported: vec![vec![0; nr_stats]; memcgs],
            now: 0,
        }
    }

    /// Changes the statistics of every `one_in`th memcg, on both sides.
    fn change(&mut self, one_in: usize) {
        self.now += 1;
        for n in (0..self.ids.len()).step_by(one_in) {
            let id = self.ids[n];
            for page in (0..PAGES).map(FolioId) {
                self.machine
                    .fault_in(id, page, FolioType::Anon, FaultKind::Refault, true);
            }
            let request = ReclaimRequest::new(
                ScanReason::Proactive,
                Pages(u64::from(PAGES)),
                Millis(self.now),
            );
            self.machine.reclaim_subtree(id, request, &mut Simple);
            let lruvec = self.machine.lruvec(id);
            let stats = VmEvent::ALL.iter().map(|&event| lruvec.stat().get(event));
            let stats: Vec<u64> = stats.collect();
            for (stat, (now, reported)) in stats.iter().zip(&mut self.reported[n]).enumerate() {
                let delta = now
                    .wrapping_sub(std::mem::replace(reported, *now))
                    .cast_signed();
                if delta != 0 {
                    self.rstat.update(0, self.groups[n], stat, delta);
                }
            }
        }
    }

    fn read_all(&mut self) -> Duration {
        let start = Instant::now();
        for &id in &self.ids {
            black_box(self.machine.memory_stat(id));
        }
        start.elapsed()
    }

    fn flush_alone(&mut self) -> Duration {
        let start = Instant::now();
        self.rstat.flush(black_box(GroupId::ROOT));
        start.elapsed()
    }
}

fn median(all: &mut [f64]) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().ok());
    let memcgs = args.next().flatten().unwrap_or(1000);
    let runs = args.next().flatten().unwrap_or(101);
    for (one_in, below_each) in [(1, 0), (1, 10), (10, 0), (100, 0)] {
        let mut pair = Pair::new(memcgs, below_each);
        let (mut reads, mut flushes, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..runs {
            pair.change(one_in);
            let (read, flush) = if run % 2 == 0 {
                (pair.read_all(), pair.flush_alone())
            } else {
                let flush = pair.flush_alone();
                (pair.read_all(), flush)
            };
            reads.push(read.as_secs_f64() * 1e6);
            flushes.push(flush.as_secs_f64() * 1e6);
            ratios.push(read.as_secs_f64() / flush.as_secs_f64());
        }
        println!(
            "{memcgs} memcgs, {below_each} below each, one in {one_in} changed: reading all {:.1} us, the flush alone {:.1} us, ratio {:.2}",
            median(&mut reads),
            median(&mut flushes),
            median(&mut ratios),
        );
    }
}
