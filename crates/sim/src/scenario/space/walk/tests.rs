//! Tests of walks of one address space, table by table.

use super::super::PRESENT;
use super::*;
use crate::vma::{Advice, OpenFileId, VmaKind};
use engine::word::Flag;
use engine::{FaultKind, FolioType, Millis, PageOut, Policy, Swappiness};

/// Number of pages of the test's space: four tables, all present. The first three and a half tables
/// are of one VMA, the rest is of a VMA without recency.
const PAGES: u64 = 4 * 512;
const RANDOM: u64 = PAGES - 256;

fn space() -> (Space, Lruvec) {
    let (mut space, mut lruvec) = (Space::default(), Lruvec::new(Policy::default(), Millis(0)));
    let vma = |start: u64, end: u64, advice| Vma {
        start,
        end,
        kind: VmaKind::Anon,
        advice,
        first: folio(start),
    };
    space.map(vma(0, RANDOM, Advice::Normal));
    space.map(vma(RANDOM, PAGES, Advice::Random));
    lruvec.ensure(space.len());
    for page in 0..PAGES {
        lruvec.fault_in(folio(page), FolioType::Anon, FaultKind::Refault, true, true);
        space.install(page);
    }
    (space, lruvec)
}

fn folio(page: u64) -> FolioId {
    FolioId(u32::try_from(page).expect("small"))
}

/// Walks and opens a generation; returns the counts of this walk.
fn age(space: &mut Space, lruvec: &mut Lruvec, kind: WalkKind) -> WalkCounts {
    let (before, seq) = (space.counts, lruvec.lru_gen().max_seq());
    assert!(lruvec.begin_walk(seq));
    space.walk(lruvec, kind);
    lruvec.inc_max_seq(seq, Swappiness::default(), Millis(seq));
    space.check().expect("no page is hidden");
    let mut since = space.counts;
    since.total -= before.total;
    since.young -= before.young;
    since.found -= before.found;
    since.added -= before.added;
    since.passed_by -= before.passed_by;
    since
}

fn touch(space: &mut Space, pages: Range<u64>) {
    pages.for_each(|page| assert!(space.touch(page)));
}

/// lru-gen.md 5.2: tables with many accessed pages (dense) are walked again, others only if all
/// tables are.
#[test]
fn the_filter_keeps_dense_tables() {
    let (mut space, mut lruvec) = space();
    touch(&mut space, 0..64);
    touch(&mut space, 512..512 + 63);
    let first = age(&mut space, &mut lruvec, WalkKind::Filtered);
    assert_eq!((first.found, first.young, first.total), (2, 127, 1024));
    assert_eq!((first.added, first.passed_by), (1, 0), "one in eight");
    touch(&mut space, 0..64);
    touch(&mut space, 512..512 + 63);
    let second = age(&mut space, &mut lruvec, WalkKind::Filtered);
    assert_eq!((second.found, second.young, second.passed_by), (1, 64, 1));
    let third = age(&mut space, &mut lruvec, WalkKind::Forced);
    assert_eq!((third.found, third.young), (1, 63), "their bits were kept");
    let none = age(&mut space, &mut lruvec, WalkKind::Forced);
    assert_eq!(none.found, 0, "nothing was touched");
}

/// lru-gen.md 7: look-around promotes neighbours, and adds the table to the filter again.
#[test]
fn look_around_finds_neighbours_and_adds_the_table_again() {
    let (mut space, mut lruvec) = space();
    touch(&mut space, 0..1);
    age(&mut space, &mut lruvec, WalkKind::Filtered);
    // No table was dense, so the filter of the next walk is empty.
    touch(&mut space, 600..700);
    let blind = age(&mut space, &mut lruvec, WalkKind::Filtered);
    assert_eq!((blind.found, blind.passed_by), (0, 1));
    let page = folio(650);
    assert_eq!(space.unmap(page), PageOut::Referenced);
    space.look_around(page);
    space.report_neighbours(&mut lruvec, ScanReason::Background);
    // The window is 618..682. All its pages were touched, and eviction had already cleared the bit
    // of one of them.
    assert_eq!(space.counts.around, 63);
    let known = |page: u64| lruvec.folios().get(folio(page)).has(Flag::Referenced);
    assert!(known(618) && known(681) && !known(617) && !known(682));
    assert!(space.bits(617) & ACCESSED != 0, "outside of the window");
    touch(&mut space, 600..601);
    let again = age(&mut space, &mut lruvec, WalkKind::Filtered);
    assert_eq!((again.found, again.young), (1, 36), "what is left of it");
}

/// lru-gen.md 5.1: if the program has not run, nothing is walked and no filter begins.
#[test]
fn a_program_that_has_not_run_is_skipped() {
    let (mut space, mut lruvec) = space();
    touch(&mut space, 0..1);
    age(&mut space, &mut lruvec, WalkKind::Filtered);
    age(&mut space, &mut lruvec, WalkKind::Filtered);
    touch(&mut space, 600..601);
    let open = age(&mut space, &mut lruvec, WalkKind::Filtered);
    assert_eq!((open.found, open.passed_by), (1, 0), "a filter never begun");
}

/// lru-gen.md 5.1: two generations are opened in a row. If the program has run between their walks,
/// the second walk begins a filter, and the next walk skips tables that were not dense.
#[test]
fn a_program_that_ran_between_two_walks_is_walked_twice() {
    for (rested, next) in [(vec![2], (1, 0)), (vec![], (0, 1))] {
        let (mut space, mut lruvec) = space();
        space.set_idle_walks(rested);
        space.switch_to();
        touch(&mut space, 0..1);
        age(&mut space, &mut lruvec, WalkKind::Filtered);
        age(&mut space, &mut lruvec, WalkKind::Filtered);
        space.switch_to();
        touch(&mut space, 600..601);
        let third = age(&mut space, &mut lruvec, WalkKind::Filtered);
        assert_eq!((third.found, third.passed_by), next);
    }
}

#[test]
fn a_vma_without_recency_is_neither_walked_nor_checked() {
    let (mut space, mut lruvec) = space();
    touch(&mut space, RANDOM - 10..RANDOM + 10);
    let walked = age(&mut space, &mut lruvec, WalkKind::Forced);
    assert_eq!((walked.found, walked.young, walked.total), (1, 10, 256));
    assert_eq!(space.unmap(folio(RANDOM)), PageOut::Stored, "not in use");
    touch(&mut space, RANDOM - 10..RANDOM);
    assert_eq!(space.unmap(folio(RANDOM - 1)), PageOut::Referenced);
    space.look_around(folio(RANDOM - 1));
    space.report_neighbours(&mut lruvec, ScanReason::Background);
    assert_eq!(space.counts.around, 9, "not beyond its VMA");
    assert!(space.bits(RANDOM + 1) & ACCESSED != 0);
}

/// The kernel does the look-around at once, so a neighbour that comes later in the same batch is
/// kept without a check.
#[test]
fn a_neighbour_met_later_stays() {
    let (mut space, mut lruvec) = space();
    touch(&mut space, 0..64);
    assert_eq!(space.unmap(folio(3)), PageOut::Referenced);
    space.look_around(folio(3));
    assert!(space.was_found_beside(folio(4)) && !space.was_found_beside(folio(3)));
    space.report_neighbours(&mut lruvec, ScanReason::Direct);
    assert!(!space.was_found_beside(folio(4)));
    assert_eq!(space.unmap(folio(4)), PageOut::Stored, "its bit is gone");
    let known = |page: u64| lruvec.folios().get(folio(page)).has(Flag::Referenced);
    assert!(known(5) && !known(100));
}

/// A Bloom filter that no walk has begun lets every table through. If look-around added an entry to
/// it, the first walk would skip all other tables.
#[test]
fn look_around_before_the_first_walk_does_not_start_the_filter() {
    let (mut space, mut lruvec) = space();
    touch(&mut space, 0..64);
    touch(&mut space, 1000..1001);
    assert_eq!(space.unmap(folio(3)), PageOut::Referenced);
    space.look_around(folio(3));
    space.report_neighbours(&mut lruvec, ScanReason::Background);
    let first = age(&mut space, &mut lruvec, WalkKind::Filtered);
    assert_eq!((first.passed_by, first.young), (0, 1));
}

/// Regression: reclaim-control.md 6.1: unmapping a file lost the accesses of its pages. Accesses
/// through a mapping without recency (a stream) must not be reported.
#[test]
fn unmapping_reports_file_accesses_with_recency() {
    for (advice, kind, reported) in [
        (Advice::Normal, VmaKind::File(OpenFileId(0)), true),
        (Advice::Random, VmaKind::File(OpenFileId(0)), false),
        (Advice::Normal, VmaKind::Anon, false),
    ] {
        let (mut space, mut lruvec) = (Space::default(), Lruvec::new(Policy::default(), Millis(0)));
        let first = folio(0);
        let (start, end) = (0, 20);
        space.map(Vma {
            start,
            end,
            kind,
            advice,
            first,
        });
        lruvec.ensure(space.len());
        for page in 0..20 {
            lruvec.fault_in(
                folio(page),
                FolioType::File,
                FaultKind::Readahead,
                true,
                true,
            );
            space.install(page);
        }
        touch(&mut space, 5..15);
        space.munmap(0, 20, &mut lruvec);
        let known = |page: u64| lruvec.folios().get(folio(page)).has(Flag::Referenced);
        let expect = |page: u64| reported && (5..15).contains(&page);
        assert!(
            (0..20).all(|page| known(page) == expect(page)),
            "{advice:?} {kind:?}"
        );
        assert!((0..20).all(|page| !space.touch(page)), "nothing is mapped");
    }
}

/// Canary: a page whose accessed bit is set, though the bit of its table is clear, must be found.
#[test]
fn canary_a_page_is_hidden() {
    let (mut space, _) = space();
    space.set(77, PRESENT | ACCESSED);
    assert!(space.check().is_err());
    space.touch(78);
    assert!(space.check().is_ok());
}
