use super::*;
use crate::folio::FolioId;
use crate::lruvec::FaultKind;
use crate::machine::tests::Simple;
use crate::machine::{MachineConfig, ReclaimRequest};
use crate::memcg::MemcgEvent;
use crate::rstat::shown;
use crate::vmscan::ScanReason;
use crate::vmstat::{VmEvent, VmStat};

/// A machine whose root has two children: a tenant with two children of its own, and another
/// tenant.
struct Tree {
    machine: Machine,
    parent: MemcgId,
    children: [MemcgId; 2],
    other: MemcgId,
}

fn tree(workers: usize) -> Tree {
    let config = MachineConfig {
        workers,
        ..MachineConfig::default()
    };
    let mut machine = Machine::new(config, Millis(0));
    let [parent, other] = [(); 2].map(|()| machine.create(MemcgId::ROOT, Millis(0)));
    let children = [(); 2].map(|()| machine.create(parent, Millis(0)));
    for id in [parent, other, children[0], children[1]] {
        machine.lruvec_mut(id).ensure(1000);
        fill(&mut machine, id, 0..400);
    }
    Tree {
        machine,
        parent,
        children,
        other,
    }
}

fn fill(machine: &mut Machine, id: MemcgId, pages: core::ops::Range<u32>) {
    for page in pages.map(FolioId) {
        machine.fault_in(id, page, FolioType::Anon, FaultKind::FirstTouch, true);
    }
}

fn request(nr: u64, now: u64) -> ReclaimRequest {
    ReclaimRequest::new(ScanReason::Proactive, Pages(nr), Millis(now))
}

/// Returns the counters of `id` and of all memcgs below it, summed directly without rstat.
fn summed(machine: &Machine, id: MemcgId) -> Vec<i64> {
    let mut sum = alloc::vec![0; NR_COUNTED];
    for id in machine.tree().pre_order(id) {
        let lruvec_counters = lruvec_counters(machine.lruvec(id));
        let tenant_counters = tenant_counters(machine.memory_events_local(id));
        let own = lruvec_counters.into_iter().chain(tenant_counters);
        sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    sum
}

fn check(machine: &mut Machine) {
    machine.flush_stats();
    machine.stats.rstat.check_flushed();
    for id in machine.tree().pre_order(MemcgId::ROOT) {
        let (all, own) = (summed(machine, id), machine.lruvec(id).stat().clone());
        let read = MemoryStat::new(&all);
        assert_eq!(machine.memory_stat(id), read, "{id:?}");
        assert_eq!(machine.memory_stat_local(id).events, own, "{id:?}");
        let events = memcg_events(&all);
        assert_eq!(machine.memory_events(id), events, "{id:?}");
    }
}

#[test]
fn a_parent_has_its_own_and_its_childrens() {
    let mut tree = tree(1);
    check(&mut tree.machine);
    for now in 1..40 {
        tree.machine
            .reclaim_subtree(tree.parent, request(20, now), &mut Simple);
        tree.machine.reclaim_root(request(20, now), &mut Simple);
        check(&mut tree.machine);
    }
    let steal = |stat: &VmStat| stat.pgsteal();
    let all = steal(&tree.machine.memory_stat(tree.parent).events);
    let own = steal(&tree.machine.memory_stat_local(tree.parent).events);
    let children = tree
        .children
        .map(|id| steal(&tree.machine.memory_stat(id).events));
    assert!(
        all > 0 && children.iter().all(|&steal| steal > 0),
        "{children:?}"
    );
    assert_eq!(all, own + children.iter().sum::<u64>());
    let root = tree.machine.memory_stat(MemcgId::ROOT);
    let in_place = LruSize::Anon.index();
    let sum = summed(&tree.machine, MemcgId::ROOT)[in_place];
    assert_eq!(root.size(LruSize::Anon), shown(sum));
}

/// A removed tenant's counts stay with its parent; the next tenant with its id begins at zero.
#[test]
fn counts_of_a_removed_tenant_stay_with_its_parent() {
    let mut tree = tree(1);
    let child = tree.children[1];
    tree.machine
        .reclaim_subtree(tree.parent, request(200, 1), &mut Simple);
    tree.machine.tree.event(child, MemcgEvent::High);
    let counts_of = |machine: &mut Machine, id| {
        machine.flush_stats();
        (machine.memory_stat(id).events, machine.memory_events(id))
    };
    let (before, events) = counts_of(&mut tree.machine, tree.parent);
    assert_eq!(events.get(MemcgEvent::High), 1);
    let pages = tree.machine.lruvec(child).folios().len();
    tree.machine.unmap_range(child, FolioId(0), pages);
    tree.machine.offline(child);
    assert!(!tree.machine.tree().exists(child));
    assert_eq!(counts_of(&mut tree.machine, tree.parent), (before, events));
    let next = tree.machine.create(tree.other, Millis(2));
    assert_eq!(next, child, "the id is given out again");
    let (fresh, events) = counts_of(&mut tree.machine, next);
    assert_eq!((fresh, events), (VmStat::default(), MemcgEvents::default()));
    fill_more(&mut tree.machine, next);
    assert_eq!(
        counts_of(&mut tree.machine, next).0.get(VmEvent::Pgfault),
        10
    );
    let other = counts_of(&mut tree.machine, tree.other).0;
    assert_eq!(other.get(VmEvent::Pgfault), 410);
}

fn fill_more(machine: &mut Machine, id: MemcgId) {
    machine.lruvec_mut(id).ensure(10);
    fill(machine, id, 0..10);
}

/// rstat.md 9, tests 10 and 11, in a machine: a reader sees a few changes only after the periodic
/// flush, many changes at once.
#[test]
fn small_changes_wait_for_the_periodic_flush() {
    let mut tree = tree(1);
    let faults = |machine: &mut Machine, id| machine.memory_stat(id).events.get(VmEvent::Pgfault);
    tree.machine.flush_stats();
    assert_eq!(faults(&mut tree.machine, tree.other), 400);
    fill(&mut tree.machine, tree.other, 400..405);
    assert_eq!(
        faults(&mut tree.machine, tree.other),
        400,
        "too few for a flush"
    );
    assert!(!tree.machine.flush_stats_if_due(Millis(1999)));
    assert_eq!(faults(&mut tree.machine, tree.other), 400);
    assert!(tree.machine.flush_stats_if_due(Millis(2000)));
    assert_eq!(faults(&mut tree.machine, tree.other), 405);
    fill(&mut tree.machine, tree.other, 405..600);
    assert_eq!(faults(&mut tree.machine, tree.other), 600, "many");
    let flushes = tree.machine.stats_flushes();
    (0..10).for_each(|_| assert_eq!(faults(&mut tree.machine, tree.other), 600));
    assert_eq!(tree.machine.stats_flushes(), flushes, "nothing changed");
}

/// Several workers change one tenant in turn: each keeps its own changes, and their sum is right.
#[test]
fn workers_have_deltas_of_their_own() {
    let mut tree = tree(3);
    for worker in [1, 2, 1, 4] {
        tree.machine.set_worker(worker);
        tree.machine
            .reclaim_subtree(tree.parent, request(30, 1), &mut Simple);
    }
    let all = summed(&tree.machine, tree.parent)[VmEvent::PgstealProactive as usize];
    assert!(all >= 120);
    check(&mut tree.machine);
    let group = tree.machine.stats.group(tree.children[0]);
    let by_summing = tree
        .machine
        .stats
        .rstat
        .local_by_summing(group, VmEvent::Pgfault as usize);
    assert_eq!(by_summing, 400);
}
