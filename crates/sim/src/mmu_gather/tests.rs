//! The numbered tests of mmu-gather.md 10.

use super::*;

const ANON: FrameKind = FrameKind::Anon;

fn folios(orders: &[u32]) -> Frames {
    let mut frames = Frames::default();
    for order in orders {
        frames.add_folio(1 << order, ANON, Some(0));
    }
    frames
}

fn gather(frames: &Frames, adds: impl IntoIterator<Item = u64>) -> MmuGather {
    let mut tlb = MmuGather::default();
    for frame in adds {
        assert!(!tlb.add(frames, frame));
        tlb.check_invariants(frames);
    }
    tlb
}

fn lens(tlb: &MmuGather) -> Vec<(u64, u64)> {
    tlb.ranges().map(|range| (range.start, range.end)).collect()
}

#[test]
fn test_01_one_folio_one_range() {
    let frames = folios(&[3]);
    let tlb = gather(&frames, 0..8);
    assert_eq!((lens(&tlb), tlb.range_limit()), ([(0, 8)].to_vec(), None));
}

#[test]
fn test_02_a_range_stays_in_its_folio() {
    let frames = folios(&[3, 3]);
    assert_eq!(lens(&gather(&frames, 0..16)), [(0, 8), (8, 16)]);
}

#[test]
fn test_03_gaps_and_descent() {
    let frames = folios(&[3]);
    let tlb = gather(&frames, (0..4).chain(5..8));
    assert_eq!(
        (lens(&tlb), tlb.range_limit()),
        ([(0, 4), (5, 8)].to_vec(), None)
    );
    assert_eq!(gather(&frames, (0..8).rev()).ranges().count(), 8);
}

#[test]
fn test_04_the_same_page_twice() {
    let mut frames = folios(&[1]);
    frames.folio_mut(0).refcount.set(4);
    frames.set_mapcount(0, 2);
    let mut tlb = gather(&frames, [0, 0]);
    assert_eq!(lens(&tlb), [(0, 1), (0, 1)]);
    tlb.flush(&mut frames, |_| {});
    assert_eq!((frames.folio(0).refcount.get(), frames.mapcount(0)), (2, 0));
}

#[test]
fn test_05_a_full_bundle_is_followed_by_the_next_batch() {
    let frames = folios(&[0; 8]);
    let tlb = gather(&frames, 0..8);
    assert_eq!((tlb.fill(), tlb.ranges().count()), ((0, 2), 8));
}

#[test]
fn test_06_a_folio_across_the_full_point() {
    let frames = folios(&[0, 0, 0, 0, 0, 0, 0, 1]);
    let tlb = gather(&frames, 0..9);
    assert_eq!(lens(&tlb)[7..], [(7, 8), (8, 9)]);
    assert_eq!(tlb.fill(), (1, 2));
}

#[test]
fn test_07_no_next_batch() {
    let mut frames = folios(&[0; 8]);
    let mut tlb = MmuGather::with_batch_limit(0);
    let full: Vec<bool> = (0..8).map(|frame| tlb.add(&frames, frame)).collect();
    assert_eq!(
        full,
        [false, false, false, false, false, false, false, true]
    );
    tlb.flush(&mut frames, |_| {});
    assert_eq!(
        (tlb.fill(), tlb.range_limit(), tlb.ranges().count()),
        ((0, 1), None, 0)
    );
    assert_eq!(frames.stats().freed, 8);
}

#[test]
fn test_08_rmap_flush_closes_the_range() {
    let mut frames = folios(&[1]);
    let mut tlb = gather(&frames, [0]);
    tlb.flush_rmaps(&mut frames);
    assert_eq!(frames.mapcount(0), 0);
    tlb.add(&frames, 1);
    assert_eq!(lens(&tlb), [(0, 1), (1, 2)]);
    tlb.flush(&mut frames, |_| {});
    assert_eq!((frames.mapcount(1), frames.stats().mapcount_ops), (0, 2));
}

#[test]
fn test_09_deferred_split() {
    let mut frames = folios(&[4]);
    gather(&frames, 0..16).flush(&mut frames, |_| {});
    assert_eq!(
        (frames.stats().deferred_splits, frames.stats().freed),
        (0, 1)
    );

    let mut frames = folios(&[4]);
    let mut tlb = gather(&frames, 0..8);
    tlb.flush_rmaps(&mut frames);
    assert!(frames.folio(0).deferred_split);
    (8..16).for_each(|frame| assert!(!tlb.add(&frames, frame)));
    tlb.flush(&mut frames, |_| {});
    assert_eq!(frames.stats().deferred_splits, 1);
    assert!(!frames.folio(0).deferred_split);
}

#[test]
fn test_10_references() {
    for (held, freed) in [(16, 1), (17, 0)] {
        let mut frames = folios(&[4]);
        frames.folio_mut(0).refcount.set(held);
        gather(&frames, 0..16).flush(&mut frames, |_| {});
        assert_eq!(
            (frames.folio(0).refcount.get(), frames.stats().freed),
            (held - 16, freed)
        );
        assert_eq!(frames.stats().refcount_ops, 1, "I7");
    }
}

/// Returns one range for each of the first `nr` frames.
fn single_pages(frames: &Frames, nr: u64) -> Vec<Entry> {
    let entry = |start| Entry {
        start,
        nr: 1,
        folio: frames.find(start).folio,
    };
    (0..nr).map(entry).collect()
}

#[test]
fn test_11_lock_batches() {
    let mut frames = folios(&[0; 1000]);
    let ranges = single_pages(&frames, 1000);
    frames.free_ranges(&ranges);
    let stats = frames.stats();
    assert_eq!((stats.freed, stats.uncharges), (1000, 1));
    assert!(
        stats.lru_lock_longest <= 32 && stats.lru_locks >= 1000 / 32,
        "{stats:?}"
    );
}

/// Releases a batch of 1,030 ranges, which pages of 64 KiB can have; each chunk is uncharged
/// separately. Batches of a page of 4 KiB are never divided into chunks.
#[test]
fn test_12_chunks() {
    let (mut frames, mut chunks) = (folios(&[0; 1030]), Vec::new());
    let batch = single_pages(&frames, 1030);
    frames.free_in_chunks(&batch, &mut |n| chunks.push(n));
    assert_eq!(chunks, [512, 512, 6]);
    assert_eq!((frames.stats().freed, frames.stats().uncharges), (1030, 3));

    let (mut frames, mut chunks) = (folios(&[0; 1030]), Vec::new());
    gather(&frames, 0..1030).flush(&mut frames, |n| chunks.push(n));
    assert_eq!(chunks, [8, 255, 255, 255, 255, 2], "bundle and batches");
}

#[test]
fn test_14_device_folio() {
    let mut frames = Frames::default();
    frames.add_folio(4, FrameKind::Device, None);
    frames.folio_mut(0).refcount.set(5);
    gather(&frames, 0..4).flush(&mut frames, |_| {});
    assert_eq!(
        (frames.folio(0).refcount.get(), frames.stats().freed),
        (1, 0)
    );
}

#[test]
#[should_panic(expected = "before its TLB flush")]
fn test_16_dirty_file_pages_need_the_tlb_flush_first() {
    let mut frames = Frames::default();
    frames.add_folio(1, FrameKind::DirtyFile, Some(0));
    let mut tlb = gather(&frames, [0]);
    tlb.flush_rmaps(&mut frames);
}

/// Returns the state that must be the same with ranges and page by page: everything except the
/// costs.
fn outcome(frames: &Frames) -> (Vec<FolioInfo>, counters::MapCounts, [i64; 2], [u64; 3]) {
    let stats = frames.stats();
    let done = [stats.freed, stats.freed_pages, stats.munlocked];
    (
        frames.folios.clone(),
        frames.mapcount.clone(),
        stats.mapped,
        done,
    )
}

/// Test 15, and I10: random folios, unmapped in runs of random order, with flushes in between.
#[test]
fn test_15_same_as_page_by_page() {
    let mut x = 0x0bad_cafeu32;
    let mut random = |n: u32| {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x % n
    };
    for round in 0..200 {
        let mut frames = Frames::default();
        for _ in 0..40 {
            let kind = [ANON, ANON, FrameKind::File, FrameKind::DirtyFile];
            let kind = kind[random(4) as usize];
            let lruvec = Some(random(3)).filter(|&n| n > 0);
            let first = frames.add_folio(1 << random(5), kind, lruvec);
            frames.folio_mut(first).mlocked = random(10) == 0;
            frames.folio_mut(first).swap_cache = random(4) == 0;
            if random(5) == 0 {
                // Another process also maps a page of this folio.
                let folio = frames.folio_mut(first);
                let other = first + u64::from(random(folio.nr));
                let held = folio.refcount.get();
                folio.refcount.set(held + 1);
                frames.set_mapcount(other, 2);
            }
        }
        let total = frames.frames.len() as u64;
        let mut naive = frames.clone();
        let mut tlb = MmuGather::with_batch_limit(random(3) as usize);
        let (mut from, mut added) = (0, 0);
        while from < total {
            let to = (from + u64::from(random(20)) + 1).min(total);
            let run: Vec<u64> = if random(4) == 0 {
                (from..to).rev().collect()
            } else {
                (from..to).collect()
            };
            for frame in run {
                added += 1;
                naive.remove_rmap_page(frame);
                naive.free_page(frame);
                if tlb.add(&frames, frame) || random(30) == 0 {
                    tlb.check_invariants(&frames);
                    let gathered: u64 = tlb.ranges().map(|r| r.end - r.start).sum();
                    assert_eq!(gathered, added, "I1");
                    tlb.flush(&mut frames, |_| {});
                    added = 0;
                } else if random(20) == 0 {
                    tlb.flush_tlb();
                    tlb.flush_rmaps(&mut frames);
                }
            }
            from = to;
        }
        tlb.flush(&mut frames, |_| {});
        assert_eq!(outcome(&frames), outcome(&naive), "round {round}");
        assert!(frames.stats().refcount_ops <= naive.stats().refcount_ops);
    }
}

/// The tests `canary_...` plant one bug each, which `check_invariants` must find.
#[test]
#[should_panic(expected = "I5")]
fn canary_a_range_is_open_that_ended() {
    let frames = folios(&[3]);
    let mut tlb = gather(&frames, 0..8);
    (tlb.next, tlb.limit) = (8, 8);
    tlb.check_invariants(&frames);
}

#[test]
#[should_panic(expected = "I2")]
fn canary_a_range_runs_over_its_folio() {
    let frames = folios(&[3]);
    let tlb = gather(&frames, 0..8);
    tlb.check_invariants(&folios(&[2, 2]));
}

/// Runs added at once produce the same ranges as their pages added one by one. A gather of single
/// pages leaves the same state.
#[test]
fn runs_added_at_once_equal_single_pages() {
    for orders in [&[3u32; 300][..], &[0; 700], &[2, 0, 4, 3, 0, 1]] {
        let mut frames = folios(orders);
        let total = frames.frames.len() as u64;
        let (mut one, mut other) = (MmuGather::default(), MmuGather::default());
        let mut pages = by_page::PageGather::default();
        let mut naive = frames.clone();
        for frame in 0..total {
            assert!(!one.add(&frames, frame) && !pages.add(frame));
        }
        let mut at = 0;
        while at < total {
            // Each folio is added in two parts, so that the second part extends the range of the
            // first.
            let folio = frames.folio(at);
            let (middle, end) = (at + u64::from(folio.nr) / 2, at + u64::from(folio.nr));
            for (start, end) in [(at, middle), (middle, end)] {
                let mut next = start;
                while next < end {
                    let left = u32::try_from(end - next).expect("small");
                    let (added, flush) = other.add_range(frames.find(next), next, left);
                    assert!(added > 0 && !flush);
                    other.check_invariants(&frames);
                    next += u64::from(added);
                }
            }
            at = end;
        }
        assert_eq!(lens(&one), lens(&other));
        other.flush(&mut frames, |_| {});
        pages.flush(&mut naive);
        assert_eq!(outcome(&frames), outcome(&naive));
    }
}
