//! Reclaim by age from one lruvec: evicts pages that have been idle for a given time, although no
//! limit requires it.
//!
//! Invariants: no page is offered twice in one reclaim; no more pages are evicted than requested.

use super::{Batch, Memory, ScanControl, Shrunk};
use crate::lru_gen::ByAgeCursor;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::Swappiness;

/// Progress of a reclaim by age in one memcg.
#[derive(Clone, Copy, Debug)]
pub struct ByAgeVisit {
    /// Number of pages that may still be isolated: at the start, all resident pages.
    pub turns: u64,
    /// The position in the lruvec's lists from which the reclaim continues.
    pub place: ByAgeCursor,
}

/// Evicts pages of `lruvec` that `memory` finds old enough. Pages of the two youngest generations
/// always stay (`lru_gen/by_age.rs`).
///
/// The reclaim begins with the oldest generation. It ends when it has evicted as many pages as `sc`
/// requests, or when no page remains. It also ends when a whole batch could not be evicted for a
/// reason other than the pages' own state. A page that is put back may enter a generation that the
/// reclaim reads later, but no more pages are isolated than were resident. When `memory` wants a
/// pause, the reclaim bails out, and the caller keeps `visit` for the next slice. The caller also
/// uncharges the evicted pages. Has no effect under the classic policy, which has no ages.
pub fn shrink_by_age<M: Memory>(
    (memcg, lruvec): (MemcgId, &mut Lruvec),
    sc: &ScanControl,
    visit: &mut ByAgeVisit,
    memory: &mut M,
) -> Shrunk {
    let (mut total, mut sc) = (Shrunk::default(), *sc);
    let mut batch = Batch::with_capacity(0);
    while total.reclaimed < sc.nr_to_reclaim && visit.turns > 0 {
        let remaining = sc.nr_to_reclaim.less(total.reclaimed).0.min(visit.turns);
        let nr = usize::try_from(remaining).map_or(sc.batch, |remaining| remaining.min(sc.batch));
        batch.pages.clear();
        let limits = (nr, &mut visit.place);
        let done = lruvec.isolate_by_age(sc.swappiness, limits, &mut batch.pages);
        if batch.pages.is_empty() {
            break;
        }
        visit.turns = visit.turns.saturating_sub(batch.pages.len() as u64);
        let shrunk = Shrunk {
            scanned: done.scanned as u64,
            ..batch.page_out((memcg, lruvec), &sc, memory)
        };
        total.add(shrunk);
        if shrunk.no_swap || shrunk.unswapped > 0 {
            // No swap is free for anon pages; file pages need none.
            sc.swappiness = Swappiness::FILE_ONLY;
        } else if shrunk.kept.busy > 0 && shrunk.kept.busy == batch.pages.len() as u64 {
            // Only busy pages end the visit. Shared or locked pages say nothing about the pages
            // after them: program code that several processes map must not keep the heap behind it
            // in memory.
            break;
        }
        if visit.turns > 0 && memory.wants_pause() {
            total.bailed_out = true;
            break;
        }
    }
    total
}
