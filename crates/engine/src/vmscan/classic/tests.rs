//! Tests of when a pass over classic lists ends after it has reclaimed enough.
//! spec: classic-lru.md 5.4.

use super::*;
use crate::active_inactive::Stage;
use crate::folio::FolioId;
use crate::lru_gen::IsolateBudget;
use crate::lruvec::{FaultKind, Policy};
use crate::units::{Millis, Swappiness};
use crate::vmscan::{PageOut, shrink_lruvec};
use FolioType::{Anon, File};
use alloc::vec::Vec;

struct Simple;

impl Memory for Simple {
    fn walk(&mut self, _: MemcgId, _: &mut Lruvec) {}

    fn page_out(&mut self, _: MemcgId, batch: &[FolioId], outcome: &mut Vec<PageOut>) {
        outcome.extend(batch.iter().map(|_| PageOut::Stored));
    }
}

fn lruvec(anon: u32, file: u32) -> Lruvec {
    let policy = Policy::ActiveInactive(Stage::Detection, Pages(1 << 20));
    let mut lruvec = Lruvec::new(policy, Millis(0));
    lruvec.ensure((anon + file) as usize);
    for id in 0..anon + file {
        let ty = if id < anon { Anon } else { File };
        lruvec.fault_in(FolioId(id), ty, FaultKind::Readahead, true, true);
    }
    lruvec
}

fn control(reason: ScanReason, priority: u32) -> ScanControl {
    ScanControl {
        priority,
        ..ScanControl::new(reason, Pages(32), Swappiness::default(), Millis(0))
    }
}

/// Regression: 32 pages were requested, and 8132 evicted. When 8 of 40 file pages (a fifth) were
/// still to scan, the target of 10,000 anon pages was reduced to four fifths, and never again.
/// (Linux fixed the same about v6.1, where it had caused floods of swap-outs.)
#[test]
fn a_short_list_does_not_prolong_the_scan_of_the_long_one() {
    for (reduction, expected) in [
        (ScanReduction::EachTurn, 32 + 32 + 32),
        (ScanReduction::Once, 32 + 32 + 8068),
    ] {
        let sc = ScanControl {
            reduction,
            ..control(ScanReason::Direct, 0)
        };
        let mut lruvec = lruvec(10_000, 40);
        let shrunk = shrink_lruvec(MemcgId::FIRST, &mut lruvec, &sc, &mut Simple);
        assert_eq!(shrunk.reclaimed, Pages(expected), "{reduction:?}");
    }
}

/// Regression: classic-lru.md 5.4. The active list of a type was scanned before the inactive one.
/// So a page put back on the inactive list was placed after pages that were deactivated in the same
/// turn.
#[test]
fn a_turn_begins_with_inactive_pages() {
    let mut lruvec = lruvec(41, 0);
    for id in (1..41).map(FolioId) {
        (0..2).for_each(|_| lruvec.mark_accessed(id));
    }
    lruvec.touch(FolioId(0));
    let sc = control(ScanReason::Direct, 0);
    shrink_lruvec(MemcgId::FIRST, &mut lruvec, &sc, &mut Simple);
    let lru = lruvec.classic().expect("classic");
    let order = lru.order(lruvec.folios(), Anon, false);
    assert_eq!((order.len(), order[0]), (33, FolioId(0)));
}

/// If the only page is active, the first scan at the last priority only deactivates it. A second
/// scan then isolates it.
#[test]
fn an_only_active_page_can_be_isolated() {
    let mut lruvec = lruvec(1, 0);
    (0..2).for_each(|_| lruvec.mark_accessed(FolioId(0)));
    let mut isolated = Vec::new();
    let budget = IsolateBudget::of(1);
    lruvec.isolate(
        ScanReason::Direct,
        Swappiness::default(),
        budget,
        &mut isolated,
    );
    assert_eq!(isolated, [FolioId(0)]);
}

/// Direct reclaim of the machine at its first priority scans the whole target of every list,
/// however much it has reclaimed. Background reclaim and reclaim of a memcg stop when they have
/// reclaimed enough.
#[test]
fn direct_reclaim_of_the_machine_does_not_stop_at_the_request_at_first() {
    let pages = 100 << DEF_PRIORITY;
    for (reason, root, expected) in [
        (ScanReason::Direct, true, 100),
        (ScanReason::Background, true, 32),
        (ScanReason::Direct, false, 32),
    ] {
        let sc = ScanControl {
            root,
            ..control(reason, DEF_PRIORITY)
        };
        let mut lruvec = lruvec(0, pages);
        let shrunk = shrink_lruvec(MemcgId::FIRST, &mut lruvec, &sc, &mut Simple);
        assert_eq!(
            shrunk.reclaimed,
            Pages(expected),
            "{reason:?}, root: {root}"
        );
    }
}
