//! The simulated machine of the memcg-lru experiment: tenants that touch all their pages at random.
//!
//! Invariant: tenants affect each other only by reclaim. So all touches of one tenant between two
//! writes to memory.reclaim are made together, which is faster: to mix them with those of other
//! tenants would give the same result.

use crate::hardware;
use crate::in_words::InWords;
use crate::rng::Rng;
use engine::machine::ReclaimRequest;
use engine::memcg::MemcgId;
use engine::vmstat::{VmEvent, VmStat};
use engine::{
    Aging, FaultKind, FolioId, FolioType, Machine, MachineConfig, Millis, Pages, ScanReason,
};

/// Sizes of the experiment, in pages and seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Number of memcgs.
    pub memcgs: u32,
    /// Pages of each memcg.
    pub pages: u32,
    /// Touches per second of each memcg, reads and writes together.
    pub touches: u32,
    /// Seconds before the first write to memory.reclaim.
    pub warm_up: u32,
    /// Number of writes to memory.reclaim of the root.
    pub writes: u32,
    /// Seconds between two writes.
    pub sleep: u32,
    /// Pages requested in each write.
    pub request: u64,
    /// Levels of the tree below the root. Only memcgs in the lowest level have pages.
    pub levels: u32,
}

/// Number of children of each memcg that has no pages.
const BELOW_EACH: usize = 4;

impl Design {
    /// Returns the sizes of document 000, divided by `scale`.
    #[must_use]
    pub fn document(scale: u64) -> Self {
        let mib = |mib: u64| mib * 256 / scale;
        let small = |pages: u64| u32::try_from(pages.max(1)).unwrap_or(u32::MAX);
        Self {
            memcgs: 128,
            pages: small(mib(1920)),
            touches: small(mib(64 + 64)),
            warm_up: 600,
            writes: 600,
            sleep: 6,
            request: mib(256).max(1),
            levels: 1,
        }
    }

    /// Returns the same sizes with the memcgs in a tree of three levels: 4 by 4 groups, 8 memcgs in
    /// each.
    #[must_use]
    pub const fn in_tree(self) -> Self {
        Self { levels: 3, ..self }
    }

    /// Creates the parents of the memcgs with pages, and returns them.
    fn parents(&self, machine: &mut Machine) -> Vec<MemcgId> {
        let mut parents = vec![MemcgId::ROOT];
        for _ in 1..self.levels {
            let above = parents.iter().flat_map(|&id| [id; BELOW_EACH]);
            parents = above.map(|id| machine.create(id, Millis(0))).collect();
        }
        parents
    }
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Pages taken from each memcg.
    pub pgsteal: Vec<u64>,
    /// Refaulted pages of each memcg.
    pub refaults: Vec<u64>,
    /// Sum of the pages requested.
    pub requested: u64,
    /// Number of writes that ended with EAGAIN.
    pub again: u64,
    /// Number of touches in the run.
    pub touches: u64,
    /// Bytes of engine metadata at the end.
    pub footprint: u64,
}

/// The machine and the memcgs that touch pages.
pub struct World {
    machine: Machine,
    memcgs: Vec<(MemcgId, Rng)>,
    design: Design,
    touches: u64,
    /// Seconds that have passed.
    past: u32,
    /// Whether memory is scanned at an interval, as on a host.
    is_host: bool,
}

/// Seconds between two scans of a host: the default of `serve`.
const SCAN_EVERY: u32 = 10;

impl World {
    /// Makes a machine with these settings. Its tenants have no pages yet.
    #[must_use]
    pub fn new(design: Design, config: MachineConfig, seed: u64) -> Self {
        let config = MachineConfig {
            seed: Rng::stream(seed, 0).next_u64(),
            ..config
        };
        let mut machine = Machine::new(config, Millis(0));
        let parents = design.parents(&mut machine);
        let memcgs = (0..design.memcgs)
            .zip(parents.into_iter().cycle())
            .map(|(n, parent)| {
                let id = machine.create(parent, Millis(0));
                machine.lruvec_mut(id).ensure(design.pages as usize);
                (id, Rng::stream(seed, 1 + u64::from(n)))
            })
            .collect();
        Self {
            machine,
            memcgs,
            design,
            touches: 0,
            past: 0,
            is_host: config.aging == Aging::ByScans,
        }
    }

    /// Lets `seconds` of simulated time pass; all tenants touch pages meanwhile. If the machine
    /// models a host, it also scans.
    pub fn run_for(&mut self, seconds: u32) {
        let end = self.past + seconds;
        while self.is_host && self.past / SCAN_EVERY < end / SCAN_EVERY {
            let next = (self.past / SCAN_EVERY + 1) * SCAN_EVERY;
            self.touch_for(next - self.past);
            self.scan(true);
        }
        self.touch_for(end - self.past);
    }

    /// Scans: finds the pages that were accessed since the last scan. Opens a generation if
    /// `opens`.
    fn scan(&mut self, opens: bool) {
        let now = Millis(u64::from(self.past) * 1000);
        for (id, _) in &self.memcgs {
            self.machine.lruvec_mut(*id).walk_accessed();
            if opens {
                self.machine.age_after_scan(*id, now);
            }
        }
    }

    fn touch_for(&mut self, seconds: u32) {
        self.past += seconds;
        let nr = u64::from(self.design.touches) * u64::from(seconds);
        for (id, rng) in &mut self.memcgs {
            touch_at_random(&mut self.machine, *id, rng, self.design.pages, nr);
        }
        self.touches += nr * self.memcgs.len() as u64;
    }

    /// Makes one write to memory.reclaim of the root. Returns whether the requested amount was
    /// reclaimed.
    pub fn write(&mut self, now: Millis) -> bool {
        // A host scans before a reclaim, without opening a generation.
        if self.is_host {
            self.scan(false);
        }
        let request = ReclaimRequest::new(ScanReason::Proactive, Pages(self.design.request), now);
        let reclaimed = self
            .machine
            .proactive_reclaim(MemcgId::ROOT, request, &mut InWords);
        reclaimed.is_ok()
    }

    /// Runs the whole experiment. `progress` gets the completed share, 0 to 1.
    pub fn experiment(mut self, progress: &mut dyn FnMut(f64)) -> Run {
        let design = self.design;
        let seconds = f64::from(design.warm_up + design.writes * design.sleep);
        let (mut past, mut again) = (0, 0);
        while past < design.warm_up {
            let step = design.sleep.min(design.warm_up - past);
            self.run_for(step);
            past += step;
            progress(f64::from(past) / seconds);
        }
        for _ in 0..design.writes {
            again += u64::from(!self.write(Millis(u64::from(past) * 1000)));
            self.run_for(design.sleep);
            past += design.sleep;
            progress(f64::from(past) / seconds);
        }
        self.result(again)
    }

    fn result(&mut self, again: u64) -> Run {
        self.machine.flush_stats();
        let ids = self.memcgs.iter().map(|(id, _)| *id);
        let stat: Vec<_> = ids.map(|id| self.machine.memory_stat(id).events).collect();
        let footprint = |(id, _): &(MemcgId, Rng)| self.machine.lruvec(*id).footprint() as u64;
        let refaults = |stat: &VmStat| stat.get(VmEvent::WorkingsetRefaultAnon);
        Run {
            pgsteal: stat.iter().map(VmStat::pgsteal).collect(),
            refaults: stat.iter().map(refaults).collect(),
            requested: u64::from(self.design.writes) * self.design.request,
            again,
            touches: self.touches,
            footprint: self.memcgs.iter().map(footprint).sum(),
        }
    }

    /// Asserts every invariant of the engine.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check(&self) {
        self.machine.check_invariants();
    }
}

/// Number of touches that are drawn at once: enough for the processor to overlap their memory
/// accesses.
const BLOCK: usize = 128;

/// Makes `nr` touches of random pages, all equally likely; faults in absent pages.
fn touch_at_random(machine: &mut Machine, id: MemcgId, rng: &mut Rng, pages: u32, nr: u64) {
    let mut block = [FolioId(0); BLOCK];
    let (mut left, mut missing) = (nr, Vec::with_capacity(BLOCK));
    while left > 0 {
        for pair in block.as_chunks_mut::<2>().0 {
            *pair = rng.two_below(pages).map(FolioId);
        }
        let len = usize::try_from(left).map_or(BLOCK, |left| left.min(BLOCK));
        left -= len as u64;
        machine
            .lruvec_mut(id)
            .touch_all(&block[..len], &mut missing);
        for page in missing.drain(..) {
            hardware::fault(
                machine,
                (id, page),
                FolioType::Anon,
                FaultKind::Refault,
                true,
            );
        }
    }
}
