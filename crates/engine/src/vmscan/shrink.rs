//! Reclaim by need from one lruvec.
//! spec: lru-gen.md 6.1, 6.4.
//!
//! Invariant: after memory has reported that there is no swap, no anon page is isolated any more.

use super::classic::shrink_classic;
use super::{Batch, Memory, ScanControl, Share, Shrunk};
use crate::lru_gen::{IsolateBudget, MIN_LRU_BATCH};
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::{Pages, Swappiness};

/// Evicts pages of `lruvec`, which is that of `memcg`, as `sc` says: until the scan target is met
/// or nothing more can be evicted. If aging is needed first, it ages and ends. The caller uncharges
/// what was reclaimed. When `memory` wants a pause, it bails out; to continue, the caller sets
/// `sc.before`. (Passes over classic lists are not resumed.)
pub fn shrink_lruvec<M: Memory>(
    memcg: MemcgId,
    lruvec: &mut Lruvec,
    sc: &ScanControl,
    memory: &mut M,
) -> Shrunk {
    if lruvec.classic().is_some() {
        return shrink_classic(memcg, lruvec, sc, memory);
    }
    let (mut total, mut sc) = (Shrunk::default(), *sc);
    // What the whole pass did; `total` is what this slice does.
    let mut all = sc.before.unwrap_or_default();
    let mut batch = Batch::with_room(sc.next_batch(all.reclaimed));
    loop {
        if sc.below_min {
            total.aged = true;
            break;
        }
        let who = (sc.online, sc.protection);
        let lru = lruvec.lru_gen();
        let target = lru.nr_to_scan_on(sc.node, sc.swappiness, sc.priority, who);
        if target.must_age {
            total.aged = age((memcg, lruvec), &sc, memory);
            break;
        }
        let scan = match sc.share {
            Share::Of(part) => part.0.min(target.open),
            Share::AtMost(part) => part.0.min(target.scan),
            Share::Whole | Share::BySize => target.scan,
        };
        if scan == 0 {
            break;
        }
        let most = most(sc.share, scan.saturating_sub(sc.progress(&all)));
        let budget = IsolateBudget::of(sc.next_batch(all.reclaimed).min(most)).on(sc.node);
        let done = evict_folios((memcg, lruvec), &sc, budget, (memory, &mut batch));
        total.add(done);
        all.add(done);
        if done.no_swap {
            sc.swappiness = Swappiness::FILE_ONLY;
        }
        let enough = (sc.root || sc.is_exact()) && all.reclaimed >= sc.nr_to_reclaim;
        if done.scanned + done.unevictable == 0 || sc.progress(&all) >= scan || enough {
            break;
        }
        if memory.wants_pause() {
            total.bailed_out = true;
            break;
        }
    }
    total
}

/// Returns the most pages of a batch when `scan` pages are still to scan. The scan target limits a
/// batch, not only the request, so that one visit does not take everything from the first memcg.
fn most(share: Share, scan: u64) -> usize {
    let scan = usize::try_from(scan).unwrap_or(usize::MAX);
    match share {
        Share::Whole => usize::MAX,
        // At least as many pages as the kernel takes.
        Share::BySize | Share::AtMost(_) => scan.max(MIN_LRU_BATCH),
        Share::Of(_) => scan.max(1),
    }
}

/// Walks the memcg's pages and opens a new generation. Does neither if another caller ages; returns
/// whether it opened one.
fn age<M: Memory>(
    (memcg, lruvec): (MemcgId, &mut Lruvec),
    sc: &ScanControl,
    memory: &mut M,
) -> bool {
    let seq = lruvec.lru_gen().max_seq();
    if !lruvec.begin_walk(seq) {
        return false;
    }
    memory.walk(memcg, lruvec);
    lruvec.inc_max_seq(seq, sc.swappiness, sc.now)
}

/// Isolates one batch, pages it out and finishes its pages.
fn evict_folios<M: Memory>(
    (memcg, lruvec): (MemcgId, &mut Lruvec),
    sc: &ScanControl,
    budget: IsolateBudget,
    (memory, batch): (&mut M, &mut Batch),
) -> Shrunk {
    batch.pages.clear();
    let done = lruvec.isolate(sc.reason, sc.swappiness, budget, &mut batch.pages);
    let shrunk = batch.page_out((memcg, lruvec), sc, memory);
    Shrunk {
        scanned: (done.scanned as u64).saturating_sub(shrunk.unevictable),
        ..shrunk
    }
}

/// Returns the swappiness that reclaim may use when `slots` more pages can be swapped out: file
/// only if there are fewer slots than a batch has pages.
/// spec: lru-gen.md 5.5.
#[must_use]
pub const fn usable_swappiness(set: Swappiness, slots: Pages) -> Swappiness {
    if slots.0 < MIN_LRU_BATCH as u64 {
        Swappiness::FILE_ONLY
    } else {
        set
    }
}
