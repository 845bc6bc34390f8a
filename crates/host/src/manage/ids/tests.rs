//! Tests that compare the ids with a model, which keeps each page by its address, and that measure
//! their memory.

use std::collections::{BTreeMap, BTreeSet};

use engine::memcg::MemcgLimits;
use engine::{FaultKind, FolioType, Machine, MachineConfig, MemcgId, Millis};
use proptest::prelude::*;

use super::*;
use crate::age_table::AgeTable;

const ONE: MemcgId = MemcgId::FIRST;

/// The ids, the engine, and `names`: the owner and address that each id should stand for.
struct World {
    machine: Machine,
    names: BTreeMap<u32, (Owner, u64)>,
    ids: Ids,
    owners: Vec<Owner>,
    /// Isolated pages, which must keep their ids.
    held: BTreeSet<(Owner, u64)>,
}

/// The parts of a `World` other than its ids.
struct Rest<'a>(
    &'a mut Machine,
    &'a mut BTreeMap<u32, (Owner, u64)>,
    &'a BTreeSet<(Owner, u64)>,
);

impl Pages for Rest<'_> {
    fn forget(&mut self, first: FolioId, pages: u32) {
        self.0.unmap_range(ONE, first, pages as usize);
        for id in first.0..first.0 + pages {
            self.1.remove(&id);
        }
    }

    fn rename(&mut self, from: FolioId, to: FolioId) -> bool {
        let name = self.1.get(&from.0).copied();
        let Some(name) = name.filter(|name| !self.2.contains(name)) else {
            return false;
        };
        let lruvec = self.0.lruvec_mut(ONE);
        lruvec.ensure(lruvec.folios().len().max(to.index() + 1));
        assert!(self.0.rename(ONE, from, to), "{from:?} is a page");
        self.1.remove(&from.0);
        assert_eq!(self.1.insert(to.0, name), None, "{to:?} was free");
        true
    }
}

impl World {
    fn new(owners: usize) -> World {
        let mut age_table = AgeTable::new(0);
        let (config, limits) = (MachineConfig::default(), MemcgLimits::default());
        World {
            machine: Machine::of_one(config, limits, Millis(0)),
            names: BTreeMap::new(),
            ids: Ids::default(),
            owners: (0..owners).filter_map(|_| age_table.add_owner()).collect(),
            held: BTreeSet::new(),
        }
    }

    /// Makes a scan of an owner (its index) that finds these page numbers, in ascending order.
    fn scan(&mut self, owner: usize, pages: impl IntoIterator<Item = u64>) {
        let owner = self.owners[owner];
        let mut stretches: BTreeMap<u64, u64> = BTreeMap::new();
        for page in pages {
            *stretches.entry(page / 64 * STRETCH).or_default() |= 1 << (page % 64);
        }
        self.ids.begin_scan(owner);
        let mut known = Known::default();
        for (start, pages) in stretches {
            self.ids.look_up(owner, start, &mut known);
            for at in bits(pages) {
                let address = start + u64::from(at) * 4096;
                let rest = &mut Rest(&mut self.machine, &mut self.names, &self.held);
                let page = (at, pages.count_ones());
                let id = known
                    .id(at)
                    .or_else(|| self.ids.make((owner, start), page, &mut known, rest));
                let id = id.expect("there is room");
                let place = (owner, address);
                let before = self.names.insert(id.0, place);
                assert!(
                    before.is_none_or(|before| before == place),
                    "one page an id"
                );
                self.machine.lruvec_mut(ONE).ensure(self.ids.len());
                let (ty, kind) = (FolioType::Anon, FaultKind::FirstTouch);
                self.machine.fault_in(ONE, id, ty, kind, true);
                match known.block {
                    Some(first) if first.0 + at == id.0 => {
                        self.ids.note_block(&known, 1 << at);
                    }
                    _ => self.ids.note_single(&known, id),
                }
            }
        }
        let rest = &mut Rest(&mut self.machine, &mut self.names, &self.held);
        self.ids.sweep(owner, rest);
        self.shrink();
    }

    /// Frees the memory of ids that no page uses, as the engine sync does after each scan.
    fn shrink(&mut self) {
        let rest = &mut Rest(&mut self.machine, &mut self.names, &self.held);
        if self.ids.shrink(rest) {
            let len = self.ids.len();
            self.machine.lruvec_mut(ONE).shrink(len);
        }
    }

    /// Asserts that the ids stand for exactly the pages of the model: one set of page numbers per
    /// owner.
    fn check(&self, model: &[BTreeSet<u64>]) {
        let all: usize = model.iter().map(BTreeSet::len).sum();
        assert_eq!(
            self.names.len(),
            all,
            "each page has one id, and nothing else has"
        );
        assert_eq!(self.machine.lruvec(ONE).resident().0, all as u64);
        for (id, place) in &self.names {
            assert_eq!(self.ids.place(FolioId(*id)), Some(*place));
            assert_eq!(self.ids.id_of(place.0, place.1), Some(FolioId(*id)));
        }
        for (owner, pages) in self.owners.iter().zip(model) {
            let whole = self
                .ids
                .pages(*owner, 0..u64::MAX)
                .map(|page| page.0 / 4096);
            assert_eq!(whole.collect::<BTreeSet<u64>>(), *pages);
            if let (Some(first), Some(last)) = (pages.first(), pages.last()) {
                let range = (first + 1) * 4096..last * 4096;
                let some = self.ids.pages(*owner, range).map(|page| page.0 / 4096);
                let want = pages
                    .iter()
                    .copied()
                    .filter(|page| page > first && page < last);
                assert_eq!(some.collect::<BTreeSet<u64>>(), want.collect());
            }
            let ranges: Vec<Range<u64>> = self.ids.ranges(*owner).collect();
            let chunks = pages.iter().map(|page| chunk_of(page * 4096));
            let chunks: BTreeSet<u64> = chunks.collect();
            assert_eq!(ranges, joined(chunks, CHUNK));
            let stretches: BTreeSet<u64> = pages.iter().map(|page| page / 64 * STRETCH).collect();
            let reported = self.ids.stretches(*owner, &(0..u64::MAX));
            assert_eq!(reported, stretches.into_iter().collect::<Vec<_>>());
        }
        self.machine.check_invariants();
    }

    /// Returns the bytes of memory that ids and engine use, divided by `pages`.
    fn cost(&self, pages: usize) -> f64 {
        let bytes = self.ids.memory_bytes() + self.machine.lruvec(ONE).footprint();
        f64::from(u32::try_from(bytes).expect("below 4 GiB"))
            / f64::from(u32::try_from(pages).expect("fewer"))
    }
}

/// Page numbers in the patterns of programs: runs, strides, and scattered pages.
fn shape() -> impl Strategy<Value = BTreeSet<u64>> {
    let some = (0_u64..3000, 1_u64..300, 1_usize..300);
    let strided = some.prop_map(|(first, stride, pages)| {
        let all = (first..).step_by(usize::try_from(stride).unwrap_or(1));
        all.take(pages).collect::<BTreeSet<u64>>()
    });
    let far = prop::collection::btree_set(0_u64..1 << 36, 0..20);
    let all = (prop::collection::vec(strided, 0..4), far);
    all.prop_map(|(strided, far)| strided.into_iter().flatten().chain(far).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_page_has_an_id_and_each_id_a_page(
        scans in prop::collection::vec((0_usize..2, shape(), any::<bool>(), any::<u8>()), 1..12),
    ) {
        let mut world = World::new(2);
        let mut model = [BTreeSet::new(), BTreeSet::new()];
        for (owner, shape, is_thinned, held) in scans {
            let pages: BTreeSet<u64> = match is_thinned {
                // The scan finds the pages of the last scan, without some of them.
                true => {
                    let keep = 1 + usize::from(held % 7);
                    model[owner].iter().copied().step_by(keep).collect()
                }
                false => shape,
            };
            let some = pages.iter().skip(usize::from(held)).step_by(97);
            let of = world.owners[owner];
            world.held = some.map(|page| (of, page * 4096)).collect();
            world.scan(owner, pages.iter().copied());
            model[owner] = pages;
            world.check(&model);
        }
        for owner in world.owners.clone() {
            let rest = &mut Rest(&mut world.machine, &mut world.names, &world.held);
            world.ids.release(owner, rest);
            world.shrink();
        }
        world.check(&[BTreeSet::new(), BTreeSet::new()]);
    }
}

/// Regression: each tenant kept the memory of its ids and engine words for the most pages that it
/// ever had. Many tenants that were large one after the other filled the host's memory.
#[test]
fn memory_of_ids_is_released_when_pages_are_gone() {
    let mut world = World::new(2);
    world.scan(0, 0..200_000);
    world.scan(1, (0..1000).map(|page| 77 * page));
    let full = world.cost(1);
    world.scan(0, (0..200_000).step_by(1000));
    let few = world.cost(1);
    assert!(few < full / 10.0, "{full} bytes, then {few}");
    for owner in world.owners.clone() {
        let rest = &mut Rest(&mut world.machine, &mut world.names, &world.held);
        world.ids.release(owner, rest);
        world.shrink();
    }
    let none = world.cost(1);
    assert!(none < 64_000.0, "{none} bytes for nothing");
    world.check(&[BTreeSet::new(), BTreeSet::new()]);
}

/// Regression: a program with one page in each 2 MiB had 512 ids (2.2 KiB) for each page. Now ids
/// and engine together may take 17 bytes for a page; with 7 bytes of age records that is 24.
#[test]
fn a_page_costs_at_most_17_bytes_at_any_distance_of_neighbours() {
    const PAGES: u64 = 1 << 17;
    for stride in [1, 2, 3, 4, 8, 64, 512, 2048, 100_000] {
        let mut world = World::new(1);
        let pages = (0..PAGES).map(|page| (1 << 22) + page * stride);
        world.scan(0, pages.clone());
        let first = world.cost(1 << 17);
        assert!(first <= 17.0, "stride {stride}: {first}");
        world.scan(0, pages);
        let cost = world.cost(1 << 17);
        println!("stride {stride}: {first:.2}, scanned again {cost:.2} bytes a page");
        assert!(cost <= 17.0, "stride {stride}: {cost}");
    }
}

/// Pages found in random order, over several scans, cost as little as pages found in ascending
/// order.
#[test]
fn pages_found_in_random_order_cost_as_little() {
    let mut world = World::new(1);
    let mut pages = BTreeSet::new();
    // A xorshift with a fixed seed, so the test is the same in every run.
    let mut x = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..8 {
        for _ in 0..1 << 14 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            pages.insert(x >> 30);
        }
        world.scan(0, pages.iter().copied());
        let cost = world.cost(pages.len());
        assert!(cost <= 17.5, "{} pages: {cost}", pages.len());
    }
}

/// Regression: a block or group of ids kept all of its 64 ids when most of its pages were gone.
/// (The engine's table does keep its largest size.)
#[test]
fn remaining_pages_are_packed_into_few_groups() {
    let mut world = World::new(1);
    let all = 1_u64 << 16;
    for stride in [1, 64] {
        world.scan(0, (0..all).map(|page| page * stride));
        let most = world.machine.lruvec(ONE).footprint();
        for keep in [2, 4, 32, 512, 4096] {
            let left = (0..all).step_by(keep).map(|page| page * stride);
            world.scan(0, left);
            let pages = usize::try_from(all).expect("few") / keep;
            let groups = world.ids.groups.used();
            assert!(
                groups <= pages / 24 + pages / 128 + 3,
                "{groups} groups for {pages} pages"
            );
        }
        assert!(world.machine.lruvec(ONE).footprint() <= most);
    }
}

#[test]
fn pages_that_could_not_be_read_keep_their_ids() {
    let mut world = World::new(1);
    let pages: Vec<u64> = (0..100).chain([5000, 6000]).collect();
    world.scan(0, pages.iter().copied());
    let owner = world.owners[0];
    world.ids.begin_scan(owner);
    world.ids.keep(owner, &(50 * 4096..5001 * 4096));
    let rest = &mut Rest(&mut world.machine, &mut world.names, &world.held);
    world.ids.sweep(owner, rest);
    let left: BTreeSet<u64> = (50..100).chain([5000]).collect();
    world.check(&[left]);
}
