//! Reclaims in slices compared with the same reclaims without pauses, and with changes between
//! slices.

use super::super::MachineConfig;
use super::*;
use crate::folio::{FolioId, FolioType};
use crate::lruvec::{FaultKind, Lruvec};
use crate::memcg::{MemcgEvent, MemcgLimits};
use crate::units::Limit;
use crate::vmscan::PageOut;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Most tenants, the root included.
const TENANTS: usize = 7;
/// Most pages of one tenant.
const PAGES: u32 = 700;

/// A memory that records its batches; some pages stay, for various reasons.
struct Noting {
    batches: Vec<(MemcgId, Vec<FolioId>)>,
    /// What it returns to each query whether it wants a pause, in order; then false.
    pauses: Vec<bool>,
    slots: u64,
    left: u64,
}

impl Noting {
    fn new(pauses: &[bool], slots: u64) -> Self {
        Self {
            batches: Vec::new(),
            pauses: pauses.iter().rev().copied().collect(),
            slots,
            left: 0,
        }
    }
}

impl Memory for Noting {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn wants_pause(&mut self) -> bool {
        self.pauses.pop().unwrap_or(false)
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        self.batches.push((memcg, batch.to_vec()));
        for id in batch {
            let what = match id.0 % 41 {
                3 => PageOut::Busy,
                5 => PageOut::Referenced,
                7 => PageOut::Gone,
                9 => PageOut::Taken,
                _ if self.left == self.slots => PageOut::NoSwap,
                _ => PageOut::Stored,
            };
            self.left += u64::from(what == PageOut::Stored);
            outcome.push(what);
        }
    }
}

/// Creates tenants with cold pages and some in use; those from the fifth on are below the first
/// one.
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
enum TenantChoice {
    Proactive,
    Once(ScanReason),
    OlderThan,
}

fn begin(way: TenantChoice, target: MemcgId, nr: u64, now: u64) -> Ongoing {
    let request = ReclaimRequest::new(ScanReason::Proactive, Pages(nr), Millis(now));
    match way {
        TenantChoice::Proactive => Ongoing::proactive(target, request),
        TenantChoice::Once(reason) => Ongoing::once(target, ReclaimRequest { reason, ..request }),
        TenantChoice::OlderThan => Ongoing::own_by_age(target, Pages(nr), Millis(now)),
    }
}

fn ways() -> impl Strategy<Value = TenantChoice> {
    prop_oneof![
        Just(TenantChoice::Proactive),
        Just(TenantChoice::Once(ScanReason::Direct)),
        Just(TenantChoice::Once(ScanReason::Background)),
        Just(TenantChoice::OlderThan),
    ]
}

fn globals() -> impl Strategy<Value = GlobalReclaim> {
    prop_oneof![
        Just(GlobalReclaim::MemcgLru),
        Just(GlobalReclaim::HeatLevel),
        Just(GlobalReclaim::Iterator)
    ]
}

/// Returns all that can be seen of a machine: the word of each page, and each tenant's position,
/// usage and events.
fn seen(machine: &Machine, ids: &[MemcgId]) -> Vec<alloc::string::String> {
    let of = |id: &MemcgId| {
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
    ids.iter().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]
    /// Wherever a reclaim of any kind bails out, it takes the same pages, in the same batches.
    #[test]
    fn slices_are_as_one_piece(
        global in globals(),
        pages in prop::collection::vec(0..PAGES, 1..TENANTS),
        rounds in prop::collection::vec(
            (ways(), 0..TENANTS, 1..3000u64, prop::collection::vec(any::<bool>(), 0..60)),
            1..5,
        ),
        slots in prop_oneof![Just(u64::MAX), 0..2000u64],
    ) {
        let [(mut whole, ids), (mut sliced, _)] = [(); 2].map(|()| machine(global, &pages));
        for (now, (way, target, nr, pauses)) in (10..).zip(rounds) {
            let target = ids.get(target).copied().unwrap_or(MemcgId::ROOT);
            let mut never = Noting::new(&[], slots);
            let mut one = begin(way, target, nr, now);
            while !whole.resume(&mut one, Millis(now), &mut never) {}
            let mut often = Noting::new(&pauses, slots);
            let mut other = begin(way, target, nr, now);
            while !sliced.resume(&mut other, Millis(now), &mut often) {
                // Without swap, anon pages stay in generations that have ended, which the check
                // does not allow.
                if slots == u64::MAX {
                    sliced.check_invariants();
                }
            }
            prop_assert_eq!(&never.batches, &often.batches);
            prop_assert_eq!(one.reclaimed(), other.reclaimed());
            for (one, other) in seen(&whole, &ids).iter().zip(seen(&sliced, &ids)) {
                prop_assert_eq!(one, &other);
            }
        }
    }
}

/// A change between two slices.
#[derive(Clone, Debug)]
enum Op {
    Create,
    /// Removes a tenant with all its pages, as when a host's tenant is removed.
    Remove(usize),
    Min(usize, u64),
    Fill(usize, u32),
    Begin(TenantChoice, usize, u64),
    Resume(usize),
    Drop(usize),
}

fn ops() -> impl Strategy<Value = Op> {
    let who = 0..TENANTS;
    prop_oneof![
        1 => Just(Op::Create),
        1 => who.clone().prop_map(Op::Remove),
        2 => (who.clone(), 0..u64::from(PAGES)).prop_map(|(who, min)| Op::Min(who, min)),
        2 => (who.clone(), 0..PAGES).prop_map(|(who, pages)| Op::Fill(who, pages)),
        3 => (ways(), who.clone(), 1..2000u64).prop_map(|(way, who, nr)| Op::Begin(way, who, nr)),
        12 => who.clone().prop_map(Op::Resume),
        1 => who.prop_map(Op::Drop),
    ]
}

/// A machine, of which some tenants have been removed, and its reclaims under way.
struct World {
    machine: Machine,
    /// The tenants; `None` for one that was removed.
    ids: Vec<Option<MemcgId>>,
    under_way: Vec<Ongoing>,
    now: u64,
}

impl World {
    fn id(&self, who: usize) -> Option<MemcgId> {
        self.ids.get(who).copied().flatten()
    }

    fn remove(&mut self, who: usize) {
        let Some(id) = self.id(who).filter(|_| who > 0) else {
            return;
        };
        let pages = self.machine.lruvec(id).folios().len();
        self.machine.unmap_range(id, FolioId(0), pages);
        self.machine.offline(id);
        self.ids[who] = None;
        // As the host does, because its next tenant may have the same id.
        self.under_way.retain(|one| one.target() != id);
    }

    /// Runs one slice; a memcg effectively below its min keeps all its pages.
    fn resume(&mut self, at: usize) -> Result<(), TestCaseError> {
        let Some(at) = at.checked_rem(self.under_way.len()) else {
            return Ok(());
        };
        let target = self.under_way[at].target();
        let mut covered = Vec::new();
        // The protection of the first memcg is distributed to its children.
        for id in self.ids.iter().skip(1).flatten().copied() {
            if id != target && self.machine.is_below(id, target) {
                self.machine.tree.calculate_path(target, id);
                if self.machine.tree.below_min(target, id) {
                    covered.push((id, self.machine.lruvec(id).resident()));
                }
            }
        }
        let mut memory = Noting::new(&[true; 1000], u64::MAX);
        let is_over = {
            let World {
                machine,
                under_way,
                now,
                ..
            } = self;
            machine.resume(&mut under_way[at], Millis(*now), &mut memory)
        };
        prop_assert!(
            is_over || memory.batches.len() <= 1,
            "it bails out after a batch"
        );
        for (id, before) in covered {
            prop_assert_eq!(self.machine.lruvec(id).resident(), before, "below min");
        }
        if is_over {
            self.under_way.swap_remove(at);
        }
        Ok(())
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        self.now += 1;
        match *op {
            Op::Create => {
                let made = self.machine.create(MemcgId::ROOT, Millis(self.now));
                fill(&mut self.machine, made, PAGES);
                let free = (1..self.ids.len()).find(|at| self.ids[*at].is_none());
                match free {
                    Some(at) => self.ids[at] = Some(made),
                    None => self.ids.push(Some(made)),
                }
            }
            Op::Remove(who) => self.remove(who),
            Op::Min(who, min) => {
                if let Some(id) = self.id(who) {
                    let min = Pages(min);
                    let limits = MemcgLimits {
                        min,
                        ..MemcgLimits::default()
                    };
                    self.machine.set_limits(id, limits);
                }
            }
            Op::Fill(who, pages) => {
                if let Some(id) = self.id(who) {
                    let have = self.machine.lruvec(id).folios().len();
                    for page in (0..pages.min(u32::try_from(have).expect("few"))).map(FolioId) {
                        if !self.machine.lruvec(id).folios().get(page).is_present() {
                            let kind = FaultKind::Refault;
                            self.machine.fault_in(id, page, FolioType::Anon, kind, true);
                        }
                    }
                }
            }
            Op::Begin(way, who, nr) => {
                let target = self.id(who).unwrap_or(MemcgId::ROOT);
                self.under_way.push(begin(way, target, nr, self.now));
            }
            Op::Resume(at) => self.resume(at)?,
            Op::Drop(at) => {
                if let Some(at) = at.checked_rem(self.under_way.len()) {
                    self.under_way.swap_remove(at);
                }
            }
        }
        self.machine.check_invariants();
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
    /// Several reclaims at the same time, while tenants come and go, grow, and are protected: no
    /// page is lost, and min protects.
    #[test]
    fn everything_may_change_between_slices(
        global in globals(),
        pages in prop::collection::vec(0..PAGES, 5..6),
        ops in prop::collection::vec(ops(), 1..80),
    ) {
        let (machine, ids) = machine(global, &pages);
        let ids = ids.into_iter().map(Some).collect();
        let mut world = World { machine, ids, under_way: Vec::new(), now: 10 };
        for op in &ops {
            world.apply(op)?;
        }
        // Each reclaim ends.
        for _ in 0..100_000 {
            if world.under_way.is_empty() {
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
        let mut memory = Noting::new(pauses, u64::MAX);
        let mut one = begin(TenantChoice::Proactive, ids[0], 500, 10);
        while !machine.resume(&mut one, Millis(10), &mut memory) {}
        let events = machine.memory_events_local(ids[0]);
        (events.get(MemcgEvent::SwapMax), memory.batches.len())
    });
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0].0 > 0 && counts[0].1 > 3, "{counts:?}");
}
