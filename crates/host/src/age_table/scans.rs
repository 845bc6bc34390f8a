//! Begin and end of a scan.
//!
//! Invariant: after the end of a scan, each record was seen in it, or its owner was skipped, or the
//! record waits for another owner that may map the frame, was skipped, and is now pending.
//!
//! To establish this, the end of a scan reads only two sorts of chunks: those with an unseen record
//! (unless their only owner was skipped), and those with a record that was seen before the scan
//! walked the record's owner. A record holds scan numbers of 16 bits, so all records are renumbered
//! once in 65536 scans.

use super::age_counts::AgeCounts;
use super::age_record::{SCAN_MAX, Size};
use super::head::{EarlyObserver, NEVER};
use super::{AgeTable, NO_OWNER, Owner, pages_of};

impl AgeTable {
    /// Begins a scan. Accesses that the scan finds are recorded as of `now_ms`.
    ///
    /// # Panics
    /// If the scan before has not ended.
    pub fn begin_scan(&mut self, now_ms: u64) {
        assert!(!self.open, "one scan after the other");
        if self.time.is_full() {
            self.renumber();
        }
        self.time.advance(now_ms);
        if self.time.is_crowded() {
            self.merge();
        }
        self.again.begin(self.time.cohort(self.time.now()) + 1);
        self.open = true;
        debug_assert_eq!(self.reader, NO_OWNER);
    }

    /// Records that this scan does not walk an owner, as its process was idle. Its records stay
    /// unchanged, except that walks of other address spaces may observe its frames.
    ///
    /// # Panics
    /// If the owner was removed, or no scan has begun.
    pub fn skip(&mut self, owner: Owner) {
        assert!(self.open, "owners are skipped within a scan");
        self.owners.skip(owner, self.time.now());
        debug_assert!(self.owners.is_skipped(owner.0, self.time.now()));
    }

    /// Records that this scan does not walk an owner although its process may have run. Its records
    /// stay unchanged. But if another address space is found to map one of its frames, that address
    /// space becomes the frame's owner, as the frame may have moved there.
    ///
    /// # Panics
    /// If the owner was removed, or no scan has begun.
    pub fn postpone(&mut self, owner: Owner) {
        self.skip(owner);
        self.owners.postpone(owner, self.time.now());
    }

    /// Ends a scan: drops frames that the scan did not see, unless their owner was skipped.
    ///
    /// # Panics
    ///
    /// If no scan has begun.
    pub fn end_scan(&mut self) {
        assert!(self.open, "a scan ends once");
        let now = self.time.now();
        self.flush_run();
        self.owners.end_readings(now);
        for id in 0..self.frames.ids() {
            let Some(chunk) = self.frames.chunk(id) else {
                continue;
            };
            let unseen = chunk.head.live & !chunk.head.seen_in(now);
            let is_plain = !chunk.head.mixed && !chunk.head.stale;
            let stays = is_plain && self.owners.is_skipped(chunk.head.sole, now);
            let early = chunk.head.early_in(now);
            if unseen != 0 && !stays {
                self.forget(id, unseen);
            }
            if let Some(seer) = early {
                self.find_lost(id, seer);
            }
        }
        self.frames.tidy(now);
        // The age is counted up to the scan before this one: the last time at which the page could
        // have been reclaimed.
        let before = self.time.before_ms();
        for (cohort, pages) in self.again.all() {
            let age = before.saturating_sub(self.time.time_ms(cohort));
            self.reaccessed.add(age, pages);
        }
        let (page_counts, owners) = (&self.page_counts, &mut self.owners);
        owners.end_scan(now, |owner| {
            u16::try_from(owner).is_ok_and(|owner| pages_of(page_counts, owner) == 0)
        });
        self.reader = NO_OWNER;
        self.open = false;
        debug_assert_eq!(self.counted_pages(), self.pages);
    }

    /// Handles records that were seen before the scan walked their owners, which then turned out
    /// not to map the frames. The address spaces that map the frames become pending, and the next
    /// scan makes them the owners. Otherwise frames that moved from one idle tenant to another
    /// would count to the wrong one.
    #[inline(never)]
    fn find_lost(&mut self, id: u32, seer: EarlyObserver) {
        let now = self.time.now();
        let Some(chunk) = self.frames.chunk(id) else {
            return;
        };
        let seen = chunk.head.live & chunk.head.seen_in(now);
        for at in (0..64).filter(|at| seen >> at & 1 == 1) {
            let (owner, word) = (chunk.owner(at), chunk.words[at]);
            let is_missed = self.owners.missed(owner, word.mark());
            chunk.words[at] = word.at_scan_end(is_missed);
            if is_missed && word.is_shared() {
                self.owners.note_lost_early((owner, word.class()), seer);
                let mark = self.owners.mark_before(owner);
                chunk.words[at] = chunk.words[at].seen_by_owner(word.class(), mark);
                chunk.head.stale = true;
            }
        }
    }

    /// Drops unseen records of a chunk if their owner was walked in this scan, or an earlier walk
    /// missed them. Shared records that a skipped owner may map are kept and wait for its walk.
    /// Otherwise an idle process would lose the ages of frames that it has from a parent which has
    /// ended.
    #[inline(never)]
    fn forget(&mut self, id: u32, unseen: u64) {
        let now = self.time.now();
        let Some(chunk) = self.frames.chunk(id) else {
            return;
        };
        assert_eq!(unseen & chunk.head.seen_in(now), 0, "what was seen stays");
        let (mut gone, mut mixed, mut sole) = (0, false, None);
        chunk.head.stale = false;
        for at in (0..64).filter(|at| chunk.head.live >> at & 1 == 1) {
            let owner = chunk.owner(at);
            let word = chunk.words[at];
            let is_missed =
                || !self.owners.is_skipped(owner, now) || self.owners.missed(owner, word.mark());
            let is_unclaimed = unseen >> at & 1 == 1 && is_missed();
            let part = (owner, word.class());
            let is_waiting = is_unclaimed && word.is_shared() && self.owners.is_awaited(part);
            if is_waiting {
                let mark = self.owners.mark_before(owner);
                chunk.words[at] = word.as_waiting().seen_by_owner(word.class(), mark);
                self.owners.note_lost(part, word.is_waiting());
                chunk.head.stale = true;
            }
            if is_unclaimed && !is_waiting {
                gone |= 1 << at;
            } else {
                mixed |= *sole.get_or_insert(owner) != owner;
            }
        }
        // A chunk that now has a single owner may be passed over as a whole at the end of the next
        // scan.
        chunk.head.mixed = mixed;
        chunk.head.sole = sole.unwrap_or(chunk.head.sole);
        self.drop_records(id, gone, |_, _| ());
    }

    /// Merges old scans into cohorts, in the timeline and in all counts.
    fn merge(&mut self) {
        let places = self.time.merge();
        for totals in self.page_counts.iter_mut() {
            totals.follow(&places);
        }
        debug_assert_eq!(self.counted_pages(), self.pages);
    }

    /// Renumbers all records: the numbers of their cohorts become their scan numbers, so that
    /// further scans fit into 16 bits.
    #[cold]
    fn renumber(&mut self) {
        self.merge();
        for id in 0..self.frames.ids() {
            let Some(chunk) = self.frames.chunk(id) else {
                continue;
            };
            chunk.head.scan = NEVER;
            for at in (0..64).filter(|at| chunk.head.live >> at & 1 == 1) {
                let cohort = self.time.cohort(chunk.words[at].last());
                let scan = u32::try_from(cohort).unwrap_or(SCAN_MAX);
                chunk.words[at] = chunk.words[at].with_last(scan);
                debug_assert!(chunk.words[at].size() == Size::One || self.large > 0);
            }
        }
        self.time.renumber();
        self.owners.renumber();
        assert!(!self.time.is_full(), "there are fewer cohorts than scans");
    }

    /// Returns the number of pages of all owners, as the sum of the page counts.
    fn counted_pages(&self) -> u64 {
        self.page_counts.iter().map(AgeCounts::pages).sum()
    }
}
