//! Two programs with the same work under one limit, simulated as on a host: they must run at about
//! the same speed.
//!
//! Regression: `serve` had two tenants of 2 GiB each below a limit of 2 GiB. The slower one ran at
//! 26% of the other's speed (77% under the kernel's own group). A batch had 2,048 pages, so the
//! tenant that a walk reached first contributed all pages that were wanted, and each walk reached
//! the same tenant first. That tenant waited for its refaults and therefore touched fewer pages;
//! nothing made reclaim take from the other one.
//!
//! The simulated host has all that matters for this: accessed bits that scans clear, pages that
//! refault without the engine's knowledge, measured usage, and a manager that begins to reclaim at
//! one watermark and ends at the other. Time is in nanoseconds. Memory, batches, and the time
//! between scans are an eighth of the real ones.
#![forbid(unsafe_code)]

use engine::machine::ReclaimRequest;
use engine::vmscan::Watermarks;
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis,
    PageOut, Pages, ScanReason,
};

/// Number of pages of each program, and the limit of both together in pages.
const PAGES: usize = 1 << 16;
/// Number of pages that the engine isolates at once.
const BATCH: usize = 256;
/// Nanoseconds between two scans; `READ`: least time between two walks for a reclaim.
const SCAN: u64 = 250_000_000;
const READ: u64 = 25_000_000;
/// Nanoseconds between two measurements of the usage.
const MEASURE: u64 = 250_000;
/// Nanoseconds of a touch. `REFAULT`: of a touch of a page in swap; `AT_THE_HARD_LIMIT`: of a touch
/// for which the kernel must first reclaim.
const TOUCH: u64 = 300;
const REFAULT: u64 = 10_000;
const AT_THE_HARD_LIMIT: u64 = 12_000;
/// Nanoseconds that the manager needs to page out one page; `CALL`: for each call that pages out
/// some.
const PAGE_OUT: u64 = 4_000;
const CALL: u64 = 7_500;

/// A splitmix64 generator of random numbers: runs with the same seed are the same.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Zipf's law with exponent 1: the cumulative weight of each rank. Hot pages are spread over all
/// pages.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new() -> Zipf {
        let weights = (1..=u32::try_from(PAGES).expect("few")).map(|rank| 1.0 / f64::from(rank));
        let sums = weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Zipf(sums.collect())
    }

    /// A random page: hot ones are the most frequent.
    fn page(&self, rng: &mut Rng) -> usize {
        let unit = f64::from(u32::try_from(rng.next() >> 32).expect("32 bits")) / 2f64.powi(32);
        let at = unit * self.0[PAGES - 1];
        let rank = self.0.partition_point(|sum| *sum <= at);
        (rank * 40_503) % PAGES
    }
}

/// What the kernel knows of a program, and the program's own clock `now` in nanoseconds.
struct Program {
    memcg: MemcgId,
    present: Vec<bool>,
    accessed: Vec<bool>,
    resident: u64,
    rng: Rng,
    now: u64,
    touches: u64,
}

impl Program {
    fn new(memcg: MemcgId, seed: u64) -> Program {
        Program {
            memcg,
            present: vec![false; PAGES],
            accessed: vec![false; PAGES],
            resident: 0,
            rng: Rng(seed),
            now: 0,
            touches: 0,
        }
    }

    /// Records that a page was paged out.
    fn leaves(&mut self, page: usize) {
        self.present[page] = false;
        self.resident -= 1;
    }
}

/// The two programs, as the memory that the manager reclaims from.
struct Host {
    programs: [Program; 2],
    /// Nanoseconds that page-out calls of the manager took.
    took: u64,
}

impl Host {
    /// Resident pages of both programs.
    fn usage(&self) -> u64 {
        self.programs.iter().map(|one| one.resident).sum()
    }

    /// Reclaims as the kernel does when a program reached the limit: from each program in
    /// proportion to its size, by the second-chance algorithm.
    fn make_room(&mut self) {
        for program in &mut self.programs {
            let mut wanted = 16 * program.resident / PAGES as u64;
            while wanted > 0 {
                let page = usize::try_from(program.rng.next()).unwrap_or(0) % PAGES;
                if program.present[page] && !std::mem::take(&mut program.accessed[page]) {
                    program.leaves(page);
                    wanted -= 1;
                }
            }
        }
    }

    /// Makes one touch of the program whose clock is behind the other program's clock.
    fn touch(&mut self, zipf: &Zipf, max: u64) {
        let [one, two] = &self.programs;
        let who = usize::from(one.now > two.now);
        let is_full = self.usage() >= max;
        let program = &mut self.programs[who];
        let page = zipf.page(&mut program.rng);
        program.touches += 1;
        program.now += TOUCH;
        program.accessed[page] = true;
        if std::mem::replace(&mut program.present[page], true) {
            return;
        }
        program.resident += 1;
        program.now += REFAULT;
        if is_full {
            program.now += AT_THE_HARD_LIMIT;
            self.make_room();
        }
    }
}

impl Memory for Host {
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        let program = self.programs.iter().find(|one| one.memcg == memcg);
        let pages = program.into_iter().flat_map(|one| {
            let bits = one.present.iter().zip(&one.accessed);
            (0..)
                .zip(bits)
                .filter(|(_, (present, accessed))| **present && **accessed)
        });
        pages.for_each(|(page, _)| lruvec.young(FolioId(page)));
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        self.took += CALL;
        let mut programs = self.programs.iter_mut();
        let program = programs.find(|one| one.memcg == memcg).expect("a program");
        for page in batch.iter().map(|id| id.index()) {
            if program.present[page] && program.accessed[page] {
                outcome.push(PageOut::Referenced);
                continue;
            }
            if program.present[page] {
                program.leaves(page);
                self.took += PAGE_OUT;
            }
            outcome.push(PageOut::Stored);
        }
    }
}

/// The manager, which reclaims when the usage is above its watermark.
struct Manager {
    machine: Machine,
    hard_limited: MemcgId,
    marks: Watermarks,
    now: u64,
    next_scan: u64,
    next_read: u64,
}

impl Manager {
    /// Reports all pages of both programs to the engine and clears all accessed bits.
    fn read(&mut self, host: &mut Host) {
        for program in &mut host.programs {
            let memcg = program.memcg;
            for (id, page) in (0..PAGES).map(|page| (id(page), page)) {
                let known = self.machine.lruvec(memcg).folios().get(id).is_present();
                match (program.present[page], known) {
                    (true, true) if program.accessed[page] => {
                        self.machine.lruvec_mut(memcg).young(id);
                    }
                    (true, false) => {
                        let kind = FaultKind::Refault;
                        self.machine
                            .fault_in(memcg, id, FolioType::Anon, kind, true);
                    }
                    (false, true) => {
                        self.machine.left(memcg, id);
                    }
                    _ => {}
                }
            }
            program.accessed.fill(false);
        }
        self.next_read = self.now + READ;
    }

    /// Scans if the time has come, and reclaims if the usage is above the watermark.
    fn work(&mut self, host: &mut Host) {
        let millis = Millis(self.now / 1_000_000);
        if self.now >= self.next_scan {
            self.read(host);
            for program in &host.programs {
                self.machine.age(program.memcg, millis);
            }
            self.next_scan = self.now + SCAN;
        }
        let max = PAGES as u64;
        let usage = host.usage();
        if usage > max - self.marks.low.0 {
            if self.now >= self.next_read {
                self.read(host);
            }
            for program in &host.programs {
                let usage = Pages(program.resident);
                self.machine.set_measured(program.memcg, usage);
            }
            self.machine.set_measured(self.hard_limited, Pages(usage));
            let request = ReclaimRequest::new(
                ScanReason::Direct,
                Pages(usage - (max - self.marks.high.0)),
                millis,
            );
            host.took = 0;
            self.machine
                .reclaim_subtree(self.hard_limited, request, host);
            self.now += host.took;
        }
        self.now += MEASURE;
    }
}

fn id(page: usize) -> FolioId {
    FolioId(u32::try_from(page).expect("few pages"))
}

/// Runs both programs for twice `scans` scans; returns the number of touches of each program in the
/// second half, when both are stable.
fn run(seed: u64, scans: u64) -> [u64; 2] {
    let config = MachineConfig {
        batch: BATCH,
        in_turn: true,
        seed,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let hard_limited = machine.create(MemcgId::ROOT, Millis(0));
    let programs = [1, 2].map(|number| {
        let memcg = machine.create(hard_limited, Millis(0));
        machine.lruvec_mut(memcg).ensure(PAGES);
        Program::new(memcg, seed << 32 | number)
    });
    let mut host = Host { programs, took: 0 };
    let mut manager = Manager {
        machine,
        hard_limited,
        marks: Watermarks::new(Pages(PAGES as u64), Pages(0), 25),
        now: 0,
        next_scan: 0,
        next_read: 0,
    };
    let zipf = Zipf::new();
    let mut touches = [0; 2];
    for end in [scans, 2 * scans] {
        let before = host.programs.each_ref().map(|one| one.touches);
        while host.programs.iter().any(|one| one.now < end * SCAN) {
            let behind = host.programs.iter().map(|one| one.now).min();
            match behind.is_some_and(|now| manager.now <= now) {
                true => manager.work(&mut host),
                false => host.touch(&zipf, PAGES as u64),
            }
        }
        let after = host.programs.each_ref().map(|one| one.touches);
        touches = [after[0] - before[0], after[1] - before[1]];
    }
    manager.machine.check_invariants();
    touches
}

#[test]
fn two_programs_with_the_same_work_run_at_about_the_same_speed() {
    for seed in 1..=3 {
        let touches = run(seed, 8);
        let (slow, fast) = (touches[0].min(touches[1]), touches[0].max(touches[1]));
        assert!(slow * 100 >= fast * 90, "seed {seed}: {touches:?}");
    }
}
