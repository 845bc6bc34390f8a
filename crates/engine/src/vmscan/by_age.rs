//! Reclaim by age from one lruvec: evicts pages that have been idle for long enough, whether memory
//! is short or not.
//!
//! Invariants: no page is offered twice in one reclaim; no more pages are evicted than requested.

use super::{Batch, Memory, ScanControl, Shrunk};
use crate::lru_gen::ByAgeCursor;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::Swappiness;

/// How far a reclaim by age has come in one memcg.
#[derive(Clone, Copy, Debug)]
pub struct ByAgeVisit {
    /// Number of pages that may still be isolated: at the start, all resident pages.
    pub turns: u64,
    /// The position in the lruvec's lists from which the reclaim continues.
    pub place: ByAgeCursor,
}

/// Evicts pages of `lruvec` that are in none of the two youngest generations (`lru_gen/by_age.rs`)
/// and that `memory` finds old enough.
///
/// The oldest generation comes first. The reclaim ends when it has evicted as many pages as `sc`
/// says, when no page remains, or when a whole batch could not be evicted for a reason other than
/// the pages' own state. It does nothing under the classic policy, which knows no ages. A page that
/// is put back may come to a generation that is offered later, but no more pages are isolated than
/// were resident. When `memory` wants a pause, the reclaim bails out. The caller uncharges the
/// evicted pages, and keeps `visit` for the next slice.
pub fn shrink_by_age<M: Memory>(
    (memcg, lruvec): (MemcgId, &mut Lruvec),
    sc: &ScanControl,
    visit: &mut ByAgeVisit,
    memory: &mut M,
) -> Shrunk {
    let (mut total, mut sc) = (Shrunk::default(), *sc);
    let mut batch = Batch::with_room(0);
    while total.reclaimed < sc.nr_to_reclaim && visit.turns > 0 {
        let left = sc.nr_to_reclaim.less(total.reclaimed).0.min(visit.turns);
        let nr = usize::try_from(left).map_or(sc.batch, |left| left.min(sc.batch));
        batch.pages.clear();
        let how_many = (nr, &mut visit.place);
        let done = lruvec.isolate_by_age(sc.swappiness, how_many, &mut batch.pages);
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
            // File pages need no swap.
            sc.swappiness = Swappiness::FILE_ONLY;
        } else if shrunk.kept.busy > 0 && shrunk.kept.busy == batch.pages.len() as u64 {
            // Only busy pages end the visit. Shared or locked pages say nothing about the next
            // ones: a shared program text must not keep the heap behind it in memory.
            break;
        }
        if visit.turns > 0 && memory.wants_pause() {
            total.bailed_out = true;
            break;
        }
    }
    total
}
