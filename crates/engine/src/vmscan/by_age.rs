//! Shrinking one lruvec by age: what has been idle for long enough leaves, wanted or not.
//!
//! Invariants: no page is asked for twice in one reclaim; no more than the aim leaves.

use super::{Batch, Memory, ScanControl, Shrunk};
use crate::lru_gen::ByAgePlace;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::Swappiness;

/// How far a reclaim by age has come in one memcg.
#[derive(Clone, Copy, Debug)]
pub struct ByAgeVisit {
    /// Pages that it may still look at: all that are resident when it begins.
    pub turns: u64,
    /// Where it goes on.
    pub place: ByAgePlace,
}

/// Evicts pages of `lruvec` that are in none of the two youngest generations (`lru_gen/by_age.rs`) and that memory finds old enough, the
/// oldest generation first, until the aim of `sc` is reached, none is left, or a whole
/// batch could not go for a reason that is not its pages' own. Nothing under the classic policy, which knows
/// no ages. The caller uncharges, and lends `visit`. What is put back may land in a generation that is old enough, too: each page has one
/// turn. Where memory wants a pause it bails out.
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
            // File pages need none.
            sc.swappiness = Swappiness::FILE_ONLY;
        } else if shrunk.kept.busy > 0 && shrunk.kept.busy == batch.pages.len() as u64 {
            // Shared or locked pages say nothing of the next ones: 50 MiB of node's program, which another node
            // mapped, kept all of its heap in memory.
            break;
        }
        if visit.turns > 0 && memory.wants_pause() {
            total.bailed_out = true;
            break;
        }
    }
    total
}
