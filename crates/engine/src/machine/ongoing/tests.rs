//! Tests that compare reclaims in slices with the same reclaims without pauses, and tests with
//! changes between slices.

use super::super::MachineConfig;
use super::*;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Lruvec};
use crate::memcg::{MemcgEvent, MemcgLimits};
use crate::units::Limit;
use crate::vmscan::PageOut;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Maximum number of tenants, the root included.
const TENANTS: usize = 7;
/// Maximum number of pages of one tenant.
const PAGES: u32 = 700;

/// A memory that records its batches; some pages stay, for various reasons.
struct RecordsBatches {
    batches: Vec<(MemcgId, Vec<FolioId>)>,
    /// The results of [`Memory::wants_pause`], the next one last; false once none remains.
    pauses: Vec<bool>,
    free_slots: u64,
    stored: u64,
}

impl RecordsBatches {
    fn new(pauses: &[bool], slots: u64) -> Self {
        Self {
            batches: Vec::new(),
            pauses: pauses.iter().rev().copied().collect(),
            free_slots: slots,
            stored: 0,
        }
    }
}

impl Memory for RecordsBatches {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn wants_pause(&mut self) -> bool {
        self.pauses.pop().unwrap_or(false)
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        self.batches.push((memcg, batch.to_vec()));
        for id in batch {
            let result = match id.0 % 41 {
                3 => PageOut::Busy,
                5 => PageOut::Referenced,
                7 => PageOut::Gone,
                9 => PageOut::Taken,
                _ if self.stored == self.free_slots => PageOut::NoSwap,
                _ => PageOut::Stored,
            };
            self.stored += u64::from(result == PageOut::Stored);
            outcome.push(result);
        }
    }
}

/// Creates tenants with cold pages and some accessed ones. Tenants from the fifth on are children
/// of the first.
fn machine(global: GlobalReclaim, pages: &[u32]) -> (Machine, Vec<MemcgId>) {
    let config = MachineConfig {
        global,
        batch: 128,
        in_turn: true,
        low_last: true,
        seed: 7,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let mut ids: Vec<MemcgId> = Vec::new();
    for (n, pages) in pages.iter().enumerate() {
        let parent = if n < 4 { MemcgId::ROOT } else { ids[0] };
        let id = machine.create(parent, Millis(0));
        fill(&mut machine, id, *pages);
        ids.push(id);
    }
    (machine, ids)
}

fn fill(machine: &mut Machine, id: MemcgId, pages: u32) {
    machine.lruvec_mut(id).ensure(pages as usize);
    for page in (0..pages).map(FolioId) {
        let ty = FolioType::ALL[usize::from(page.0 % 5 == 4)];
        machine.fault_in(id, page, ty, FaultKind::Readahead, true);
    }
    for now in 1..4 {
        machine.age(id, Millis(now));
        (0..pages).filter(|page| page % 13 == 0).for_each(|page| {
            machine.lruvec_mut(id).young(FolioId(page));
        });
    }
}

#[derive(Clone, Copy, Debug)]
enum ReclaimKind {
    Proactive,
    Once(ScanReason),
    OlderThan,
}

fn begin(kind: ReclaimKind, target: MemcgId, nr: u64, now: u64) -> Ongoing {
    let request = ReclaimRequest {
        reason: ScanReason::Proactive,
        nr: Pages(nr),
        swappiness: None,
        now: Millis(now),
    };
    match kind {
        ReclaimKind::Proactive => Ongoing::proactive(target, request),
        ReclaimKind::Once(reason) => Ongoing::once(target, ReclaimRequest { reason, ..request }),
        ReclaimKind::OlderThan => Ongoing::own_by_age(target, Pages(nr), Millis(now)),
    }
}

fn reclaim_kinds() -> impl Strategy<Value = ReclaimKind> {
    prop_oneof![
        Just(ReclaimKind::Proactive),
        Just(ReclaimKind::Once(ScanReason::Direct)),
        Just(ReclaimKind::Once(ScanReason::Background)),
        Just(ReclaimKind::OlderThan),
    ]
}

fn globals() -> impl Strategy<Value = GlobalReclaim> {
    prop_oneof![
        Just(GlobalReclaim::MemcgLru),
        Just(GlobalReclaim::HeatLevel),
        Just(GlobalReclaim::Iterator)
    ]
}

/// Returns the visible state of a machine as text: the word of each page, and each tenant's
/// position in the memcg LRU, usage and events.
fn visible_state(machine: &Machine, ids: &[MemcgId]) -> Vec<alloc::string::String> {
    let state_of = |id: &MemcgId| {
        let lruvec = machine.lruvec(*id);
        let words = (0..lruvec.folios().len()).map(|page| {
            let id = FolioId(u32::try_from(page).expect("few"));
            lruvec.folios().get(id)
        });
        alloc::format!(
            "{:?} {:?} {:?} {:?}",
            words.collect::<Vec<_>>(),
            machine.memcg_lru().slot_of(*id),
            machine.tree().get(*id).usage(),
            machine.memory_events_local(*id),
        )
    };
    ids.iter().map(state_of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
    /// A reclaim of any kind takes the same pages, in the same batches, wherever it pauses.
    #[test]
    fn pauses_do_not_change_a_reclaim(
        global in globals(),
        pages in prop::collection::vec(0..PAGES, 1..TENANTS),
        rounds in prop::collection::vec(
            (reclaim_kinds(), 0..TENANTS, 1..3000u64, prop::collection::vec(any::<bool>(), 0..60)),
            1..5,
        ),
        slots in prop_oneof![Just(u64::MAX), 0..2000u64],
    ) {
        let [(mut whole, ids), (mut sliced, _)] = [(); 2].map(|()| machine(global, &pages));
        for (now, (kind, target, nr, pauses)) in (10..).zip(rounds) {
            let target = ids.get(target).copied().unwrap_or(MemcgId::ROOT);
            let mut unpaused = RecordsBatches::new(&[], slots);
            let mut expected = begin(kind, target, nr, now);
            while !whole.resume(&mut expected, Millis(now), &mut unpaused) {}
            let mut paused = RecordsBatches::new(&pauses, slots);
            let mut other = begin(kind, target, nr, now);
            while !sliced.resume(&mut other, Millis(now), &mut paused) {
                // Once swap is full, anon pages stay in generations that have ended; the check does
                // not allow that.
                if slots == u64::MAX {
                    sliced.check_invariants();
                }
            }
            prop_assert_eq!(&unpaused.batches, &paused.batches);
            prop_assert_eq!(expected.reclaimed(), other.reclaimed());
            for (one, other) in visible_state(&whole, &ids).iter().zip(visible_state(&sliced, &ids)) {
                prop_assert_eq!(one, &other);
            }
        }
    }
}

/// A change between two slices.
#[derive(Clone, Debug)]
enum Op {
    Create,
    /// Removes a tenant with all its pages, as a host does.
    Remove(usize),
    Min(usize, u64),
    Fill(usize, u32),
    Begin(ReclaimKind, usize, u64),
    Resume(usize),
    Drop(usize),
}

fn ops() -> impl Strategy<Value = Op> {
    let tenant = 0..TENANTS;
    prop_oneof![
        1 => Just(Op::Create),
        1 => tenant.clone().prop_map(Op::Remove),
        2 => (tenant.clone(), 0..u64::from(PAGES)).prop_map(|(tenant, min)| Op::Min(tenant, min)),
        2 => (tenant.clone(), 0..PAGES).prop_map(|(tenant, pages)| Op::Fill(tenant, pages)),
        3 => (reclaim_kinds(), tenant.clone(), 1..2000u64).prop_map(|(kind, tenant, nr)| Op::Begin(kind, tenant, nr)),
        12 => tenant.clone().prop_map(Op::Resume),
        1 => tenant.prop_map(Op::Drop),
    ]
}

/// A machine, from which some tenants have been removed, and its unfinished reclaims.
struct World {
    machine: Machine,
    /// The tenants; `None` for removed ones.
    ids: Vec<Option<MemcgId>>,
    ongoing: Vec<Ongoing>,
    now: u64,
}

impl World {
    fn id(&self, tenant: usize) -> Option<MemcgId> {
        self.ids.get(tenant).copied().flatten()
    }

    fn remove(&mut self, tenant: usize) {
        let Some(id) = self.id(tenant).filter(|_| tenant > 0) else {
            return;
        };
        let pages = self.machine.lruvec(id).folios().len();
        self.machine.unmap_range(id, FolioId(0), pages);
        self.machine.offline(id);
        self.ids[tenant] = None;
        // The host does the same, because the next tenant may get the same id.
        self.ongoing.retain(|ongoing| ongoing.target() != id);
    }

    /// Runs one slice, and checks that memcgs below their effective min keep all their pages.
    fn resume(&mut self, at: usize) -> Result<(), TestCaseError> {
        let Some(at) = at.checked_rem(self.ongoing.len()) else {
            return Ok(());
        };
        let target = self.ongoing[at].target();
        let mut protected = Vec::new();
        // The protection of the first memcg is distributed to its children.
        for id in self.ids.iter().skip(1).flatten().copied() {
            if id != target && self.machine.is_below(id, target) {
                self.machine.tree.calculate_path(target, id);
                if self.machine.tree.below_min(target, id) {
                    protected.push((id, self.machine.lruvec(id).resident()));
                }
            }
        }
        let mut memory = RecordsBatches::new(&[true; 1000], u64::MAX);
        let is_over = {
            let World {
                machine,
                ongoing,
                now,
                ..
            } = self;
            machine.resume(&mut ongoing[at], Millis(*now), &mut memory)
        };
        prop_assert!(
            is_over || memory.batches.len() <= 1,
            "it bails out after a batch"
        );
        for (id, before) in protected {
            prop_assert_eq!(self.machine.lruvec(id).resident(), before, "below min");
        }
        if is_over {
            self.ongoing.swap_remove(at);
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        self.now += 1;
        match *op {
            Op::Create => {
                let created = self.machine.create(MemcgId::ROOT, Millis(self.now));
                fill(&mut self.machine, created, PAGES);
                let free = (1..self.ids.len()).find(|at| self.ids[*at].is_none());
                match free {
                    Some(at) => self.ids[at] = Some(created),
                    None => self.ids.push(Some(created)),
                }
            }
            Op::Remove(tenant) => self.remove(tenant),
            Op::Min(tenant, min) => {
                if let Some(id) = self.id(tenant) {
                    let min = Pages(min);
                    let limits = MemcgLimits {
                        min,
                        ..MemcgLimits::default()
                    };
                    self.machine.set_limits(id, limits);
                }
            }
            Op::Fill(tenant, pages) => {
                if let Some(id) = self.id(tenant) {
                    let nr_pages = self.machine.lruvec(id).folios().len();
                    for page in (0..pages.min(u32::try_from(nr_pages).expect("few"))).map(FolioId) {
                        if !self.machine.lruvec(id).folios().get(page).is_present() {
                            let kind = FaultKind::Refault;
                            self.machine.fault_in(id, page, FolioType::Anon, kind, true);
                        }
                    }
                }
            }
            Op::Begin(kind, tenant, nr) => {
                let target = self.id(tenant).unwrap_or(MemcgId::ROOT);
                self.ongoing.push(begin(kind, target, nr, self.now));
            }
            Op::Resume(at) => self.resume(at)?,
            Op::Drop(at) => {
                if let Some(at) = at.checked_rem(self.ongoing.len()) {
                    self.ongoing.swap_remove(at);
                }
            }
        }
        self.machine.check_invariants();
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    /// Several reclaims run at the same time, while tenants are created, removed, grow, and are
    /// protected: no page is lost, and memory.min protects.
    #[test]
    fn everything_may_change_between_slices(
        global in globals(),
        pages in prop::collection::vec(0..PAGES, 5..6),
        ops in prop::collection::vec(ops(), 1..80),
    ) {
        let (machine, ids) = machine(global, &pages);
        let ids = ids.into_iter().map(Some).collect();
        let mut world = World { machine, ids, ongoing: Vec::new(), now: 10 };
        for op in &ops {
            world.apply(op)?;
        }
        // Each reclaim ends.
        for _ in 0..100_000 {
            if world.ongoing.is_empty() {
                return Ok(());
            }
            world.now += 1;
            world.resume(0)?;
        }
        prop_assert!(false, "a reclaim has no end");
    }
}

/// A tenant with a swap limit counts its events once a pass, with or without pauses.
#[test]
fn events_are_counted_once_a_pass() {
    let counts = [&[][..], &[true; 100][..]].map(|pauses| {
        let (mut machine, ids) = machine(GlobalReclaim::MemcgLru, &[600]);
        let limits = MemcgLimits {
            swap_max: Limit::of(Pages(100)),
            ..MemcgLimits::default()
        };
        machine.set_limits(ids[0], limits);
        let mut memory = RecordsBatches::new(pauses, u64::MAX);
        let mut ongoing = begin(ReclaimKind::Proactive, ids[0], 500, 10);
        while !machine.resume(&mut ongoing, Millis(10), &mut memory) {}
        let events = machine.memory_events_local(ids[0]);
        (events.get(MemcgEvent::SwapMax), memory.batches.len())
    });
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0].0 > 0 && counts[0].1 > 3, "{counts:?}");
}
