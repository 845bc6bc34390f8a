//! Two programs with the same work under one wall, as a host has them: they run at about the same speed.
//!
//! The story: `serve` held two tenants of 2 GiB each below a wall of 2 GiB, and the slower of the two ran at 26% of the other's speed (77%
//! under the kernel's own group). Who was met first gave all that was wanted, in batches of 2,048 pages, and the walk over the two
//! met the same one first each time. Its pages came back by refaults, which it waits for; so it touched less, and nothing of that
//! called the other one.
//!
//! The host here has what decided that: accessed bits that looks clear now and then, pages that come back without the engine's knowledge,
//! usage as measured, and a manager that begins at one mark and ends at the other. Time is in nanoseconds. All is an eighth of the real
//! one: memory, batches' share of it, and the time between looks.
#![forbid(unsafe_code)]

use engine::machine::ReclaimRequest;
use engine::vmscan::Watermarks;
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis,
    PageOut, Pages, ScanReason,
};

/// Of each program, and of the wall.
const PAGES: usize = 1 << 16;
const BATCH: usize = 256;
/// Between two looks, and between two readings that reclaim asks for.
const LOOK: u64 = 250_000_000;
const READ: u64 = 25_000_000;
/// Between two measurements.
const MEASURE: u64 = 250_000;
/// A touch, one that finds its page in swap, and one that has to make room itself.
const TOUCH: u64 = 300;
const REFAULT: u64 = 10_000;
const AT_THE_WALL: u64 = 12_000;
/// Of the manager: a page that leaves, and a call for some of them.
const PAGE_OUT: u64 = 4_000;
const CALL: u64 = 7_500;

/// splitmix64: each run is the same for its seed.
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

/// Zipf's law with exponent 1, by the ranks' cumulative weights; hot pages are spread.
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

    fn page(&self, rng: &mut Rng) -> usize {
        let unit = f64::from(u32::try_from(rng.next() >> 32).expect("32 bits")) / 2f64.powi(32);
        let at = unit * self.0[PAGES - 1];
        let rank = self.0.partition_point(|sum| *sum <= at);
        (rank * 40_503) % PAGES
    }
}

/// A program as the kernel has it.
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

    fn leaves(&mut self, page: usize) {
        self.present[page] = false;
        self.resident -= 1;
    }
}

/// Both, as the manager's memory.
struct Host {
    programs: [Program; 2],
    /// What the manager's calls took.
    took: u64,
}

impl Host {
    fn usage(&self) -> u64 {
        self.programs.iter().map(|one| one.resident).sum()
    }

    /// The kernel makes room for who is at the wall: of each as much as it has, by second chance.
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

    /// The next touch of who is behind.
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
            program.now += AT_THE_WALL;
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

/// The manager.
struct Manager {
    machine: Machine,
    wall: MemcgId,
    marks: Watermarks,
    now: u64,
    next_look: u64,
    next_read: u64,
}

impl Manager {
    /// Reads all tables and clears all bits.
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

    /// What is due.
    fn work(&mut self, host: &mut Host) {
        let millis = Millis(self.now / 1_000_000);
        if self.now >= self.next_look {
            self.read(host);
            for program in &host.programs {
                self.machine.age(program.memcg, millis);
            }
            self.next_look = self.now + LOOK;
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
            self.machine.set_measured(self.wall, Pages(usage));
            let request = ReclaimRequest {
                reason: ScanReason::Direct,
                nr: Pages(usage - (max - self.marks.high.0)),
                swappiness: None,
                now: millis,
            };
            host.took = 0;
            self.machine.reclaim_subtree(self.wall, request, host);
            self.now += host.took;
        }
        self.now += MEASURE;
    }
}

fn id(page: usize) -> FolioId {
    FolioId(u32::try_from(page).expect("few pages"))
}

/// Touches of both in so many looks, after as many that bring things to where they stay.
fn run(seed: u64, looks: u64) -> [u64; 2] {
    let config = MachineConfig {
        batch: BATCH,
        in_turn: true,
        seed,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let wall = machine.create(MemcgId::ROOT, Millis(0));
    let programs = [1, 2].map(|number| {
        let memcg = machine.create(wall, Millis(0));
        machine.lruvec_mut(memcg).ensure(PAGES);
        Program::new(memcg, seed << 32 | number)
    });
    let mut host = Host { programs, took: 0 };
    let mut manager = Manager {
        machine,
        wall,
        marks: Watermarks::new(Pages(PAGES as u64), Pages(0), 25),
        now: 0,
        next_look: 0,
        next_read: 0,
    };
    let zipf = Zipf::new();
    let mut touches = [0; 2];
    for end in [looks, 2 * looks] {
        let before = host.programs.each_ref().map(|one| one.touches);
        while host.programs.iter().any(|one| one.now < end * LOOK) {
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
fn the_slower_of_two_with_the_same_work_is_not_far_behind() {
    for seed in 1..=3 {
        let touches = run(seed, 8);
        let (slow, fast) = (touches[0].min(touches[1]), touches[0].max(touches[1]));
        assert!(slow * 100 >= fast * 90, "seed {seed}: {touches:?}");
    }
}
