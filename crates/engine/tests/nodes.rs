//! Tests of reclaim for a single memory node, partly by comparison with a simple model that stores
//! each page's node.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use engine::machine::{Ongoing, ReclaimRequest};
use engine::memcg::MemcgLimits;
use engine::{
    FaultKind, FolioId, FolioType, Lruvec, Machine, MachineConfig, MemcgId, Memory, Millis, NodeId,
    PageOut, Pages, ScanReason,
};
use proptest::prelude::*;

/// Number of tenants; `PAGES`: of page ids of each tenant; `NODES`: of memory nodes.
const TENANTS: usize = 2;
const PAGES: u32 = 600;
const NODES: usize = 3;

/// A memory that evicts every page, and records which pages it evicted.
#[derive(Default)]
struct RecordsEvictions {
    evicted: Vec<(MemcgId, u32)>,
}

impl Memory for RecordsEvictions {
    fn walk(&mut self, _: MemcgId, lruvec: &mut Lruvec) {
        lruvec.walk_accessed();
    }

    fn page_out(&mut self, memcg: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
        self.evicted.extend(batch.iter().map(|id| (memcg, id.0)));
    }
}

/// A page: its tenant, and its id in that tenant.
type Key = (MemcgId, u32);

/// An evicted page: its node, and its generation when the reclaim began.
#[derive(Clone, Copy, Debug)]
struct Evicted {
    page: Key,
    node: usize,
    seq: u64,
}

/// A machine with the configuration of a host, and the model: the node of each page in memory.
struct World {
    machine: Machine,
    tenants: Vec<MemcgId>,
    pages: BTreeMap<Key, usize>,
    /// Pages touched since the last scan.
    touched: BTreeSet<Key>,
    scans: u64,
}

impl World {
    fn new() -> World {
        let mut machine = Machine::new(MachineConfig::of_host(), Millis(0));
        let tenants = (0..TENANTS).map(|_| machine.create(MemcgId::ROOT, Millis(0)));
        let tenants: Vec<MemcgId> = tenants.collect();
        for id in &tenants {
            machine.lruvec_mut(*id).ensure(PAGES as usize);
        }
        World {
            machine,
            tenants,
            pages: BTreeMap::new(),
            touched: BTreeSet::new(),
            scans: 0,
        }
    }

    /// Faults in pages on a node; pages that are in memory move to that node.
    fn put(&mut self, tenant: usize, node: usize, ids: std::ops::Range<u32>) {
        let memcg = self.tenants[tenant];
        for id in ids {
            let kind = FaultKind::FirstTouch;
            let is_new = !self.pages.contains_key(&(memcg, id));
            if is_new {
                let anon = FolioType::Anon;
                self.machine.fault_in(memcg, FolioId(id), anon, kind, true);
            }
            let lruvec = self.machine.lruvec_mut(memcg);
            lruvec.set_node(FolioId(id), NodeId::of_index(node));
            self.pages.insert((memcg, id), node);
        }
    }

    fn touch(&mut self, tenant: usize, ids: std::ops::Range<u32>) {
        let memcg = self.tenants[tenant];
        for id in ids.filter(|id| self.pages.contains_key(&(memcg, *id))) {
            self.touched.insert((memcg, id));
        }
    }

    /// Reports the touched pages as a host's scan does, and opens a generation in each tenant.
    fn scan(&mut self) {
        self.scans += 1;
        for (memcg, id) in std::mem::take(&mut self.touched) {
            let lruvec = self.machine.lruvec_mut(memcg);
            lruvec.accessed_since_scan(FolioId(id));
        }
        for memcg in &self.tenants {
            self.machine.age(*memcg, Millis(self.scans * 1000));
        }
    }

    fn unmap(&mut self, tenant: usize, ids: std::ops::Range<u32>) {
        let memcg = self.tenants[tenant];
        let nr = ids.len();
        self.machine.unmap_range(memcg, FolioId(ids.start), nr);
        for id in ids {
            self.pages.remove(&(memcg, id));
            self.touched.remove(&(memcg, id));
        }
    }

    /// Returns the generation of a page.
    fn seq(&self, (memcg, id): Key) -> u64 {
        let lruvec = self.machine.lruvec(memcg);
        let slot = lruvec.folios().get(FolioId(id)).generation();
        lruvec.lru_gen().seq_of(slot, FolioType::Anon)
    }

    /// Reclaims `nr` pages of a node from all tenants; of all nodes if `None`. Checks that no page
    /// stays that was in an older generation than an evicted page. Returns the evicted pages.
    fn reclaim(&mut self, node: Option<usize>, nr: u64) -> Vec<Evicted> {
        let seqs: BTreeMap<Key, u64> = self
            .pages
            .keys()
            .map(|page| (*page, self.seq(*page)))
            .collect();
        let request = ReclaimRequest::new(
            ScanReason::Proactive,
            Pages(nr),
            Millis(self.scans * 1000 + 500),
        );
        let ongoing = Ongoing::proactive(MemcgId::ROOT, request);
        let mut ongoing = ongoing.on_node(node.map(NodeId::of_index));
        let mut memory = RecordsEvictions::default();
        while !self.machine.resume(&mut ongoing, request.now, &mut memory) {}
        self.machine.check_invariants();
        let evicted = |page: Key| Evicted {
            page,
            node: self.pages.remove(&page).expect("a page that is in memory"),
            seq: seqs[&page],
        };
        let evicted: Vec<Evicted> = memory.evicted.into_iter().map(evicted).collect();
        for memcg in &self.tenants {
            let of_memcg = evicted.iter().filter(|evicted| evicted.page.0 == *memcg);
            let youngest = of_memcg.map(|evicted| evicted.seq).max().unwrap_or(0);
            let mut stays = self
                .pages
                .iter()
                .filter(|(page, on)| page.0 == *memcg && node.is_none_or(|node| node == **on));
            let is_older = stays.find(|(page, _)| seqs[*page] < youngest);
            assert!(
                is_older.is_none(),
                "{is_older:?} stays, and {youngest} left"
            );
        }
        evicted
    }

    /// Checks that the machine has the pages of the model in memory.
    fn check_resident(&self) {
        for memcg in &self.tenants {
            let expected = self.pages.keys().filter(|key| key.0 == *memcg).count();
            let resident = self.machine.lruvec(*memcg).resident();
            assert_eq!(resident, Pages(expected as u64), "{memcg:?}");
        }
    }

    fn on(&self, node: usize) -> usize {
        self.pages.values().filter(|on| **on == node).count()
    }
}

/// Of two nodes the first is full. A reclaim for it evicts its cold pages. Its hot pages and all
/// pages of the other node stay, even colder ones.
#[test]
fn only_cold_pages_of_the_full_node_are_evicted() {
    let mut world = World::new();
    // The oldest memory of both tenants is on node 1.
    world.put(0, 1, 0..200);
    world.put(1, 1, 0..100);
    world.scan();
    world.put(0, 0, 200..400);
    world.put(1, 0, 100..200);
    for _ in 0..4 {
        world.touch(0, 200..300);
        world.scan();
    }
    let evicted = world.reclaim(Some(0), 200);
    assert_eq!(evicted.len(), 200);
    let hot = world.tenants[0];
    for Evicted { page, node, .. } in evicted {
        assert_eq!(node, 0, "{page:?}");
        assert!(page.0 != hot || page.1 >= 300, "{page:?} is hot");
    }
    assert_eq!((world.on(0), world.on(1)), (100, 300));
    world.check_resident();
    // A reclaim for all nodes takes the coldest pages.
    let evicted = world.reclaim(None, 100);
    assert!(
        evicted.iter().all(|evicted| evicted.node == 1),
        "{evicted:?}"
    );
}

/// A reclaim for a node without pages ends without result.
#[test]
fn a_reclaim_of_an_empty_node_ends() {
    let mut world = World::new();
    world.put(0, 0, 0..300);
    for _ in 0..4 {
        world.scan();
    }
    assert!(world.reclaim(Some(2), 50).is_empty());
    // The same holds for a node on which there never was a page.
    assert!(world.reclaim(Some(7), 50).is_empty());
    assert_eq!(world.reclaim(Some(0), 50).len(), 50);
}

/// Protection counts memory on all nodes: a tenant below its min keeps its pages on the full node.
#[test]
fn protected_tenants_keep_their_pages_on_the_full_node() {
    let mut world = World::new();
    world.put(0, 0, 0..200);
    world.put(1, 0, 0..200);
    let limits = MemcgLimits {
        min: Pages(200),
        ..MemcgLimits::default()
    };
    world.machine.set_limits(world.tenants[0], limits);
    for _ in 0..4 {
        world.scan();
    }
    let evicted = world.reclaim(Some(0), 150);
    let other = world.tenants[1];
    assert!(evicted.len() == 150 && evicted.iter().all(|evicted| evicted.page.0 == other));
}

#[derive(Clone, Debug)]
enum Op {
    Put {
        tenant: usize,
        node: usize,
        at: u32,
        len: u32,
    },
    Touch {
        tenant: usize,
        at: u32,
        len: u32,
    },
    Unmap {
        tenant: usize,
        at: u32,
        len: u32,
    },
    Scan,
    Reclaim {
        node: Option<usize>,
        nr: u64,
    },
}

fn ops() -> impl Strategy<Value = Op> {
    let range = || (0..TENANTS, 0..PAGES, 1..200u32);
    prop_oneof![
        4 => (range(), 0..NODES).prop_map(|((tenant, at, len), node)| Op::Put { tenant, node, at, len }),
        2 => range().prop_map(|(tenant, at, len)| Op::Touch { tenant, at, len }),
        1 => range().prop_map(|(tenant, at, len)| Op::Unmap { tenant, at, len }),
        3 => Just(Op::Scan),
        3 => (prop::option::weighted(0.8, 0..NODES), 1..300u64).prop_map(|(node, nr)| Op::Reclaim { node, nr }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_requested_node_loses_pages(ops in prop::collection::vec(ops(), 1..40)) {
        let mut world = World::new();
        for op in ops {
            match op {
                Op::Put { tenant, node, at, len } => world.put(tenant, node, at..(at + len).min(PAGES)),
                Op::Touch { tenant, at, len } => world.touch(tenant, at..(at + len).min(PAGES)),
                Op::Unmap { tenant, at, len } => world.unmap(tenant, at..(at + len).min(PAGES)),
                Op::Scan => world.scan(),
                Op::Reclaim { node, nr } => {
                    let has = node.map_or(world.pages.len(), |node| world.on(node));
                    let others: Vec<usize> = (0..NODES).map(|node| world.on(node)).collect();
                    let evicted = world.reclaim(node, nr);
                    // No page is protected, so all pages of the node can be reclaimed.
                    prop_assert_eq!(evicted.len() as u64, nr.min(has as u64), "of {} on {:?}", has, node);
                    for other in (0..NODES).filter(|other| node.is_some_and(|node| node != *other)) {
                        prop_assert_eq!(world.on(other), others[other], "node {}", other);
                    }
                }
            }
            world.machine.check_invariants();
            world.check_resident();
        }
    }
}
