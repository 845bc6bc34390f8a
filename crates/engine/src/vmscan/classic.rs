//! Reclaim from a lruvec with the classic lists.
//! spec: classic-lru.md 4, 5.4.
//!
//! Invariant: a pass scans no more of each list than its target, which section 5 names.

use super::{Batch, Memory, SWAP_CLUSTER_MAX, ScanControl, ScanReason, ScanReduction, Shrunk};
use crate::active_inactive::{ActiveInactive, Prepared, ScanInput, scan_targets};
use crate::folio::FolioType;
use crate::lru_gen::DEF_PRIORITY;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::Pages;

/// Makes one pass over the lists of `lruvec`. The targets are those of section 5. Each list in turn
/// is scanned by 32 pages (inactive anon, active anon, inactive file, active file), or by a whole
/// batch if batches are larger than the kernel's.
pub(super) fn shrink_classic<M: Memory>(
    memcg: MemcgId,
    lruvec: &mut Lruvec,
    sc: &ScanControl,
    memory: &mut M,
) -> Shrunk {
    let mut total = Shrunk::default();
    let Some(lru) = lruvec.classic_mut().filter(|_| !sc.below_min) else {
        return total;
    };
    let input = scan_input(lru, sc);
    let prepared = input.prepared;
    let (mut pass, mut batch) = (Pass::new(input), Batch::with_room(0));
    while pass.has_inactive_or_file() {
        for ty in FolioType::ALL {
            if sc.is_exact() && total.reclaimed >= sc.nr_to_reclaim {
                break;
            }
            let most = cluster(sc, total.reclaimed);
            let nr = pass.take(ty, false, most);
            if nr > 0 {
                let done = shrink_inactive((memcg, lruvec), (ty, nr), sc, (memory, &mut batch));
                total.add(done);
                if done.no_swap {
                    pass.leave_anon();
                }
            }
            // The active list comes second: pages that it deactivates join the inactive list behind
            // those that this scan put back.
            let nr = pass.take(ty, true, most);
            if nr > 0 && prepared.may_deactivate[ty.index()] {
                let recency = |id| memory.has_recency(memcg, id);
                total.scanned += lruvec.shrink_active_mapped((ty, nr), &recency);
            }
            total.kept_active |= nr > 0 && !prepared.may_deactivate[ty.index()];
        }
        let enough = total.reclaimed >= sc.nr_to_reclaim;
        if enough && !goes_on(&mut pass, sc, prepared) {
            break;
        }
    }
    if sc.has_swap {
        lruvec.age_anon(&|id| memory.has_recency(memcg, id));
    }
    total
}

fn scan_input(lru: &mut ActiveInactive, sc: &ScanControl) -> ScanInput {
    let alone = |lru: &mut ActiveInactive| Prepared {
        memcg_reclaim: !sc.root,
        ..lru.prepare(sc.priority, sc.force_deactivate)
    };
    ScanInput {
        sizes: lru.sizes(),
        priority: sc.priority,
        swappiness: sc.swappiness,
        swap: sc.has_swap,
        prepared: sc.prepared.unwrap_or_else(|| alone(lru)),
        protection: sc.protection,
        online: sc.online,
    }
}

/// Called when enough is reclaimed: returns whether to scan on, after reducing the rest of the
/// targets.
fn goes_on(pass: &mut Pass, sc: &ScanControl, prepared: Prepared) -> bool {
    let gentle = sc.reason == ScanReason::Direct && sc.priority == DEF_PRIORITY;
    if sc.is_exact() {
        return false;
    }
    if gentle && !prepared.memcg_reclaim {
        // Direct reclaim of the machine takes a little from every memcg first.
        return true;
    }
    let again = sc.reduction == ScanReduction::EachTurn || !pass.adjusted;
    !again || pass.adjust()
}

/// Returns how many pages of one list are scanned before the next list; `got` are reclaimed so far.
fn cluster(sc: &ScanControl, got: Pages) -> u64 {
    if sc.is_exact() {
        sc.next_batch(got) as u64
    } else {
        SWAP_CLUSTER_MAX
    }
}

fn shrink_inactive<M: Memory>(
    (memcg, lruvec): (MemcgId, &mut Lruvec),
    (ty, nr): (FolioType, u64),
    sc: &ScanControl,
    (memory, batch): (&mut M, &mut Batch),
) -> Shrunk {
    batch.pages.clear();
    let recency = |id| memory.has_recency(memcg, id);
    let scanned = lruvec.isolate_inactive_mapped(sc.reason, (ty, nr), &recency, &mut batch.pages);
    let shrunk = Shrunk {
        scanned,
        ..batch.page_out((memcg, lruvec), sc, memory)
    };
    let Pages(reclaimed) = shrunk.reclaimed;
    // Swapping an anon page out is I/O; a clean file page is just dropped.
    let nr_io = if ty == FolioType::Anon { reclaimed } else { 0 };
    if let Some(lru) = lruvec.classic_mut() {
        lru.note_cost(ty, nr_io, scanned.saturating_sub(reclaimed));
    }
    shrunk
}

/// Pages still to scan of each list in one pass.
struct Pass {
    targets: [[u64; 2]; 2],
    left: [[u64; 2]; 2],
    adjusted: bool,
}

impl Pass {
    fn new(input: ScanInput) -> Self {
        let targets = scan_targets(&input);
        Self {
            targets,
            left: targets,
            adjusted: false,
        }
    }

    fn has_inactive_or_file(&self) -> bool {
        self.left[0][0] > 0 || self.left[1][0] > 0 || self.left[1][1] > 0
    }

    /// Takes the next pages, at most `most`, from what remains to be scanned of a list; returns how
    /// many.
    fn take(&mut self, ty: FolioType, active: bool, most: u64) -> u64 {
        let left = &mut self.left[ty.index()][usize::from(active)];
        let nr = (*left).min(most);
        *left -= nr;
        nr
    }

    /// Stops scanning anon lists, because anon pages cannot be evicted.
    const fn leave_anon(&mut self) {
        self.left[FolioType::Anon.index()] = [0, 0];
    }

    /// Called when enough is reclaimed: stops the type with fewer pages still to scan, and reduces
    /// the target of the other type to the percentage of its target that the stopped type has
    /// scanned. Returns false, and changes nothing, if a type has nothing left to scan.
    fn adjust(&mut self) -> bool {
        let rest = self.left.map(|lists| lists[0] + lists[1]);
        if rest.contains(&0) {
            return false;
        }
        let (stop, other) = if rest[0] < rest[1] { (0, 1) } else { (1, 0) };
        let target: u64 = self.targets[stop].iter().sum();
        let percent = rest[stop] * 100 / (target + 1);
        self.left[stop] = [0, 0];
        for list in 0..2 {
            let target = self.targets[other][list];
            let done = target - self.left[other][list];
            let aim = target * (100 - percent) / 100;
            self.left[other][list] = aim.saturating_sub(done);
        }
        self.adjusted = true;
        true
    }
}

#[cfg(test)]
mod tests;
