//! Compares the engine's machine with a simple model under random operations. After each operation
//! their visible states must be equal, in particular the order in which pages would be evicted.
//!
//! A failing case prints its operations, as few as proptest finds, and the seed.
#![forbid(unsafe_code)]
#![expect(unreachable_pub, reason = "the model is a module of this test only")]

mod naive;

use engine::folio::FolioId;
use engine::lru_gen::ByAgeCursor;
use engine::memcg::MemcgLimits;
use engine::vmstat::VmEvent;
use engine::word::{Flag, State};
use engine::workingset_report::{Aggregation, Bins};
use engine::{
    FaultKind, FolioType, Machine, MachineConfig, MemcgId, Millis, PageOut, Pages, ScanReason,
    Swappiness,
};
use naive::{Naive, PageState, naive_page_age};
use proptest::prelude::*;

const ONE: MemcgId = MemcgId::FIRST;

/// Number of page ids.
const PAGES: u32 = 150;
/// Edges of the bins of the page-age histogram, in milliseconds.
const EDGES: [u64; 3] = [10, 25, 60];

#[derive(Clone, Debug)]
enum Op {
    /// Faults in the absent pages of `id..id + len`, and touches those that are present.
    Fault {
        id: u32,
        len: u32,
        file: bool,
        kind: FaultKind,
        recency: bool,
    },
    Young {
        id: u32,
        len: u32,
    },
    Walk,
    /// Sets whether the mapping of these pages has recency.
    Advise {
        id: u32,
        len: u32,
        recency: bool,
    },
    /// Makes the reference check of all isolated pages, which puts accessed pages back.
    Check,
    Mark {
        id: u32,
        times: u32,
    },
    Unmap {
        id: u32,
        len: u32,
    },
    Age {
        after: u64,
    },
    Isolate {
        nr: usize,
    },
    IsolateByAge {
        nr: usize,
    },
    /// Finishes the first `nr` isolated pages with this outcome.
    Finish {
        nr: usize,
        outcome: PageOut,
    },
    Flag {
        id: u32,
        flag: Flag,
        on: bool,
    },
    Rotate {
        id: u32,
    },
    Deactivate {
        id: u32,
    },
    /// Faults in pages, reads them `times` more, evicts them, and refaults them, so that the
    /// refault controller counts evictions and refaults.
    Cycle {
        id: u32,
        len: u32,
        file: bool,
        times: u32,
    },
}

/// Random operations; the numbers are their weights.
fn ops() -> impl Strategy<Value = Op> {
    let id = 0..PAGES;
    let kind = prop_oneof![
        4 => Just(FaultKind::FirstTouch),
        6 => Just(FaultKind::Refault),
        2 => Just(FaultKind::Readahead),
        2 => Just(FaultKind::FaultReadahead),
        1 => Just(FaultKind::Descriptor),
    ];
    let outcome = prop_oneof![
        8 => Just(PageOut::Stored),
        1 => Just(PageOut::Referenced),
        1 => Just(PageOut::Busy),
        1 => Just(PageOut::Gone),
        1 => Just(PageOut::Taken),
        2 => Just(PageOut::TooYoung),
    ];
    let flag = prop_oneof![
        Just(Flag::Dirty),
        Just(Flag::Writeback),
        Just(Flag::Unevictable)
    ];
    prop_oneof![
        8 => (id.clone(), 1..40u32, any::<bool>(), kind, prop::bool::weighted(0.9)).prop_map(
            |(id, len, file, kind, recency)| Op::Fault { id, len, file, kind, recency }
        ),
        4 => (id.clone(), 1..60u32).prop_map(|(id, len)| Op::Young { id, len }),
        1 => Just(Op::Walk),
        1 => (id.clone(), 1..100u32, any::<bool>())
            .prop_map(|(id, len, recency)| Op::Advise { id, len, recency }),
        1 => Just(Op::Check),
        2 => (id.clone(), 1..6u32).prop_map(|(id, times)| Op::Mark { id, times }),
        2 => (id.clone(), 1..30u32).prop_map(|(id, len)| Op::Unmap { id, len }),
        4 => (0..30u64).prop_map(|after| Op::Age { after }),
        5 => (1..100usize).prop_map(|nr| Op::Isolate { nr }),
        2 => (1..100usize).prop_map(|nr| Op::IsolateByAge { nr }),
        6 => (1..100usize, outcome).prop_map(|(nr, outcome)| Op::Finish { nr, outcome }),
        1 => (id.clone(), flag, any::<bool>()).prop_map(|(id, flag, on)| Op::Flag { id, flag, on }),
        1 => id.clone().prop_map(|id| Op::Rotate { id }),
        1 => id.clone().prop_map(|id| Op::Deactivate { id }),
        1 => (id, 60..150u32, any::<bool>(), 0..5u32)
            .prop_map(|(id, len, file, times)| Op::Cycle { id, len, file, times }),
    ]
}

/// The machine and its model, to which the same operations are applied.
struct Pair {
    machine: Machine,
    model: Naive,
    isolated: Vec<(u32, ScanReason)>,
    /// Whether the mapping of each page has recency; input of both machine and model.
    recency: Vec<bool>,
    now: u64,
}

fn range(id: u32, len: u32) -> std::ops::Range<u32> {
    id..(id + len).min(PAGES)
}

impl Pair {
    fn new(swappiness: u8) -> Self {
        let swappiness = Swappiness::new(swappiness).expect("in range");
        let config = MachineConfig {
            ..MachineConfig::default()
        };
        let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
        machine.set_swappiness(ONE, swappiness);
        machine.lruvec_mut(ONE).ensure(PAGES as usize);
        let model = Naive::new(PAGES as usize, u64::from(swappiness.get()));
        Self {
            machine,
            model,
            isolated: Vec::new(),
            recency: vec![true; PAGES as usize],
            now: 0,
        }
    }

    /// Applies an operation to the machine and to the model.
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Fault {
                id,
                len,
                file,
                kind,
                recency,
            } => {
                let ty = if file {
                    FolioType::File
                } else {
                    FolioType::Anon
                };
                for id in range(id, len) {
                    self.machine.fault_in(ONE, FolioId(id), ty, kind, recency);
                    self.model.fault(id, ty, kind, recency);
                }
            }
            Op::Young { id, len } => {
                for id in range(id, len) {
                    self.machine.lruvec_mut(ONE).young(FolioId(id));
                    self.model.young(id);
                }
            }
            Op::Walk | Op::Advise { .. } | Op::Check => self.scan(op),
            Op::Mark { id, times } => {
                for _ in 0..times {
                    self.machine.lruvec_mut(ONE).mark_accessed(FolioId(id));
                    self.model.mark_accessed(id);
                }
            }
            Op::Unmap { id, len } => {
                let len = range(id, len).len();
                self.machine.unmap_range(ONE, FolioId(id), len);
                (id..).take(len).for_each(|id| self.model.unmap(id));
            }
            Op::Age { after } => {
                self.now += after;
                self.machine.age(ONE, Millis(self.now));
                self.model.age(self.now);
            }
            Op::Flag { id, flag, on } => self.flag(id, flag, on),
            Op::Rotate { id } => {
                self.machine.lruvec_mut(ONE).rotate_reclaimable(FolioId(id));
                self.model.rotate(id);
            }
            Op::Deactivate { id } => {
                self.machine.lruvec_mut(ONE).deactivate(FolioId(id));
                self.model.deactivate(id);
            }
            Op::Cycle {
                id,
                len,
                file,
                times,
            } => self.cycle_through(id, len, file, times),
            Op::Isolate { .. } | Op::IsolateByAge { .. } | Op::Finish { .. } => self.reclaim(op),
        }
    }

    /// Applies operations that read accessed bits, or that change which bits count.
    fn scan(&mut self, op: &Op) {
        let (lruvec, recency) = (self.machine.lruvec_mut(ONE), &mut self.recency);
        match *op {
            Op::Walk => {
                lruvec.walk_recent(|id| recency[id.index()]);
                self.model.walk(recency);
            }
            Op::Advise {
                id,
                len,
                recency: now,
            } => range(id, len).for_each(|id| recency[id as usize] = now),
            Op::Check => {
                let mut batch: Vec<_> = self.isolated.iter().map(|(id, _)| FolioId(*id)).collect();
                lruvec.keep_referenced(&mut batch, |id| recency[id.index()]);
                for (id, _) in &self.isolated {
                    self.model.keep_referenced(*id, recency[*id as usize]);
                }
                self.isolated
                    .retain(|(id, _)| batch.contains(&FolioId(*id)));
            }
            _ => {}
        }
    }

    /// Applies [`Op::Cycle`] as other operations.
    fn cycle_through(&mut self, id: u32, len: u32, file: bool, times: u32) {
        let fault = |kind| Op::Fault {
            id,
            len,
            file,
            kind,
            recency: true,
        };
        self.apply(&fault(FaultKind::Descriptor));
        range(id, len).for_each(|id| self.apply(&Op::Mark { id, times }));
        for _ in 0..3 {
            self.apply(&Op::Age { after: 1 });
            self.apply(&Op::Isolate { nr: PAGES as usize });
            self.apply(&Op::Finish {
                nr: PAGES as usize,
                outcome: PageOut::Stored,
            });
        }
        self.apply(&fault(FaultKind::Refault));
    }

    /// Isolates or finishes pages in the machine and in the model. Checks that both choose the same
    /// pages in the same order.
    fn reclaim(&mut self, op: &Op) {
        let mut isolated = Vec::new();
        let by_age = matches!(op, Op::IsolateByAge { .. });
        let reason = if by_age {
            ScanReason::Proactive
        } else {
            ScanReason::Direct
        };
        let expect = match *op {
            Op::Isolate { nr } => {
                self.machine.isolate(ONE, nr, reason, &mut isolated);
                self.model.isolate(nr)
            }
            Op::IsolateByAge { nr } => {
                let limits = (nr, &mut ByAgeCursor::default());
                self.machine.isolate_by_age(ONE, limits, &mut isolated);
                self.model.isolate_by_age(nr)
            }
            Op::Finish { nr, outcome } => {
                for (id, reason) in self.isolated.drain(..nr.min(self.isolated.len())) {
                    self.machine
                        .finish_page(ONE, FolioId(id), (outcome, reason));
                    self.model.finish_page(id, outcome);
                }
                return;
            }
            _ => return,
        };
        let isolated: Vec<u32> = isolated.iter().map(|id| id.0).collect();
        assert_eq!(isolated, expect, "isolated, in order");
        self.isolated
            .extend(isolated.into_iter().map(|id| (id, reason)));
    }

    fn flag(&mut self, id: u32, flag: Flag, on: bool) {
        self.machine.lruvec_mut(ONE).set_flag(FolioId(id), flag, on);
        let page = &mut self.model.pages[id as usize];
        if matches!(page.place, PageState::Gen(_) | PageState::Off) {
            match flag {
                Flag::Dirty => page.dirty = on,
                Flag::Writeback => page.writeback = on,
                _ => page.unevictable = on,
            }
        }
    }

    /// Checks that the visible states of machine and model are equal.
    fn compare(&self) {
        self.machine.check_invariants();
        let lru = self.machine.lruvec(ONE).lru_gen();
        let mins = FolioType::ALL.map(|ty| lru.min_seq(ty));
        assert_eq!(
            (lru.max_seq(), mins),
            (self.model.max_seq, self.model.min_seq)
        );
        assert_eq!(
            self.machine.lruvec(ONE).resident(),
            Pages(self.model.resident())
        );
        self.compare_pages();
        for ty in FolioType::ALL {
            for seq in lru.min_seq(ty)..=lru.max_seq() {
                let actual = self.machine.lruvec(ONE).list_order(seq, ty);
                let list = self.model.lists.get(&(seq, ty as usize));
                let expect = list.into_iter().flatten().rev().copied().map(FolioId);
                assert_eq!(
                    actual,
                    expect.collect::<Vec<_>>(),
                    "list {seq} {ty:?}, tail first"
                );
            }
        }
        self.compare_counts();
        let bins = Bins::new(&EDGES.map(Millis)).expect("increasing");
        let report = self
            .machine
            .page_age(ONE, Millis(self.now), &bins, Aggregation::Exact);
        let actual: Vec<_> = report
            .bins()
            .iter()
            .map(|bin| bin.pages.map(|p| p.0))
            .collect();
        assert_eq!(
            actual,
            naive_page_age(&self.model, &EDGES, self.now),
            "page age"
        );
    }

    /// Compares state and flags of each page.
    fn compare_pages(&self) {
        let lru = self.machine.lruvec(ONE).lru_gen();
        for (id, page) in (0..).map(FolioId).zip(&self.model.pages) {
            let word = self.machine.lruvec(ONE).folios().get(id);
            match page.place {
                PageState::Nowhere => assert_eq!(word.state(), State::Absent, "{id:?}"),
                PageState::Out(..) => assert_eq!(word.state(), State::Shadow, "{id:?}"),
                PageState::Off => assert_eq!(word.state(), State::OffList, "{id:?}"),
                PageState::Gen(seq) => {
                    assert_eq!(word.state(), State::Listed, "{id:?}");
                    let refs = (word.has(Flag::Referenced), word.has(Flag::Workingset));
                    assert_eq!(refs, (page.referenced, page.workingset), "{id:?}");
                    assert_eq!(word.folio_type(), page.ty);
                    assert_eq!(lru.seq_of(word.generation(), page.ty), seq, "{id:?}");
                }
            }
        }
    }

    /// Compares the event counters.
    fn compare_counts(&self) {
        let (stat, counts) = (self.machine.lruvec(ONE).stat(), &self.model.counts);
        let by_type = |anon, file| [stat.get(anon), stat.get(file)];
        let refault = by_type(
            VmEvent::WorkingsetRefaultAnon,
            VmEvent::WorkingsetRefaultFile,
        );
        let activate = by_type(
            VmEvent::WorkingsetActivateAnon,
            VmEvent::WorkingsetActivateFile,
        );
        let restore = by_type(
            VmEvent::WorkingsetRestoreAnon,
            VmEvent::WorkingsetRestoreFile,
        );
        assert_eq!(refault, counts.refault);
        assert_eq!(activate, counts.activate);
        assert_eq!(restore, counts.restore);
        assert_eq!((stat.pgscan(), stat.pgsteal()), (counts.scan, counts.steal));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn engine_and_model_agree(
        swappiness in prop_oneof![Just(60u8), Just(1), Just(200), Just(120)],
        ops in prop::collection::vec(ops(), 1..150),
    ) {
        let mut pair = Pair::new(swappiness);
        for op in &ops {
            let before = (pair.model.max_seq, pair.model.min_seq);
            pair.apply(op);
            pair.compare();
            // Invariant I4 of the spec: the generation numbers (seqs) never decrease.
            prop_assert!(before.0 <= pair.model.max_seq);
            prop_assert!((0..2).all(|t| before.1[t] <= pair.model.min_seq[t]));
        }
    }
}

/// Checks the test above: its random operations must lead to promotion, refaults and eviction.
#[test]
fn the_operations_reach_all_cases() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut promoted, mut restored, mut isolated) = (0, 0, 0);
    for _ in 0..60 {
        let strategy = prop::collection::vec(ops(), 150);
        let ops = strategy.new_tree(&mut runner).unwrap().current();
        let mut pair = Pair::new(60);
        ops.iter().for_each(|op| pair.apply(op));
        promoted += pair.model.pages.iter().filter(|p| p.workingset).count();
        restored += pair.model.counts.restore.iter().sum::<u64>();
        isolated += pair.model.counts.scan;
    }
    assert!(
        promoted > 100 && restored > 20 && isolated > 5000,
        "{promoted} {restored} {isolated}"
    );
}
