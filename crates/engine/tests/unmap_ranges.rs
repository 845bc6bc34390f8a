//! Applies the same random operations to two machines, of which one unmaps memory by ranges, the
//! other page by page. Their visible states must be equal after each operation.
#![forbid(unsafe_code)]

use engine::active_inactive::Stage;
use engine::lru_gen::Profile;
use engine::machine::{Machine, MachineConfig, ReclaimRequest};
use engine::memcg::MemcgId;
use engine::word::Flag;
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Memory, Millis, PageOut, Pages, Policy, ScanReason,
};
use proptest::prelude::*;

/// Number of page ids of each tenant.
const PAGES: u32 = 700;
/// The flags of a page that, together with its list, determine what happens to the page.
const FLAGS: [Flag; 5] = [
    Flag::Unevictable,
    Flag::Writeback,
    Flag::Dirty,
    Flag::Referenced,
    Flag::Workingset,
];

#[derive(Clone, Debug)]
enum Op {
    Fault {
        tenant: usize,
        file: bool,
        at: u32,
        len: u32,
    },
    Touch {
        tenant: usize,
        at: u32,
        len: u32,
    },
    MakeUnevictable {
        tenant: usize,
        at: u32,
        len: u32,
    },
    Unmap {
        tenant: usize,
        at: u32,
        len: u32,
    },
    Reclaim {
        nr: u64,
    },
}

fn ops() -> impl Strategy<Value = Op> {
    let range = || (0..2usize, 0..PAGES, 1..400u32);
    prop_oneof![
        4 => (range(), any::<bool>()).prop_map(|((tenant, at, len), file)| Op::Fault { tenant, file, at, len }),
        2 => range().prop_map(|(tenant, at, len)| Op::Touch { tenant, at, len }),
        1 => (0..2usize, 0..PAGES, 1..9u32).prop_map(|(tenant, at, len)| Op::MakeUnevictable { tenant, at, len }),
        3 => range().prop_map(|(tenant, at, len)| Op::Unmap { tenant, at, len }),
        3 => (1..300u64).prop_map(|nr| Op::Reclaim { nr }),
    ]
}

struct Plain;

impl Memory for Plain {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        let outcome_of =
            |id: &FolioId| [PageOut::Stored, PageOut::Busy][usize::from(id.0 % 7 == 3)];
        outcome.extend(batch.iter().map(outcome_of));
    }
}

/// A machine with two tenants. `by_ranges`: whether it unmaps by ranges or page by page.
struct World {
    machine: Machine,
    ids: [MemcgId; 2],
    by_ranges: bool,
}

impl World {
    fn new(config: MachineConfig, by_ranges: bool) -> Self {
        let mut machine = Machine::new(config, Millis(0));
        let ids = [0; 2].map(|_| machine.create(MemcgId::ROOT, Millis(0)));
        for id in ids {
            machine.lruvec_mut(id).ensure(PAGES as usize);
        }
        Self {
            machine,
            ids,
            by_ranges,
        }
    }

    fn apply(&mut self, op: &Op, now: u64) {
        let range = |at: u32, len: u32| (at..(at + len).min(PAGES)).map(FolioId);
        match *op {
            Op::Fault {
                tenant,
                file,
                at,
                len,
            } => {
                let ty = FolioType::ALL[usize::from(file)];
                for id in range(at, len) {
                    let kind = FaultKind::Refault;
                    self.machine.fault_in(self.ids[tenant], id, ty, kind, true);
                }
            }
            Op::Touch { tenant, at, len } => {
                let lruvec = self.machine.lruvec_mut(self.ids[tenant]);
                range(at, len).for_each(|id| {
                    lruvec.touch(id);
                });
            }
            Op::MakeUnevictable { tenant, at, len } => {
                let lruvec = self.machine.lruvec_mut(self.ids[tenant]);
                range(at, len).for_each(|id| lruvec.set_flag(id, Flag::Unevictable, true));
            }
            Op::Unmap { tenant, at, len } => self.unmap(self.ids[tenant], at, len),
            Op::Reclaim { nr } => {
                let request = ReclaimRequest::new(ScanReason::Direct, Pages(nr), Millis(now));
                self.machine.reclaim_root(request, &mut Plain);
            }
        }
        self.machine.check_invariants();
    }

    fn unmap(&mut self, memcg: MemcgId, at: u32, len: u32) {
        if self.by_ranges {
            self.machine.unmap_range(memcg, FolioId(at), len as usize);
        } else {
            for id in at..at + len {
                self.machine.unmap_range(memcg, FolioId(id), 1);
            }
        }
    }

    /// Returns the visible state of a tenant, for comparison.
    fn visible_state(&self, tenant: usize) -> impl PartialEq + std::fmt::Debug + use<> {
        let id = self.ids[tenant];
        let (lruvec, memcg) = (self.machine.lruvec(id), self.machine.tree().get(id));
        let pages = (0..PAGES).map(FolioId).map(|id| {
            let word = lruvec.folios().get(id);
            let accessed = lruvec.folios().is_accessed(id);
            // The word of an absent page has no flags.
            let flags = FLAGS.map(|flag| word.is_present() && word.has(flag));
            (word.state(), accessed, flags)
        });
        let lists = FolioType::ALL.map(|ty| match lruvec.multi_gen() {
            Some(lru) => {
                let seqs = lru.min_seq(ty)..=lru.max_seq();
                seqs.map(|seq| lruvec.list_order(seq, ty)).collect()
            }
            None => [true, false]
                .map(|active| {
                    let lru = lruvec.classic().expect("either");
                    lru.order(lruvec.folios(), ty, active)
                })
                .to_vec(),
        });
        let sizes = FolioType::ALL.map(|ty| {
            (
                lruvec.out(ty),
                lruvec.off_list(ty),
                lruvec.active_inactive(ty),
            )
        });
        let charged = (memcg.usage(), memcg.swap_usage(), lruvec.resident());
        (pages.collect::<Vec<_>>(), lists, sizes, charged)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn unmapping_ranges_equals_unmapping_page_by_page(
        ops in prop::collection::vec(ops(), 1..40),
        policy in 0..4usize,
        bound_shadows: bool,
    ) {
        let total = Pages(2 * u64::from(PAGES));
        let policy = [
            Policy::MultiGen(Profile::P616),
            Policy::MultiGen(Profile::P612),
            Policy::MultiGen(Profile::P63),
            Policy::ActiveInactive(Stage::Base, total),
            Policy::ActiveInactive(Stage::Detection, total),
        ][policy];
        let config = MachineConfig { policy, bound_shadows, ..MachineConfig::default() };
        let mut worlds = [true, false].map(|by_ranges| World::new(config, by_ranges));
        for (op, now) in ops.iter().zip(1..) {
            worlds.iter_mut().for_each(|world| world.apply(op, now * 100));
            for tenant in 0..2 {
                prop_assert!(worlds[0].visible_state(tenant) == worlds[1].visible_state(tenant), "after {op:?}");
            }
        }
    }
}
