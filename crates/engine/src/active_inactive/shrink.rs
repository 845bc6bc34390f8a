//! Shrinking the four lists of one lruvec. spec: classic-lru.md 4, 5.4.

use super::{ActiveInactive, ReferenceInput, Referenced, ScanInput, Stage, check_references};
use super::{inactive_is_low, scan_targets};
use crate::folio::{FolioId, FolioTable, FolioType};
use crate::lruvec::Lruvec;
use crate::units::{Millis, Pages, Swappiness};
use crate::vmscan::{Memory, PageOut, SWAP_CLUSTER_MAX, ScanControl, ScanReason, Settled, Shrunk};
use crate::word::{Flag, State, Word};
use alloc::vec::Vec;

/// Counts of one step over one list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// Pages looked at.
    pub(crate) scanned: u64,
    /// Pages that changed lists: deactivated, or activated.
    pub(crate) moved: u64,
    /// Unevictable ones that left their list.
    pub(crate) unevictable: u64,
}

impl ActiveInactive {
    pub(crate) fn is_low(&self, ty: FolioType) -> bool {
        let (inactive, active) = (
            self.sizes.inactive[ty.index()],
            self.sizes.active[ty.index()],
        );
        if self.stage == Stage::Protection && ty == FolioType::Anon {
            return inactive < active;
        }
        inactive_is_low(inactive, active)
    }

    /// By type: whether this pass may take from the active list. Decided once a pass.
    pub(crate) fn may_deactivate(&mut self) -> [bool; 2] {
        let seen = core::mem::replace(&mut self.activations_seen, self.activations);
        FolioType::ALL.map(|ty| seen[ty.index()] != self.activations[ty.index()] || self.is_low(ty))
    }

    /// Up to `nr` pages from the tail of the active list: executable file pages in use stay, all
    /// others are deactivated, referenced or not.
    pub(crate) fn shrink_active(
        &mut self,
        folios: &mut FolioTable,
        ty: FolioType,
        nr: u64,
    ) -> Step {
        // What comes back to the head is not met twice.
        let nr = nr.min(self.sizes.active[ty.index()]);
        let mut step = Step::default();
        while step.scanned < nr {
            let Some((id, word)) = self.pop(folios, ty.index() * 2 + 1) else {
                break;
            };
            step.scanned += 1;
            if word.has(Flag::Unevictable) {
                folios.set(id, word.into_state(State::OffList));
                step.unevictable += 1;
                continue;
            }
            let young = !word.has(Flag::NoRecency) && folios.take_accessed(id);
            if young && word.has(Flag::Exec) && ty == FolioType::File {
                self.add(folios, id, word);
                self.advance_clock(1);
            } else {
                let word = word.with(Flag::Active, false).with(Flag::Workingset, true);
                self.add(folios, id, word);
                step.moved += 1;
            }
        }
        step
    }

    /// Up to `nr` pages from the tail of the inactive list: each is checked, and what may go is
    /// isolated into `out`.
    pub(crate) fn isolate_inactive(
        &mut self,
        folios: &mut FolioTable,
        ty: FolioType,
        nr: u64,
        out: &mut Vec<FolioId>,
    ) -> Step {
        let nr = nr.min(self.sizes.inactive[ty.index()]);
        let mut step = Step::default();
        while step.scanned < nr {
            let Some((id, word)) = self.pop(folios, ty.index() * 2) else {
                break;
            };
            step.scanned += 1;
            if word.has(Flag::Unevictable) {
                folios.set(id, word.into_state(State::OffList));
                step.unevictable += 1;
                continue;
            }
            let young = !word.has(Flag::NoRecency) && folios.take_accessed(id);
            let (verdict, word) = self.check_word(word, young);
            let dirty_file = ty == FolioType::File && word.has(Flag::Dirty);
            let stays = word.has(Flag::Writeback) || dirty_file;
            match verdict {
                Referenced::Reclaim | Referenced::ReclaimClean if !stays => {
                    folios.set(id, word.into_state(State::OffList));
                    out.push(id);
                }
                Referenced::Activate => {
                    self.add(folios, id, word.with(Flag::Active, true));
                    self.advance_clock(1);
                    step.moved += 1;
                }
                _ => self.add(folios, id, word),
            }
        }
        step
    }

    fn check_word(&self, word: Word, young: bool) -> (Referenced, Word) {
        let input = ReferenceInput {
            ty: word.folio_type(),
            pte_references: u32::from(young),
            referenced: word.has(Flag::Referenced),
            executable: word.has(Flag::Exec),
            locked: false,
        };
        let (verdict, referenced) = check_references(self.stage, input);
        (verdict, word.with(Flag::Referenced, referenced))
    }

    /// An isolated page that could not go comes back: active when it was accessed meanwhile and
    /// has been before, else inactive.
    pub(crate) fn put_back(
        &mut self,
        folios: &mut FolioTable,
        id: FolioId,
        referenced: bool,
    ) -> bool {
        let word = folios.get(id);
        let young = folios.take_accessed(id) || referenced;
        let at_once = self.stage == Stage::Base && word.folio_type() == FolioType::Anon;
        let activate = young && (word.has(Flag::Referenced) || at_once);
        let word = word
            .with(Flag::Referenced, young)
            .with(Flag::Active, activate);
        self.add(folios, id, word.into_state(State::Listed));
        self.advance_clock(u64::from(activate));
        activate
    }

    /// Targets of one pass, and which active lists it may shrink.
    pub(crate) fn pass_targets(
        &mut self,
        swappiness: Swappiness,
        priority: u32,
    ) -> ([[u64; 2]; 2], [bool; 2]) {
        let sc = ScanControl {
            priority,
            ..ScanControl::new(ScanReason::Direct, Pages(0), swappiness, Millis(0))
        };
        let input = self.scan_input(&sc);
        (scan_targets(&input), input.may_deactivate)
    }

    fn scan_input(&mut self, sc: &ScanControl) -> ScanInput {
        ScanInput {
            sizes: self.sizes,
            priority: sc.priority,
            swappiness: sc.swappiness,
            swap: sc.swappiness != Swappiness::FILE_ONLY,
            memcg_reclaim: !sc.root,
            costs: self.costs,
            may_deactivate: self.may_deactivate().map(|may| may || sc.force_deactivate),
            file_is_tiny: false,
            protection: None,
            online: sc.online,
        }
    }
}

/// One pass over the lists of `lruvec`: targets by section 5, 32 pages of each list in turn.
pub(crate) fn shrink_classic<M: Memory>(
    lruvec: &mut Lruvec,
    sc: &ScanControl,
    memory: &mut M,
) -> Shrunk {
    let mut total = Shrunk::default();
    let Some(lru) = lruvec.classic_mut().filter(|_| !sc.below_min) else {
        return total;
    };
    let input = lru.scan_input(sc);
    let kept =
        |ty: FolioType| !input.may_deactivate[ty.index()] && input.sizes.active[ty.index()] > 0;
    total.kept_active = FolioType::ALL.into_iter().any(kept);
    let mut pass = Pass::new(input);
    let mut batch = (Vec::new(), Vec::new());
    while pass.has_inactive_or_file() {
        for ty in FolioType::ALL {
            let nr = pass.take(ty, true);
            if nr > 0 && input.may_deactivate[ty.index()] {
                total.scanned += lruvec.shrink_active(ty, nr);
            }
            let nr = pass.take(ty, false);
            if nr > 0 {
                total.add(shrink_inactive(lruvec, (ty, nr), sc, memory, &mut batch));
            }
        }
        if total.reclaimed >= sc.nr_to_reclaim && !pass.adjusted && !pass.adjust() {
            break;
        }
    }
    lruvec.age_anon(sc.swappiness);
    total
}

fn shrink_inactive<M: Memory>(
    lruvec: &mut Lruvec,
    (ty, nr): (FolioType, u64),
    sc: &ScanControl,
    memory: &mut M,
    (batch, outcome): &mut (Vec<FolioId>, Vec<PageOut>),
) -> Shrunk {
    batch.clear();
    outcome.clear();
    let scanned = lruvec.isolate_inactive(sc.reason, ty, nr, batch);
    let unswapped = lruvec.keep_unswappable(batch, sc.most_out);
    memory.page_out(batch, outcome);
    assert_eq!(batch.len(), outcome.len(), "one outcome a page");
    let mut shrunk = Shrunk {
        scanned,
        unswapped,
        ..Shrunk::default()
    };
    for (&id, &what) in batch.iter().zip(&*outcome) {
        match lruvec.settle(id, what, sc.reason) {
            Settled::Left => shrunk.reclaimed.0 += 1,
            Settled::Forgotten => shrunk.forgotten.0 += 1,
            Settled::Stayed | Settled::NotIsolated => {}
        }
    }
    let Pages(reclaimed) = shrunk.reclaimed;
    // Swapping an anon page out is I/O; a clean file page is just dropped.
    let nr_io = if ty == FolioType::Anon { reclaimed } else { 0 };
    if let Some(lru) = lruvec.classic_mut() {
        lru.note_cost(ty, nr_io, scanned.saturating_sub(reclaimed));
    }
    shrunk
}

/// What is left to scan of each list in one pass.
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

    fn take(&mut self, ty: FolioType, active: bool) -> u64 {
        let left = &mut self.left[ty.index()][usize::from(active)];
        let nr = (*left).min(SWAP_CLUSTER_MAX);
        *left -= nr;
        nr
    }

    /// The aim is reached: stop the type with less left, and let the other go on only to the
    /// percentage that this one was scanned by. False when a type has nothing left anyway.
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
