//! Shrinking one lruvec. spec: lru-gen.md 6.1, 6.4.

use super::{Memory, PageOut, ScanControl, Shrunk};
use crate::active_inactive::shrink_classic;
use crate::folio::{FolioId, FolioType};
use crate::lru_gen::{IsolateBudget, MIN_LRU_BATCH};
use crate::lruvec::Lruvec;
use crate::units::{Pages, Swappiness};
use crate::word::{Flag, State};
use alloc::vec::Vec;

/// Scans `lruvec` as `sc` says: evicts until the scan target is met, nothing more comes, or aging
/// is due, which it then does. The caller uncharges what was reclaimed.
pub fn shrink_lruvec<M: Memory>(lruvec: &mut Lruvec, sc: &ScanControl, memory: &mut M) -> Shrunk {
    if lruvec.classic().is_some() {
        return shrink_classic(lruvec, sc, memory);
    }
    let mut total = Shrunk::default();
    // Room for a batch at once: grown page by page it would be allocated anew five times a visit.
    let mut batch = Vec::with_capacity(MIN_LRU_BATCH);
    let mut outcome = Vec::with_capacity(MIN_LRU_BATCH);
    loop {
        if sc.below_min {
            total.aged = true;
            break;
        }
        let target = lruvec
            .lru_gen()
            .nr_to_scan(sc.swappiness, sc.priority, sc.online);
        if target.must_age {
            total.aged = age(lruvec, sc, memory);
            break;
        }
        if target.scan == 0 {
            break;
        }
        let done = evict_folios(lruvec, sc, memory, (&mut batch, &mut outcome));
        total.add(done);
        let enough = sc.root && total.reclaimed >= sc.nr_to_reclaim;
        if done.scanned == 0 || total.scanned >= target.scan || enough {
            break;
        }
    }
    total
}

/// One walk and, if nobody else came first, one new generation.
fn age<M: Memory>(lruvec: &mut Lruvec, sc: &ScanControl, memory: &mut M) -> bool {
    let seq = lruvec.lru_gen().max_seq();
    if !lruvec.begin_walk(seq) {
        return false;
    }
    memory.walk(lruvec);
    lruvec.inc_max_seq(seq, sc.swappiness, sc.now)
}

/// The three phases for one batch.
fn evict_folios<M: Memory>(
    lruvec: &mut Lruvec,
    sc: &ScanControl,
    memory: &mut M,
    (batch, outcome): (&mut Vec<FolioId>, &mut Vec<PageOut>),
) -> Shrunk {
    batch.clear();
    outcome.clear();
    let done = lruvec.isolate(sc.reason, sc.swappiness, IsolateBudget::default(), batch);
    lruvec.keep_referenced(batch);
    let unswapped = lruvec.keep_unswappable(batch, sc.most_out);
    memory.page_out(batch, outcome);
    assert_eq!(batch.len(), outcome.len(), "one outcome a page");
    look_around(lruvec, memory, (batch, outcome));
    let mut shrunk = Shrunk {
        scanned: done.scanned as u64,
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
    shrunk
}

/// Lets memory look at the neighbours of pages that turned out to be in use, once all of the batch
/// have been looked at themselves.
fn look_around<M: Memory>(
    lruvec: &mut Lruvec,
    memory: &mut M,
    (batch, outcome): (&[FolioId], &[PageOut]),
) {
    let pairs = batch.iter().zip(outcome);
    let in_use = pairs.filter(|(_, what)| **what == PageOut::Referenced);
    let young: Vec<FolioId> = in_use.map(|(&id, _)| id).collect();
    if !young.is_empty() {
        memory.look_around(lruvec, &young);
    }
}

/// What the third phase did with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It left by our hand; its shadow stays.
    Left,
    /// It is on a list again.
    Stayed,
    /// Its program had removed it; nothing stays.
    Forgotten,
    /// It was unmapped, or even came back, since it was isolated: nothing was done.
    NotIsolated,
}

impl Lruvec {
    /// The reference check of 6.4, as far as the accessed bits know: isolated pages that were touched
    /// since the last walk, through a VMA with recency, are put back and taken out of `batch`.
    pub fn keep_referenced(&mut self, batch: &mut Vec<FolioId>) {
        self.folios().bring_bits_near(batch);
        batch.retain(|&id| {
            let young =
                self.folios().is_accessed(id) && !self.folios().get(id).has(Flag::NoRecency);
            if young {
                self.put_back(id, true);
            }
            !young
        });
    }

    /// memory.swap.max is hard: anon pages of `batch` that would be more than `most_out` pages out are
    /// put back and taken out of it. Returns how many. spec: reclaim-control.md 3.
    pub(crate) fn keep_unswappable(&mut self, batch: &mut Vec<FolioId>, most_out: Pages) -> u64 {
        let (mut room, before) = (most_out.less(self.out(FolioType::Anon)).0, batch.len());
        if room >= before as u64 {
            return 0;
        }
        batch.retain(|&id| {
            let anon = self.folios().get(id).folio_type() == FolioType::Anon;
            let stays = anon && room == 0;
            room -= u64::from(anon && !stays);
            if stays {
                self.put_back(id, false);
            }
            !stays
        });
        (before - batch.len()) as u64
    }

    /// The third phase for one page.
    pub fn settle(&mut self, id: FolioId, what: PageOut, reason: super::ScanReason) -> Settled {
        if self.folios().get(id).state() != State::OffList {
            return Settled::NotIsolated;
        }
        match what {
            PageOut::Stored => {
                self.evicted(id, reason);
                Settled::Left
            }
            PageOut::Referenced | PageOut::Busy => {
                self.put_back(id, what == PageOut::Referenced);
                Settled::Stayed
            }
            PageOut::Gone => {
                self.unmap_range(id, 1);
                Settled::Forgotten
            }
        }
    }
}

/// The swappiness that reclaim may use when `slots` more pages can be swapped out: anon cannot go
/// when there is no room for a batch. spec: lru-gen.md 5.5.
#[must_use]
pub const fn usable_swappiness(set: Swappiness, slots: Pages) -> Swappiness {
    if slots.0 < crate::lru_gen::MIN_LRU_BATCH as u64 {
        Swappiness::FILE_ONLY
    } else {
        set
    }
}
