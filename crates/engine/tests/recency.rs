//! Tests of mappings without recency: the mapping through which a page was first touched does not
//! matter later.
//!
//! spec: reclaim-control.md 6.1, 11 (tests 11 and 12).
#![forbid(unsafe_code)]

use engine::active_inactive::Stage;
use engine::machine::ReclaimRequest;
use engine::memcg::MemcgLimits;
use engine::vmstat::VmEvent;
use engine::word::Flag;
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis,
    PageOut, Pages, Policy, ScanReason,
};
use std::ops::Range;

const ONE: MemcgId = MemcgId::FIRST;
/// Number of page ids.
const PAGES: u32 = 200;

/// A memory in which the mappings of the pages in `noreuse` have no recency, and page-out of the
/// pages in `busy` fails.
#[derive(Default)]
struct Mapped {
    noreuse: Range<u32>,
    busy: Range<u32>,
}

impl Memory for Mapped {
    fn walk(&mut self, memcg: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_recent(|id| self.has_recency(memcg, id));
    }

    fn has_recency(&self, _: MemcgId, id: FolioId) -> bool {
        !self.noreuse.contains(&id.0)
    }

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|id| match self.busy.contains(&id.0) {
            true => PageOut::Busy,
            false => PageOut::Stored,
        }));
    }
}

fn machine(policy: Policy) -> Machine {
    let config = MachineConfig {
        policy,
        ..MachineConfig::default()
    };
    let mut machine = Machine::of_one(config, MemcgLimits::default(), Millis(0));
    machine.lruvec_mut(ONE).ensure(PAGES as usize);
    machine
}

/// Returns the default policy, and the policy with classic lists.
fn policies() -> [Policy; 2] {
    let classic = Policy::ActiveInactive(Stage::Detection, Pages(u64::from(PAGES)));
    [Policy::default(), classic]
}

/// Faults in these pages as file pages, and then touches each once more.
fn fault(machine: &mut Machine, ids: Range<u32>, has_recency: bool) {
    let (ty, kind) = (FolioType::File, FaultKind::Refault);
    for id in ids.map(FolioId) {
        machine.fault_in(ONE, id, ty, kind, has_recency);
        machine.lruvec_mut(ONE).touch(id);
    }
}

fn touch(machine: &mut Machine, ids: Range<u32>) {
    for id in ids.map(FolioId) {
        machine.lruvec_mut(ONE).touch(id);
    }
}

/// Clears the accessed bits that the faults set: by a walk or, with the classic lists, by a reclaim
/// in which all pages are busy.
fn clear_accessed_bits(machine: &mut Machine) {
    let busy = 0..PAGES;
    let mut memory = Mapped {
        noreuse: 0..0,
        busy,
    };
    machine.walk_and_age(ONE, Millis(1), &mut memory);
    if machine.lruvec(ONE).classic().is_some() {
        reclaim(machine, &mut memory, 1);
    }
}

/// Reclaims 32 pages at the time `now` (ms), and checks the invariants.
fn reclaim(machine: &mut Machine, memory: &mut Mapped, now: u64) {
    let request = ReclaimRequest::new(ScanReason::Direct, Pages(32), Millis(now));
    machine.reclaim_subtree(ONE, request, memory);
    machine.check_invariants();
}

/// Returns how many of these pages are in memory.
fn present(machine: &Machine, ids: Range<u32>) -> usize {
    let folios = machine.lruvec(ONE).folios();
    let ids = ids.filter(|&id| folios.get(FolioId(id)).is_present());
    ids.count()
}

/// Regression: the engine stored through which mapping a page was first touched. A page first
/// touched through a mapping with POSIX_FADV_NOREUSE was evicted, although a process used it
/// through another mapping all the time.
#[test]
fn another_mapping_keeps_pages_that_a_noreuse_mapping_brought_in() {
    for policy in policies() {
        let (mut machine, mut memory) = (machine(policy), Mapped::default());
        fault(&mut machine, 0..PAGES, false);
        clear_accessed_bits(&mut machine);
        touch(&mut machine, 0..50);
        reclaim(&mut machine, &mut memory, 2);
        assert_eq!(present(&machine, 0..50), 50, "{policy:?}");
        assert!(present(&machine, 50..PAGES) < 150, "{policy:?}");
    }
}

/// Regression: advice had no effect on pages touched before it: later accesses through the mapping,
/// now without recency, kept these pages in memory.
#[test]
fn later_advice_takes_effect_at_once() {
    for policy in policies() {
        let (mut machine, mut memory) = (machine(policy), Mapped::default());
        fault(&mut machine, 0..PAGES, true);
        clear_accessed_bits(&mut machine);
        touch(&mut machine, 0..PAGES);
        memory.noreuse = 150..PAGES;
        reclaim(&mut machine, &mut memory, 2);
        assert!(present(&machine, 150..PAGES) <= 18, "{policy:?}");
        assert_eq!(present(&machine, 0..150), 150, "{policy:?}");
    }
}

/// Regression: a page that refaulted through a mapping without recency was counted as activated,
/// although it starts in an old generation.
#[test]
fn no_activation_is_counted_for_a_fault_without_recency() {
    for (has_recency, expect) in [(false, 0), (true, 1)] {
        let mut machine = machine(Policy::default());
        fault(&mut machine, 0..1, true);
        machine.left(ONE, FolioId(0));
        fault(&mut machine, 0..1, has_recency);
        let stats = machine.lruvec(ONE).stat();
        assert_eq!(stats.get(VmEvent::WorkingsetRefaultFile), 1);
        assert_eq!(stats.get(VmEvent::WorkingsetActivateFile), expect);
    }
}

/// Regression: a page whose mapping had no recency and that could not be evicted was put back as
/// referenced, because of an accessed bit that must not count. reclaim-control.md 10, I10.
#[test]
fn a_page_put_back_is_not_promoted_by_its_bit() {
    for policy in policies() {
        let mut machine = machine(policy);
        let mut memory = Mapped {
            noreuse: 0..PAGES,
            busy: 0..PAGES,
        };
        fault(&mut machine, 0..PAGES, false);
        reclaim(&mut machine, &mut memory, 1);
        let folios = machine.lruvec(ONE).folios();
        for id in (0..PAGES).map(FolioId) {
            assert!(!folios.get(id).has(Flag::Referenced), "{policy:?} {id:?}");
            assert!(folios.is_accessed(id), "{policy:?} {id:?}: not cleared");
        }
    }
}
