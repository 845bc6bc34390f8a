//! Reclaim from one lruvec with the classic (active and inactive) lists.
//! spec: classic-lru.md 4, 5.4.
//!
//! Invariant: a pass scans of each list at most the target that section 5 of the spec defines.

use super::{Batch, Memory, SWAP_CLUSTER_MAX, ScanControl, ScanReason, ScanReduction, Shrunk};
use crate::active_inactive::{ActiveInactive, Prepared, ScanInput, scan_targets};
use crate::folio::FolioType;
use crate::lru_gen::DEF_PRIORITY;
use crate::lruvec::Lruvec;
use crate::memcg::MemcgId;
use crate::units::Pages;

/// Makes one pass over the lists of `lruvec`. In each turn it scans 32 pages of each list (inactive
/// anon, active anon, inactive file, active file), or a whole batch if batches are larger than the
/// kernel's. Targets are those of section 5 of the spec.
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
    let (mut pass, mut batch) = (Pass::new(input), Batch::with_capacity(0));
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
                    pass.stop_anon();
                }
            }
            // The active list is second: the pages deactivated here join the inactive list after
            // the pages that the scan above has put back.
            let nr = pass.take(ty, true, most);
            if nr > 0 && prepared.may_deactivate[ty.index()] {
                let recency = |id| memory.has_recency(memcg, id);
                total.scanned += lruvec.shrink_active_mapped((ty, nr), &recency);
            }
            total.kept_active |= nr > 0 && !prepared.may_deactivate[ty.index()];
        }
        let enough = total.reclaimed >= sc.nr_to_reclaim;
        if enough && !continues_scan(&mut pass, sc, prepared) {
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

/// Called when enough is reclaimed: reduces the remaining targets, and returns whether the pass
/// continues to scan.
fn continues_scan(pass: &mut Pass, sc: &ScanControl, prepared: Prepared) -> bool {
    let gentle = sc.reason == ScanReason::Direct && sc.priority == DEF_PRIORITY;
    if sc.is_exact() {
        return false;
    }
    if gentle && !prepared.memcg_reclaim {
        // The first pass of direct reclaim of the machine takes a small part from every memcg.
        return true;
    }
    let again = sc.reduction == ScanReduction::EachTurn || !pass.adjusted;
    !again || pass.adjust()
}

/// Returns how many pages of one list are scanned in one turn, after `reclaimed` pages were
/// reclaimed.
fn cluster(sc: &ScanControl, reclaimed: Pages) -> u64 {
    if sc.is_exact() {
        sc.next_batch(reclaimed) as u64
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
    // Only anon pages cost I/O, for swap; a clean file page is just dropped.
    let nr_io = if ty == FolioType::Anon { reclaimed } else { 0 };
    if let Some(lru) = lruvec.classic_mut() {
        lru.note_cost(ty, nr_io, scanned.saturating_sub(reclaimed));
    }
    shrunk
}

/// The number of pages that one pass must scan of each list: `[anon, file]`, each `[inactive,
/// active]`.
struct Pass {
    targets: [[u64; 2]; 2],
    remaining: [[u64; 2]; 2],
    adjusted: bool,
}

impl Pass {
    fn new(input: ScanInput) -> Self {
        let targets = scan_targets(&input);
        Self {
            targets,
            remaining: targets,
            adjusted: false,
        }
    }

    fn has_inactive_or_file(&self) -> bool {
        self.remaining[0][0] > 0 || self.remaining[1][0] > 0 || self.remaining[1][1] > 0
    }

    /// Subtracts up to `most` pages from what remains to be scanned of a list; returns the number
    /// subtracted.
    fn take(&mut self, ty: FolioType, active: bool, most: u64) -> u64 {
        let remaining = &mut self.remaining[ty.index()][usize::from(active)];
        let nr = (*remaining).min(most);
        *remaining -= nr;
        nr
    }

    /// Stops scanning anon lists, because anon pages cannot be evicted.
    const fn stop_anon(&mut self) {
        self.remaining[FolioType::Anon.index()] = [0, 0];
    }

    /// Called when enough is reclaimed: stops the type with fewer pages still to scan. If the
    /// stopped type has scanned x% of its target, the target of the other type is reduced to x%.
    /// Returns false, and changes nothing, if one type has no pages left to scan.
    fn adjust(&mut self) -> bool {
        let remaining = self.remaining.map(|lists| lists[0] + lists[1]);
        if remaining.contains(&0) {
            return false;
        }
        let (stop, other) = if remaining[0] < remaining[1] {
            (0, 1)
        } else {
            (1, 0)
        };
        let target: u64 = self.targets[stop].iter().sum();
        let percent = remaining[stop] * 100 / (target + 1);
        self.remaining[stop] = [0, 0];
        for list in 0..2 {
            let target = self.targets[other][list];
            let done = target - self.remaining[other][list];
            let new_target = target * (100 - percent) / 100;
            self.remaining[other][list] = new_target.saturating_sub(done);
        }
        self.adjusted = true;
        true
    }
}

#[cfg(test)]
mod tests;
