//! A naive model of the levels: a map of pages for each memcg, summed anew at each query. Which
//! pages reclaim takes, in which order, and which it deactivates is read from the engine.

extern crate std;

use crate::active_inactive::{Sizes, Stage};
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Lruvec, Policy};
use crate::machine::{GlobalReclaim, Machine, MachineConfig, ReclaimRequest};
use crate::memcg::{MemcgId, MemcgLimits};
use crate::units::{Bytes, Limit, Millis, Pages};
use crate::vmscan::{Memory, PageOut, ScanReason};
use crate::vmstat::VmEvent;
use crate::word::Flag;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

const PAGES: u32 = 120;
/// The parent of each memcg: the root's children are 1 and 2, and 3 to 5 are deeper.
const PARENTS: [usize; 6] = [0, 0, 0, 1, 1, 3];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Page {
    In { file: bool, active: bool },
    Out { target: usize, stamp: u64 },
}

#[derive(Default)]
struct Memcg {
    pages: BTreeMap<u32, Page>,
    clock: u64,
    activations: [u64; 2],
    refaults: u64,
    is_gone: bool,
}

/// A memory that pages out all pages, and records their order.
#[derive(Default)]
struct Order(Vec<(MemcgId, FolioId)>);

impl Memory for Order {
    fn walk(&mut self, _: MemcgId, _: &mut Lruvec) {}

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
        self.0.extend(batch.iter().map(|&id| (memcg, id)));
    }
}

struct Pair {
    machine: Machine,
    ids: Vec<MemcgId>,
    model: [Memcg; 6],
    now: u32,
}

impl Pair {
    fn new() -> Self {
        let config = MachineConfig {
            policy: Policy::ActiveInactive(Stage::Detection, Pages(1000)),
            global: GlobalReclaim::Iterator,
            ..MachineConfig::default()
        };
        let mut machine = Machine::new(config, Millis(0));
        let mut ids = alloc::vec![MemcgId::ROOT];
        for parent in &PARENTS[1..] {
            ids.push(machine.create(ids[*parent], Millis(0)));
        }
        for &id in &ids {
            machine.lruvec_mut(id).ensure(PAGES as usize);
        }
        Self {
            machine,
            ids,
            model: Default::default(),
            now: 0,
        }
    }

    /// Returns `who` and all memcgs above it.
    fn up(who: usize) -> Vec<usize> {
        let parent = |&who: &usize| (who != 0).then(|| PARENTS[who]);
        core::iter::successors(Some(who), parent).collect()
    }

    fn advance(&mut self, who: usize) {
        Self::up(who)
            .into_iter()
            .for_each(|at| self.model[at].clock += 1);
    }

    fn sizes(&self, target: usize) -> Sizes {
        let mut sizes = Sizes::default();
        let below = (0..6).filter(|&who| Self::up(who).contains(&target));
        for page in below.flat_map(|who| self.model[who].pages.values()) {
            match *page {
                Page::In { file, active: true } => sizes.active[usize::from(file)] += 1,
                Page::In { file, .. } => sizes.inactive[usize::from(file)] += 1,
                Page::Out { .. } => {}
            }
        }
        sizes
    }

    fn has_swap(&self, target: usize) -> bool {
        let mut up = Self::up(target).into_iter();
        up.all(|at| self.machine.tree().get(self.ids[at]).swap_available() > Pages(0))
    }

    fn fault(&mut self, who: usize, id: u32, file: bool) {
        let (memcg, page) = (self.ids[who], self.model[who].pages.get(&id).copied());
        if matches!(page, Some(Page::In { .. })) {
            return;
        }
        let ty = FolioType::ALL[usize::from(file)];
        // A page that is swapped in frees its swap slot before its refault is judged.
        let before = self.machine.lruvec(memcg).out(FolioType::Anon);
        let refault = self
            .machine
            .fault_in(memcg, FolioId(id), ty, FaultKind::Refault, true);
        let lruvec = self.machine.lruvec_mut(memcg);
        lruvec.folios_mut().take_accessed(FolioId(id));
        assert!(lruvec.out(FolioType::Anon) <= before);
        let mut active = false;
        if let Some(Page::Out { target, stamp }) = page {
            self.model[who].refaults += 1;
            let Sizes {
                inactive: [ia, inf],
                active: [aa, af],
            } = self.sizes(target);
            let anon = if self.has_swap(target) {
                aa + if file { ia } else { 0 }
            } else {
                0
            };
            let room = af + if file { 0 } else { inf } + anon;
            let distance = self.model[target].clock - stamp;
            active = distance <= room && !self.model[target].is_gone;
            assert_eq!(refault.map(|r| r.recent), Some(active), "{who}: {id}");
            if active {
                self.advance(who);
                for at in Self::up(who) {
                    self.model[at].activations[usize::from(file)] += 1;
                }
            }
        }
        self.model[who].pages.insert(id, Page::In { file, active });
    }

    fn mark_accessed(&mut self, who: usize, id: u32) {
        let lruvec = self.machine.lruvec_mut(self.ids[who]);
        let before = lruvec.stat().get(VmEvent::Pgactivate);
        lruvec.mark_accessed(FolioId(id));
        if lruvec.stat().get(VmEvent::Pgactivate) > before {
            self.advance(who);
        }
    }

    fn reclaim(&mut self, target: usize, nr: u64) {
        let request = ReclaimRequest::new(
            ScanReason::ALL[self.now as usize % 3],
            Pages(nr),
            Millis(u64::from(self.now)),
        );
        let mut order = Order::default();
        self.machine
            .reclaim_subtree(self.ids[target], request, &mut order);
        for (memcg, id) in order.0 {
            let who = self.ids.iter().position(|&id| id == memcg).expect("ours");
            let stamp = self.model[target].clock;
            // The target's clock and those above it; not that of the page's owner below it.
            self.advance(target);
            self.model[who]
                .pages
                .insert(id.0, Page::Out { target, stamp });
        }
    }

    /// Reads from the engine which pages are active.
    fn follow(&mut self) {
        for (memcg, &id) in self.model.iter_mut().zip(&self.ids) {
            let folios = self.machine.lruvec(id).folios();
            for (&page, state) in &mut memcg.pages {
                let word = folios.get(FolioId(page));
                if let Page::In { active, .. } = state {
                    *active = word.has(Flag::Active);
                }
            }
        }
    }

    fn apply(&mut self, mut random: impl FnMut(u32) -> u32) {
        self.now += 1;
        let (who, id) = (random(6) as usize, random(PAGES));
        match random(10) {
            0..5 => (id..(id + random(30)).min(PAGES)).for_each(|id| {
                self.fault(who, id, id % 3 > 0);
            }),
            5 => (id..(id + 10).min(PAGES)).for_each(|id| self.mark_accessed(who, id)),
            6 => {
                self.machine.unmap_range(self.ids[who], FolioId(id), 5);
                (id..id + 5).for_each(|id| {
                    self.model[who].pages.remove(&id);
                });
            }
            7 if random(8) == 0 => {
                let swap_max = [Limit::Max, Limit::Bytes(Bytes(0))][random(2) as usize];
                let limits = MemcgLimits {
                    swap_max,
                    ..MemcgLimits::default()
                };
                self.machine.set_limits(self.ids[who], limits);
            }
            // Only memcgs with children: they exist for a while after their deletion.
            7 if random(20) == 0 => {
                let who = [1, 3][random(2) as usize];
                if !core::mem::replace(&mut self.model[who].is_gone, true) {
                    self.machine.offline(self.ids[who]);
                }
            }
            _ => self.reclaim(who, u64::from(1 + random(60))),
        }
        self.follow();
        self.compare();
    }

    fn compare(&mut self) {
        self.machine.check_invariants();
        for who in 0..6 {
            let level = self.machine.level(self.ids[who]);
            let model = &self.model[who];
            assert_eq!(level.nonresident_age, model.clock, "the clock of {who}");
            assert_eq!(level.activations, model.activations, "{who}");
            assert_eq!(level.sizes, self.sizes(who), "{who}");
            let stats = self.machine.lruvec(self.ids[who]).stat();
            let refaults = [
                VmEvent::WorkingsetRefaultAnon,
                VmEvent::WorkingsetRefaultFile,
            ];
            let refaults: u64 = refaults.into_iter().map(|event| stats.get(event)).sum();
            assert_eq!(refaults, model.refaults, "on the owner: {who}");
        }
    }
}

#[test]
fn levels_and_model_agree() {
    let (mut recent, mut all) = (0, 0);
    for seed in 1..80u32 {
        // Shown only if the test fails.
        std::println!("seed {seed}");
        let (mut pair, mut x) = (Pair::new(), seed);
        for _ in 0..150 {
            pair.apply(|n| {
                x ^= x << 13;
                x ^= x >> 17;
                x ^= x << 5;
                x % n
            });
        }
        let of = |f: fn(&Memcg) -> u64| pair.model.iter().map(f).sum::<u64>();
        recent += of(|memcg| memcg.activations.iter().sum());
        all += of(|memcg| memcg.refaults);
    }
    // Neither answer is the only one: the root, its child and all that is deeper count an
    // activation each.
    assert!(recent > all / 10 && recent < 3 * all, "{recent} of {all}");
}
