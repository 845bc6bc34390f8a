//! The numbered tests of lru-gen.md 12 that need a whole lruvec, and regression tests.

use super::*;
use crate::lruvec::{FaultKind, Lruvec, Policy};
use crate::vmscan::ScanReason;
use crate::vmstat::VmEvent;
use crate::word::{Flag, State};

const SWAPPINESS: Swappiness = match Swappiness::new(60) {
    Some(s) => s,
    None => panic!("in range"),
};

fn lruvec(pages: usize) -> Lruvec {
    let mut lruvec = Lruvec::new(Policy::default(), Millis(0));
    lruvec.ensure(pages);
    lruvec
}

fn anon(lruvec: &mut Lruvec, id: u32) {
    lruvec.fault_in(
        FolioId(id),
        FolioType::Anon,
        FaultKind::FirstTouch,
        true,
        true,
    );
}

fn age(lruvec: &mut Lruvec, now: u64) {
    let seq = lruvec.lru_gen().max_seq();
    assert!(lruvec.inc_max_seq(seq, SWAPPINESS, Millis(now)));
    lruvec.check_invariants(SWAPPINESS);
}

fn seq(lruvec: &Lruvec, id: u32) -> u64 {
    let word = lruvec.folios().get(FolioId(id));
    assert_eq!(word.state(), State::Listed);
    lruvec
        .lru_gen()
        .seq_of(word.generation(), word.folio_type())
}

fn isolate(lruvec: &mut Lruvec) -> (Isolated, Vec<FolioId>) {
    let mut isolated = Vec::new();
    let done = lruvec.isolate(
        ScanReason::Background,
        SWAPPINESS,
        IsolateBudget::default(),
        &mut isolated,
    );
    (done, isolated)
}

fn window(lruvec: &Lruvec) -> (u64, [u64; 2]) {
    let lru = lruvec.lru_gen();
    (lru.max_seq(), FolioType::ALL.map(|ty| lru.min_seq(ty)))
}

#[test]
fn test_01_fresh_lruvec() {
    let mut lruvec = lruvec(1);
    assert_eq!(window(&lruvec), (3, [0, 0]));
    assert_eq!(lruvec.lru_gen().nr_gens(FolioType::Anon), 4);
    age(&mut lruvec, 10);
    assert_eq!(window(&lruvec), (4, [1, 1]));
    assert_eq!(lruvec.lru_gen().birth(4), Millis(10));
}

#[test]
fn test_02_where_a_page_starts() {
    let mut lruvec = lruvec(1);
    for now in 0..4 {
        age(&mut lruvec, now);
    }
    assert_eq!(window(&lruvec), (7, [4, 4]));
    let lru = lruvec.lru_gen();
    let start = |flags: &[Flag]| {
        let word = flags
            .iter()
            .fold(Word::default().into_state(State::Listed), |w, &f| {
                w.with(f, true)
            });
        lru.start_seq(word, Insertion::Normal)
    };
    assert_eq!(start(&[Flag::Active]), 6, "anon fault");
    assert_eq!(
        start(&[Flag::Active, Flag::Workingset]),
        7,
        "with workingset"
    );
    assert_eq!(start(&[Flag::File]), 4, "readahead file");
    assert_eq!(
        start(&[Flag::File, Flag::Workingset]),
        5,
        "workingset file by read"
    );
    assert_eq!(start(&[]), 6, "anon outside a fault, not in the swap cache");
    assert_eq!(start(&[Flag::SwapCache]), 4, "speculative swap readahead");
    assert_eq!(
        start(&[Flag::File, Flag::Reclaim, Flag::Writeback]),
        6,
        "still being written"
    );
}

#[test]
fn test_02_where_faulted_pages_start() {
    let mut lruvec = lruvec(4);
    lruvec.fault_in(
        FolioId(0),
        FolioType::Anon,
        FaultKind::FirstTouch,
        true,
        true,
    );
    lruvec.fault_in(
        FolioId(1),
        FolioType::File,
        FaultKind::FirstTouch,
        true,
        true,
    );
    lruvec.fault_in(
        FolioId(2),
        FolioType::File,
        FaultKind::Readahead,
        true,
        true,
    );
    lruvec.fault_in(
        FolioId(3),
        FolioType::File,
        FaultKind::FirstTouch,
        false,
        true,
    );
    let seqs: Vec<u64> = (0..4).map(|id| seq(&lruvec, id)).collect();
    assert_eq!(seqs, [2, 2, 0, 0]);
}

/// Regression: lru-gen.md 4. Pages that a page fault read ahead started in the oldest generation,
/// as pages that a read call reads ahead do. They must start as the faulting page does, if the
/// mapping has recency; but they do not count as faults.
#[test]
fn pages_that_a_fault_reads_ahead_start_as_the_faulting_page() {
    let mut lruvec = lruvec(4);
    for (id, kind, recency) in [
        (0, FaultKind::FirstTouch, true),
        (1, FaultKind::FaultReadahead, true),
        (2, FaultKind::FaultReadahead, false),
        (3, FaultKind::Readahead, true),
    ] {
        lruvec.fault_in(FolioId(id), FolioType::File, kind, recency, true);
    }
    let seqs: Vec<u64> = (0..4).map(|id| seq(&lruvec, id)).collect();
    assert_eq!(seqs, [2, 2, 0, 0]);
    assert_eq!(lruvec.stat().get(VmEvent::Pgfault), 1);
}

#[test]
fn test_03_two_walks_promote() {
    let mut lruvec = lruvec(1);
    anon(&mut lruvec, 0);
    lruvec.young(FolioId(0));
    let word = lruvec.folios().get(FolioId(0));
    assert!(word.has(Flag::Referenced) && seq(&lruvec, 0) == 2);
    age(&mut lruvec, 1);
    lruvec.young(FolioId(0));
    let word = lruvec.folios().get(FolioId(0));
    assert!(word.has(Flag::Workingset) && !word.has(Flag::Referenced));
    assert_eq!((seq(&lruvec, 0), refs(Profile::P616, word)), (4, 0));
    lruvec.check_invariants(SWAPPINESS);
}

#[test]
fn test_03_accessed_bits_do_the_same() {
    let mut lruvec = lruvec(3);
    anon(&mut lruvec, 0);
    anon(&mut lruvec, 1);
    for _ in 0..2 {
        assert!(lruvec.touch(FolioId(0)) && !lruvec.touch(FolioId(2)));
        assert_eq!(lruvec.walk_accessed().0, 1);
        lruvec.check_invariants(SWAPPINESS);
    }
    assert_eq!((seq(&lruvec, 0), seq(&lruvec, 1)), (3, 2));
    assert_eq!(lruvec.walk_accessed().0, 0, "the bits were taken");
}

/// Regression: a page first touched through a mapping without recency was never promoted, even if
/// processes used it later through other mappings, because the page's own state recorded the first
/// mapping. This is reclaim-control.md 11, test 11, for walks.
#[test]
fn each_walk_takes_recency_from_the_mapping() {
    let mut lruvec = lruvec(1);
    lruvec.fault_in(
        FolioId(0),
        FolioType::File,
        FaultKind::FirstTouch,
        false,
        true,
    );
    for _ in 0..3 {
        lruvec.touch(FolioId(0));
        assert_eq!(lruvec.walk_recent(|_| false).0, 0);
    }
    assert_eq!(seq(&lruvec, 0), 0);
    assert_eq!(lruvec.walk_accessed().0, 1, "this mapping has recency");
    lruvec.touch(FolioId(0));
    lruvec.walk_accessed();
    assert_eq!(seq(&lruvec, 0), 3, "promoted through another mapping");
    lruvec.touch(FolioId(0));
    assert_eq!(
        lruvec.walk_recent(|_| false).0,
        0,
        "a mapping without recency again"
    );
}

#[test]
fn test_07_two_generations_yield_no_pages() {
    let mut lruvec = lruvec(1);
    anon(&mut lruvec, 0);
    let (done, out) = isolate(&mut lruvec);
    assert_eq!((done.scanned, out.len()), (0, 0));
    assert_eq!(
        lruvec.lru_gen().nr_gens(FolioType::Anon),
        2,
        "empty generations were dropped"
    );
    let target = lruvec
        .lru_gen()
        .nr_to_scan(SWAPPINESS, DEF_PRIORITY - 1, (true, None));
    assert!(target.must_age);
    age(&mut lruvec, 1);
    let (done, out) = isolate(&mut lruvec);
    assert_eq!((done.isolated, out), (1, [FolioId(0)].to_vec()));
}

#[test]
fn test_08_dirty_file_pages_move_up() {
    let mut lruvec = lruvec(10);
    for id in (0..10).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::Readahead, true, true);
        lruvec.set_flag(id, Flag::Dirty, true);
    }
    assert_eq!(seq(&lruvec, 0), 0);
    let (done, out) = isolate(&mut lruvec);
    lruvec.check_invariants(SWAPPINESS);
    assert_eq!((done.isolated, out.len()), (0, 0));
    for id in 0..10 {
        assert_eq!(seq(&lruvec, id), 1);
        assert!(lruvec.folios().get(FolioId(id)).has(Flag::Reclaim));
    }
    assert_eq!(lruvec.lru_gen().min_seq(FolioType::File), 1);
    let stat = lruvec.stat();
    let counted = [VmEvent::Pgrefill, VmEvent::PgscanDirect].map(|event| stat.get(event));
    assert_eq!(counted, [10, 0], "they were moved, not isolated");
}

#[test]
fn test_09_only_one_of_two_racers_ages() {
    let mut lruvec = lruvec(1);
    assert!(lruvec.inc_max_seq(3, SWAPPINESS, Millis(5)));
    assert!(!lruvec.inc_max_seq(3, SWAPPINESS, Millis(6)));
    assert_eq!(
        (window(&lruvec).0, lruvec.lru_gen().birth(4)),
        (4, Millis(5))
    );
    assert!(lruvec.begin_walk(4) && !lruvec.begin_walk(4) && !lruvec.begin_walk(3));
}

#[test]
fn test_10_a_negative_count_does_not_reduce_the_sum() {
    assert_eq!(clamped_sum([-5, 7, 0].into_iter()), 7);
    assert_eq!(clamped_sum([-5].into_iter()), 0);
}

#[test]
fn test_14_aging_moves_pages_from_active_to_inactive() {
    let mut lruvec = lruvec(10);
    (0..10).for_each(|id| anon(&mut lruvec, id));
    let totals = |lruvec: &Lruvec| {
        let lru = lruvec.lru_gen();
        (lru.active(FolioType::Anon), lru.inactive(FolioType::Anon))
    };
    assert_eq!(totals(&lruvec), (10, 0));
    age(&mut lruvec, 1);
    let delta = 10;
    assert_eq!(totals(&lruvec), (10 - delta, delta));
}

mod p612;

/// Invariant I8: a protected page is not isolated. Invariant I7: protection loses no page.
#[test]
fn a_protected_tier_is_not_isolated_where_it_was_protected() {
    let mut lruvec = lruvec(600);
    for id in (0..600).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::Descriptor, true, true);
        (0..2).for_each(|_| lruvec.mark_accessed(id));
    }
    // Tier 1 had many refaults, tier 0 none.
    let (lru, _) = lruvec.multi_gen_mut().expect("multi-gen");
    lru.controller = Controller::with_history(FolioType::File, 1, 500, 600);
    let (done, isolated) = isolate(&mut lruvec);
    assert_eq!((done.isolated, isolated.len()), (0, 0));
    assert_eq!(lruvec.resident().0, 600);
    assert_eq!((seq(&lruvec, 0), seq(&lruvec, 599)), (1, 1));
    assert!(
        !lruvec.folios().get(FolioId(0)).has(Flag::Referenced),
        "the references are cleared"
    );
}

/// Regression: lru-gen.md 6.4. Pages that page-out put back counted as activated if they would
/// otherwise have entered the oldest generation. So did pages too young for a reclaim by age, at
/// each reclaim.
#[test]
fn a_page_kept_out_of_the_oldest_generation_is_not_activated() {
    let mut lruvec = lruvec(4);
    for id in (0..4).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::Readahead, true, true);
    }
    let (_, isolated) = isolate(&mut lruvec);
    assert_eq!(isolated.len(), 4);
    let activated = |lruvec: &Lruvec| lruvec.stat().get(VmEvent::Pgactivate);
    lruvec.put_back(isolated[0], false);
    lruvec.put_back(isolated[1], false);
    // A page found accessed for the first time is put back, but not activated.
    lruvec.put_back(isolated[2], true);
    assert_eq!(activated(&lruvec), 0);
    assert_ne!(seq(&lruvec, isolated[0].0), 0);
    // A page found accessed for the second time is activated.
    lruvec.mark_accessed(isolated[3]);
    lruvec.put_back(isolated[3], true);
    assert_eq!(activated(&lruvec), 1);
    lruvec.check_invariants(SWAPPINESS);
}

#[test]
fn rotation_puts_a_written_page_at_the_tail() {
    let mut lruvec = lruvec(3);
    for id in (0..3).map(FolioId) {
        lruvec.fault_in(id, FolioType::File, FaultKind::Readahead, true, true);
    }
    lruvec.rotate_reclaimable(FolioId(2));
    let order: Vec<u32> = lruvec
        .list_order(0, FolioType::File)
        .iter()
        .map(|id| id.0)
        .collect();
    assert_eq!(order, [2, 0, 1]);
    lruvec.check_invariants(SWAPPINESS);
}

#[test]
fn p63_promotes_at_first_sight() {
    let mut lruvec = Lruvec::new(Policy::MultiGen(Profile::P63), Millis(0));
    lruvec.ensure(100);
    (0..100).for_each(|id| anon(&mut lruvec, id));
    assert_eq!(seq(&lruvec, 0), 3, "active goes to the youngest");
    age(&mut lruvec, 1);
    lruvec.young(FolioId(0));
    assert_eq!(seq(&lruvec, 0), 4);
    assert!(!lruvec.folios().get(FolioId(0)).has(Flag::Workingset));
}

/// Regression: periodic aging opened generations for idle processes, too, and moved all of their
/// pages each time.
#[test]
fn an_idle_lruvec_needs_no_aging_until_a_page_is_added_or_accessed() {
    let mut lruvec = lruvec(3);
    assert!(lruvec.lru_gen().is_all_oldest(), "it has no pages");
    (0..2).for_each(|id| anon(&mut lruvec, id));
    assert!(!lruvec.lru_gen().is_all_oldest());
    (0..2).for_each(|now| age(&mut lruvec, now));
    assert!(lruvec.lru_gen().is_all_oldest());
    anon(&mut lruvec, 2);
    assert!(!lruvec.lru_gen().is_all_oldest(), "a page was added");
    (2..4).for_each(|now| age(&mut lruvec, now));
    assert!(lruvec.lru_gen().is_all_oldest());
    // P616 only sets PG_referenced at the first access, and promotes at the second. No generation
    // is opened between them, so the flag stays.
    (0..2).for_each(|_| lruvec.young(FolioId(1)));
    assert!(!lruvec.lru_gen().is_all_oldest(), "a page was accessed");
}

/// `inc_min_seq` takes pages from the tail of a list and adds them at the tail of the next, which
/// reverses their order.
#[test]
fn ending_a_generation_reverses_its_pages_at_the_tail_of_the_next() {
    let mut lruvec = lruvec(6);
    (0..3).for_each(|id| anon(&mut lruvec, id));
    age(&mut lruvec, 1);
    (3..6).for_each(|id| anon(&mut lruvec, id));
    // Pages 0..3 are in generation 2, 3..6 in generation 3; two more generations end generation 2.
    age(&mut lruvec, 2);
    age(&mut lruvec, 3);
    assert_eq!(window(&lruvec).1, [3, 3]);
    let order: Vec<u32> = lruvec
        .list_order(3, FolioType::Anon)
        .iter()
        .map(|id| id.0)
        .collect();
    assert_eq!(order, [2, 1, 0, 3, 4, 5]);
}

/// Regression: when an idle page was used again, each scan only set its flag, and the generation
/// that the scan then opened cleared the flag. So hot pages were evicted as the coldest.
#[test]
fn a_reused_page_is_promoted_though_each_scan_opens_a_generation() {
    let mut lruvec = lruvec(2);
    (0..2).for_each(|id| anon(&mut lruvec, id));
    (0..4).for_each(|now| age(&mut lruvec, now));
    assert_eq!(seq(&lruvec, 0), seq(&lruvec, 1), "both are the oldest");
    for now in 4..7 {
        lruvec.accessed_since_scan(FolioId(1));
        age(&mut lruvec, now);
    }
    assert!(seq(&lruvec, 1) > seq(&lruvec, 0) + 1);
    assert_eq!(isolate(&mut lruvec).1, [FolioId(0)]);
}

/// Regression: because each scan opens a generation, a refault five scans after the page's eviction
/// was not recent, however little had been evicted meanwhile.
#[test]
fn a_refault_is_recent_though_scans_opened_generations() {
    for by_scans in [false, true] {
        let mut lruvec = Lruvec::new(Policy::default(), Millis(0));
        if by_scans {
            lruvec.set_aged_by_scans();
        }
        lruvec.ensure(200);
        (0..200).for_each(|id| anon(&mut lruvec, id));
        (0..4).for_each(|now| age(&mut lruvec, now));
        let evicted = isolate(&mut lruvec).1;
        lruvec.evicted_all(&evicted, ScanReason::Background);
        (4..9).for_each(|now| age(&mut lruvec, now));
        let (id, ty) = (evicted[0], FolioType::Anon);
        lruvec.fault_in(id, ty, FaultKind::Refault, true, true);
        let activated = lruvec.stat().get(VmEvent::WorkingsetActivateAnon);
        assert_eq!(activated, u64::from(by_scans), "by scans: {by_scans}");
        let counted = lruvec.lru_gen().controller().refaulted(ty, 0);
        assert_eq!(counted, u64::from(by_scans), "by scans: {by_scans}");
    }
}

/// Regression: each scan counted all idle pages as protected. After an hour without evictions the
/// refault ratio of this type seemed so small that the controller did not evict the other type for
/// a long time.
#[test]
fn scans_without_evictions_do_not_fill_the_controller() {
    let mut lruvec = Lruvec::new(Policy::default(), Millis(0));
    lruvec.set_aged_by_scans();
    lruvec.ensure(200);
    (0..200).for_each(|id| anon(&mut lruvec, id));
    (0..1000).for_each(|now| age(&mut lruvec, now));
    let protected = lruvec.lru_gen().controller().protected(FolioType::Anon, 0);
    assert!((1..=200 * MAX_NR_GENS).contains(&protected), "{protected}");
}
