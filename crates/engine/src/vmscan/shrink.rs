//! Reclaim of a number of pages from one lruvec, by need: for a limit or a request, not by age.
//! spec: lru-gen.md 6.1, 6.4.
//!
//! Invariant: after `memory` has reported that no swap is free, no anon page is isolated any more.

use super::classic::shrink_classic;
use super::{Batch, Memory, ScanControl, Share, Shrunk};
use crate::lru_gen::{IsolateBudget, MIN_LRU_BATCH};
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::{Pages, Swappiness};

/// A visit that must contribute evicts pages of protected tiers, too, once a batch held back more
/// than this number of pages for each page that it isolated.
const HELD_BACK_FOR_EACH: usize = 16;

/// Makes one pass over `lruvec`, the lruvec of `memcg`: evicts pages as `sc` says, until the scan
/// target is met or nothing more can be evicted. If aging is needed first, the pass only ages,
/// unless it must contribute a part of a request (`Share::is_part`). When `memory` wants a pause,
/// the pass bails out; to continue it, the caller sets `sc.before`. (Passes over classic lists do
/// not pause.) The caller uncharges the evicted pages.
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
    // `all` is the result of the whole pass, `total` that of this slice.
    let mut all = sc.before.unwrap_or_default();
    let mut batch = Batch::with_capacity(sc.next_batch(all.reclaimed));
    let is_part = sc.share.is_part() && sc.node.is_none();
    // A visit ages once, before it evicts. A visit that is resumed has evicted.
    let (mut may_age, mut has_aged) = (sc.before.is_none(), all.aged);
    loop {
        if sc.below_min {
            total.aged = true;
            break;
        }
        let state = (sc.online, sc.protection);
        let lru = lruvec.lru_gen();
        let target = lru.nr_to_scan_on(sc.node, sc.swappiness, sc.priority, state);
        if target.must_age && !is_part {
            total.aged = age((memcg, lruvec), &sc, memory);
            break;
        }
        if is_part && may_age && (target.must_age || target.is_stuck) {
            may_age = false;
            has_aged = age((memcg, lruvec), &sc, memory);
            if has_aged {
                continue;
            }
            break;
        }
        may_age = false;
        let scan = match sc.share {
            Share::Of(part) => part.0.min(target.open),
            Share::AtMost(part) => part.0.min(target.scan),
            Share::Whole | Share::BySize => target.scan,
        };
        if scan == 0 {
            break;
        }
        let most = max_batch(sc.share, scan.saturating_sub(sc.progress(&all)));
        let budget = IsolateBudget {
            node: sc.node,
            ignores_tiers: all.ignores_tiers,
            ..IsolateBudget::of(sc.next_batch(all.reclaimed).min(most))
        };
        let mut done = evict_folios((memcg, lruvec), &sc, budget, (memory, &mut batch));
        done.ignores_tiers &= is_part;
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
    // A visit that also reclaimed pages did not age instead.
    total.aged |= has_aged && all.reclaimed == Pages(0);
    total
}

/// Returns the maximum size of a batch when `scan` pages are still to scan. Not only the request
/// limits a batch, but also the scan target, so that one visit does not take everything from the
/// first memcg.
fn max_batch(share: Share, scan: u64) -> usize {
    let scan = usize::try_from(scan).unwrap_or(usize::MAX);
    match share {
        Share::Whole => usize::MAX,
        // At least one batch of the kernel's size.
        Share::BySize | Share::AtMost(_) => scan.max(MIN_LRU_BATCH),
        Share::Of(_) => scan.max(1),
    }
}

/// Walks the memcg's pages and opens a new generation. Does neither if another caller is aging the
/// memcg. Returns whether it opened a generation.
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
        ignores_tiers: done.held_back > HELD_BACK_FOR_EACH * done.isolated,
        ..shrunk
    }
}

/// Returns the swappiness that reclaim uses when `slots` more pages can be swapped out: `wanted`,
/// or file pages only if fewer slots are free than a batch of the kernel's size has pages.
/// spec: lru-gen.md 5.5.
#[must_use]
pub const fn usable_swappiness(wanted: Swappiness, slots: Pages) -> Swappiness {
    if slots.0 < MIN_LRU_BATCH as u64 {
        Swappiness::FILE_ONLY
    } else {
        wanted
    }
}
