//! The begin and the end of a round.
//!
//! Invariant: after the end, each record was seen in this round, belongs to an owner that was skipped, or
//! waits for somebody else who was skipped and may map it, and is due. Only chunks with a record that was
//! not seen are read for this, and of those none whose one owner was skipped; and chunks of which somebody
//! saw a record before its owner was read. Rounds have 16 bits in a record: each 65536 rounds all records are renumbered once.

use super::head::{NEVER, Seer};
use super::word::{ROUND_MAX, Size};
use super::{Books, CLASSES, NOBODY, Owner};

impl Books {
    /// A round begins; what is accessed in it was accessed at `now_ms`.
    ///
    /// # Panics
    ///
    /// If the round before has not ended.
    pub fn begin_round(&mut self, now_ms: u64) {
        assert!(!self.open, "one round after the other");
        if self.time.is_full() {
            self.renumber();
        }
        self.time.advance(now_ms);
        if self.time.is_crowded() {
            self.merge();
        }
        self.again.begin(self.time.cohort(self.time.now()) + 1);
        self.open = true;
        debug_assert_eq!(self.reader, NOBODY);
    }

    /// This owner is not read in this round (it slept): its frames stay as they are, but for what
    /// others see of them.
    ///
    /// # Panics
    ///
    /// If it was removed, or outside of a round.
    pub fn skip(&mut self, owner: Owner) {
        assert!(self.open, "owners are skipped within a round");
        self.owners.skip(owner, self.time.now());
        debug_assert!(self.owners.is_skipped(owner.0, self.time.now()));
    }

    /// This owner is not read in this round, though it may have done anything: its frames stay as they are, but whoever sees
    /// one takes it over, for it may be theirs by now.
    ///
    /// # Panics
    ///
    /// If it was removed, or outside of a round.
    pub fn postpone(&mut self, owner: Owner) {
        self.skip(owner);
        self.owners.postpone(owner, self.time.now());
    }

    /// The round ends: frames that nobody saw and that no skipped owner owns are forgotten.
    ///
    /// # Panics
    ///
    /// If no round has begun.
    pub fn end_round(&mut self) {
        assert!(self.open, "a round ends once");
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
                self.look_for_lost(id, seer);
            }
        }
        self.frames.tidy(now);
        // By the age that they had when they could have been put out: at the round before. (The story: what each look found in use had been "1s untouched".)
        let before = self.time.before_ms();
        for (cohort, pages) in self.again.all() {
            let age = before.saturating_sub(self.time.time_ms(cohort));
            self.reaccessed.add(age, pages);
        }
        let (tallies, owners) = (&self.tallies, &mut self.owners);
        owners.end_round(now, |owner| {
            tallies[owner * CLASSES..][..CLASSES]
                .iter()
                .all(|tally| tally.pages() == 0)
        });
        self.reader = NOBODY;
        self.open = false;
        debug_assert_eq!(self.counted_pages(), self.pages);
    }

    /// Records that somebody saw before their owners were read, of owners that turned out not to map them: who saw them is due, and
    /// takes them over. (The story: frames that had left one tenant and come to another were told to be the first one's for
    /// as long as both slept.)
    #[inline(never)]
    fn look_for_lost(&mut self, id: u32, seer: Seer) {
        let now = self.time.now();
        let Some(chunk) = self.frames.chunk(id) else {
            return;
        };
        let seen = chunk.head.live & chunk.head.seen_in(now);
        for at in (0..64).filter(|at| seen >> at & 1 == 1) {
            let (owner, word) = (chunk.owner(at), chunk.words[at]);
            let is_missed = self.owners.missed(owner, word.mark());
            chunk.words[at] = word.settled(is_missed);
            if is_missed && word.is_shared() {
                self.owners.lose_early((owner, word.class()), seer);
                let mark = self.owners.mark_before(owner);
                chunk.words[at] = chunk.words[at].seen_by_owner(word.class(), mark);
                chunk.head.stale = true;
            }
        }
    }

    /// Of the unseen records of a chunk, those go whose owners were not skipped or had not seen them before, but for what others have seen who
    /// were. (The story: what a program had from its parent was forgotten for as long as it slept when its parent ended.)
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
            let is_left = unseen >> at & 1 == 1 && is_missed();
            let part = (owner, word.class());
            let waits = is_left && word.is_shared() && self.owners.is_awaited(part);
            if waits {
                let mark = self.owners.mark_before(owner);
                chunk.words[at] = word.waiting().seen_by_owner(word.class(), mark);
                self.owners.lose(part, word.waits());
                chunk.head.stale = true;
            }
            if is_left && !waits {
                gone |= 1 << at;
            } else {
                mixed |= *sole.get_or_insert(owner) != owner;
            }
        }
        // What has only one owner left is skipped the next time.
        chunk.head.mixed = mixed;
        chunk.head.sole = sole.unwrap_or(chunk.head.sole);
        self.drop_records(id, gone, |_, _| ());
    }

    /// Old rounds become one, in the timeline and in all counts.
    fn merge(&mut self) {
        let places = self.time.merge();
        for tally in &mut self.tallies {
            tally.follow(&places);
        }
        debug_assert_eq!(self.counted_pages(), self.pages);
    }

    /// All records get the numbers of their cohorts as rounds: the next 65536 rounds fit again.
    #[cold]
    fn renumber(&mut self) {
        self.merge();
        for id in 0..self.frames.ids() {
            let Some(chunk) = self.frames.chunk(id) else {
                continue;
            };
            chunk.head.round = NEVER;
            for at in (0..64).filter(|at| chunk.head.live >> at & 1 == 1) {
                let cohort = self.time.cohort(chunk.words[at].last());
                let round = u32::try_from(cohort).unwrap_or(ROUND_MAX);
                chunk.words[at] = chunk.words[at].with_last(round);
                debug_assert!(chunk.words[at].size() == Size::One || self.large > 0);
            }
        }
        self.time.renumber();
        self.owners.renumber();
        assert!(!self.time.is_full(), "there are fewer cohorts than rounds");
    }

    /// The pages of all owners.
    fn counted_pages(&self) -> u64 {
        let owners = 0..self.tallies.len() / CLASSES;
        owners.map(|owner| self.owned_pages(owner)).sum()
    }
}
