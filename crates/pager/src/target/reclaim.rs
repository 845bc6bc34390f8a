//! Making a target smaller: because of a limit, by age, or because it was asked for.
//!
//! Three phases, nothing held in between: isolate (engine), page out (memory), put back or forget.

use super::Target;
use super::aside::Aside;
use super::link::Lost;
use super::page_out::{BATCH, PageId};
use crate::report::{Decision, DryRun};
use crate::store::Temperature;
use engine::{Millis, PageOut, ScanReason};

/// Why pages are to leave, in words for `--dry-run`.
pub(crate) struct Cause<'a> {
    pub(crate) reason: ScanReason,
    pub(crate) words: &'a str,
    /// Records instead of doing.
    pub(crate) dry: Option<&'a mut DryRun>,
}

impl Target {
    /// Puts out up to `want` pages, oldest first, aging as often as it takes to find old ones.
    /// Pages that left.
    pub(crate) fn shrink(
        &mut self,
        want: u64,
        now: Millis,
        cause: &mut Cause<'_>,
    ) -> Result<u64, Lost> {
        // One pass to put everything aside, one to see what came back, two for the generations
        // that are never taken.
        const PASSES: u32 = 4;
        let (mut left, mut passes) = (0, 0);
        if want > 0 && self.lru.wants_watch() {
            self.age(now, Aside::Suspect)?;
        }
        while left < want {
            let nr = usize::try_from(want - left).unwrap_or(BATCH).min(BATCH);
            let ids = self.lru.isolate(cause.reason, nr);
            if ids.is_empty() {
                if passes == PASSES {
                    break;
                }
                passes += 1;
                self.age(now, Aside::Suspect)?;
                continue;
            }
            let gone = self.put_out(&ids, now, Temperature::Warm, cause)?;
            left += gone;
            if gone == 0 {
                passes += 1;
            }
            if passes > PASSES || (gone == 0 && self.counters.full_pages > 0) {
                break;
            }
            self.link.beat();
        }
        Ok(left)
    }

    /// Puts out what was not touched for `age`, at most `most` pages. Pages that left.
    pub(crate) fn shrink_older(
        &mut self,
        (age, most): (Millis, u64),
        now: Millis,
        cause: &mut Cause<'_>,
    ) -> Result<u64, Lost> {
        let mut left = 0;
        loop {
            let nr = usize::try_from(most - left).unwrap_or(BATCH).min(BATCH);
            if nr == 0 {
                return Ok(left);
            }
            let ids = self.lru.isolate_older(age, now, nr);
            if ids.is_empty() {
                return Ok(left);
            }
            left += self.put_out(&ids, now, Temperature::Cold, cause)?;
            self.read_log();
            self.link.beat();
        }
    }

    fn put_out(
        &mut self,
        ids: &[PageId],
        now: Millis,
        hint: Temperature,
        cause: &mut Cause<'_>,
    ) -> Result<u64, Lost> {
        if let Some(dry) = cause.dry.as_deref_mut() {
            self.explain(ids, now, cause.words, dry);
            self.settle_all(ids, PageOut::Referenced, cause.reason);
            return Ok(ids.len() as u64);
        }
        let outcome = match self.page_out(ids, hint) {
            Ok(outcome) => outcome,
            Err(lost) => {
                self.settle_all(ids, PageOut::Busy, cause.reason);
                return Err(lost);
            }
        };
        self.counters.full_pages = outcome.full;
        let mut gone = 0;
        for (&id, what) in ids.iter().zip(outcome.pages) {
            self.lru.settle(id, what, cause.reason);
            gone += u64::from(what == PageOut::Stored);
        }
        self.counters.evicted_pages += gone;
        Ok(gone)
    }

    fn settle_all(&mut self, ids: &[PageId], what: PageOut, reason: ScanReason) {
        for &id in ids {
            self.lru.settle(id, what, reason);
        }
    }

    fn explain(&self, ids: &[PageId], now: Millis, words: &str, dry: &mut DryRun) {
        let Some(&first) = ids.first() else { return };
        dry.push(Decision {
            pid: self.pid.unsigned_abs(),
            start: self.addr_of(first),
            pages: ids.len() as u64,
            age_ms: self.lru.idle_ms(now),
            reason: words.to_owned(),
        });
    }
}
