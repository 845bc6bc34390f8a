//! One address space from round to round.
//!
//! Invariant: a part (anonymous memory, or files) is `trusted` in two cases only. Either every bit that the last
//! reading found set was cleared after it: a set bit was set since. Or the process did nothing since before that
//! reading: a set bit was set before it, and the books keep the age that they have of it, or take it for set now, which
//! makes no page older than it is.

use std::time::Duration;

use pagetables::{Pace, Part, Reading};

use super::claim::Claim;
use super::found::{Hidden, ReadingSums, work};
use crate::books::Owner;
use crate::system::{Identity, Proc};

/// Readings of a process between two looks at its descriptors.
const DEVICES_EVERY: u32 = 16;

/// What tells whether a process did anything since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Activity {
    pub(super) cpu: Duration,
    /// Resident pages, as the kernel counts ([`Proc::resident`]).
    pub(super) resident: u64,
    /// Page faults until now.
    pub(super) faults: u64,
    /// Those of them that needed reading.
    pub(super) majors: u64,
    /// The machine's count of pages that were moved to other frames ([`crate::system::Vmstat`]): that
    /// happens to a process in its sleep.
    pub(super) moved: u64,
}

/// What a reading's bits say, by what is known before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) owner: Owner,
    /// Accesses may leave no bit.
    pub(super) hidden: bool,
    /// Bits were taken since the last reading: one that is clear may have been set in between.
    pub(super) taken: bool,
    /// Of each part that is cleared by itself: a bit that is set was set since the last look.
    pub(super) trusted: [bool; 2],
    /// It did nothing since before the last reading: what is set was set then.
    pub(super) slept: bool,
    /// The last reading left bits of files set: what is set may have been told by it.
    pub(super) spared: bool,
}

/// An address space.
#[derive(Debug)]
pub struct Space {
    /// Its number in the books.
    pub owner: Owner,
    /// The last reading.
    pub found: ReadingSums,
    /// Pages in swap and faults that needed reading, when it was first read.
    first: Option<(u64, u64)>,
    /// Why bits were not cleared after the last reading.
    pub(super) not_cleared: [Option<Hidden>; 2],
    /// The same of the reading before: what was told by the last one goes by that.
    was_not_cleared: [Option<Hidden>; 2],
    /// The source has no bits.
    pub(super) no_source: Option<Hidden>,
    /// Of each part, how long clearing takes.
    pub(super) pace: [Pace; 2],
    /// Of each part that is cleared by itself.
    pub(super) trusted: [bool; 2],
    pub(super) activity: Activity,
    /// Who clears its bits.
    claim: Claim,
    /// The kernel's number for it; another after an exec.
    pub(super) id: u64,
    /// A secondary MMU has registered, or there are descriptors of one.
    registered: bool,
    has_devices: bool,
    readings: u32,
    /// Rounds in which it had slept, since it was read last for another reason than that.
    rounds_asleep: u32,
    /// It did nothing since before the last reading, and is read again all the same.
    slept: bool,
    /// Its bits of files were left set by the last reading.
    pub(super) spared: bool,
    /// We took bits since the last reading.
    pub(super) taken: bool,
    /// From which address on we go on with that.
    pub(super) take_from: u64,
    /// How long it may be held, by what it did until the last round ([`super::Pauses`]).
    pub(super) at_most: Duration,
}

impl Space {
    pub(super) fn new(owner: Owner) -> Space {
        Space {
            owner,
            found: ReadingSums::default(),
            first: None,
            not_cleared: [None; 2],
            was_not_cleared: [None; 2],
            no_source: None,
            pace: [Pace::default(); 2],
            trusted: [false; 2],
            activity: Activity::default(),
            claim: Claim::Unknown,
            id: 0,
            registered: false,
            has_devices: false,
            readings: 0,
            rounds_asleep: 0,
            slept: false,
            spared: false,
            taken: false,
            take_from: 0,
            at_most: Duration::ZERO,
        }
    }

    /// Whether others access its memory unseen, or take its bits away.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.registered || self.has_devices || self.no_source.is_some() || self.is_contested()
    }

    /// Whether another pagetide clears its bits. It is asked again at each look.
    #[must_use]
    pub fn is_contested(&self) -> bool {
        matches!(self.claim, Claim::Others)
    }

    /// What is known before a reading, which leaves bits of files set if it may; the clearing after it changes that.
    pub(super) fn before(&self) -> Before {
        Before {
            owner: self.owner,
            hidden: self.is_hidden(),
            taken: self.taken,
            trusted: self.trusted,
            slept: self.slept,
            spared: self.spared,
        }
    }

    /// Whether bits of files may stay set by a look that leaves them for the kernel: what they tell is of the last interval.
    pub(super) fn may_spare(&self, spares_files: bool) -> bool {
        let file = Part::File as usize;
        spares_files && self.trusted[file] && self.not_cleared[file].is_none()
    }

    /// What clearing goes through, as of the last reading, in entries of full tables; 0 of one that was never read.
    pub(super) fn entries(&self) -> u64 {
        work(self.found.entries, self.found.tables).iter().sum()
    }

    /// Whether its bits could not be cleared at the last reading because its memory was locked.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.not_cleared.contains(&Some(Hidden::Locked))
    }

    /// Whether accessed bits of its anonymous memory that are set were set since the last look.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.trusted[Part::Anon as usize]
    }

    /// The kernel's number for it at the last reading; another one after an exec.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// From which address on its bits are taken next ([`super::Ages::take_bits`]).
    #[must_use]
    pub fn take_from(&self) -> u64 {
        self.take_from
    }

    /// Why ages are unknown, if any are.
    #[must_use]
    pub fn why_unknown(&self) -> Option<Hidden> {
        if self.no_source.is_some() {
            return self.no_source;
        }
        if self.registered || self.has_devices {
            return Some(Hidden::SecondaryMmu);
        }
        if self.is_contested() {
            return Some(Hidden::Contested);
        }
        let foreign = (self.found.vague > 0).then_some(Hidden::Foreign);
        let kept = self.not_cleared.into_iter().chain(self.was_not_cleared);
        kept.flatten().max().or(foreign)
    }

    /// Whether it did nothing since the last reading, and so had no page fault either; memory may have been taken from it
    /// all the same. What a secondary MMU does needs no processor time of the process.
    pub(super) fn used_no_cpu(&self, cpu: Duration, moved: u64) -> bool {
        let is_same = self.activity.cpu == cpu && self.activity.moved == moved;
        self.readings > 0 && !self.is_hidden() && is_same
    }

    /// It has slept once more: whether it is read all the same, and its bits cleared, for they were left set when it
    /// did something last, or some of its pages' ages are unknown for another reason. That is tried ever less often. (The stories: of
    /// what a program had used right before it slept nothing left, for ever. One that had frames of a program that had just
    /// ended was read once, when the bits of both could not be told apart, and slept: nothing of it left, either, of one
    /// in 600.)
    pub(super) fn is_due_asleep(&mut self, has_unknown: impl FnOnce() -> bool) -> bool {
        self.rounds_asleep = self.rounds_asleep.saturating_add(1);
        let is_left = |why: &Option<Hidden>| matches!(why, Some(Hidden::Stall(_) | Hidden::Locked));
        self.rounds_asleep.is_power_of_two()
            && (self.not_cleared.iter().any(is_left) || has_unknown())
    }

    /// It is about to be read, and did nothing since before the last reading ([`Space::used_no_cpu`]): a bit that is
    /// set was set then. So what it tells is known, and no page looks older than it is; nor does one count as used
    /// again.
    pub(super) fn begin_reading(&mut self, slept: bool) {
        self.was_not_cleared = self.not_cleared;
        self.slept = slept;
        if slept {
            self.trusted = [true; 2];
        } else {
            self.rounds_asleep = 0;
        }
    }

    /// Whether it was read before.
    pub(super) fn was_read(&self) -> bool {
        self.readings > 0
    }

    /// Whether nothing was taken from one that slept.
    pub(super) fn is_same_size(&self, resident: u64) -> bool {
        self.activity.resident == resident
    }

    /// What the process was like before the reading that was just done.
    pub(super) fn note_activity(&mut self, now: Activity) {
        self.activity = now;
        self.first.get_or_insert((self.found.swapped, now.majors));
    }

    /// How many more pages are in swap than at the first reading, and the faults that needed reading
    /// since.
    pub(super) fn swapped_since(&self) -> (i64, u64) {
        let (swapped, majors) = self.first.unwrap_or_default();
        let pages = |pages: u64| i64::try_from(pages).unwrap_or(i64::MAX);
        let more = pages(self.found.swapped) - pages(swapped);
        (more, self.activity.majors.saturating_sub(majors))
    }

    /// Claims it, unless it is ours already; whether its bits are ours to clear.
    pub(super) fn claim(&mut self, identity: Identity) -> bool {
        if !self.claim.holds() {
            self.claim = Claim::take(identity);
        }
        !matches!(self.claim, Claim::Others)
    }

    /// Looks, now and then, for descriptors of virtual machines and devices.
    pub(super) fn look_for_devices(&mut self, proc: &Proc, pid: u32) {
        if self.readings.is_multiple_of(DEVICES_EVERY) {
            self.has_devices = proc.secondary_mmu(pid).is_ok_and(|found| found.is_some());
        }
        self.readings = self.readings.wrapping_add(1);
    }

    /// Takes the sums of a reading. Of an address space that another process was read with already,
    /// what is in swap counts there.
    pub(super) fn learn(&mut self, reading: &Reading, found: ReadingSums, is_first: bool) {
        self.found = found;
        self.taken = false;
        if !is_first {
            self.found.swapped = 0;
        }
        self.id = reading.space;
        self.registered = reading.hides == Some(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ages::claim::tests::Asleep;

    /// A process that another pagetide looks at is hidden for as long as that does, and no longer.
    #[test]
    fn a_space_is_contested_until_the_other_one_lets_go() {
        let child = Asleep::start();
        let somebody = child.identity();
        let other = Claim::take(somebody);
        let mut space = Space::new(crate::books::Books::new(0).add_owner().expect("the first"));
        assert!(!space.claim(somebody) && space.is_contested() && space.is_hidden());
        assert_eq!(space.why_unknown(), Some(Hidden::Contested));
        drop(other);
        assert!(space.claim(somebody) && !space.is_contested() && !space.is_hidden());
    }

    /// (The story: a process of which bits were left set, as it took faults, and which then slept for good, was never read again:
    /// what it had used last was unknown for ever, and stayed.)
    #[test]
    fn who_sleeps_with_bits_set_is_read_again_ever_less_often() {
        let mut space = Space::new(crate::books::Books::new(0).add_owner().expect("the first"));
        let due_if = |space: &mut Space, has_unknown| {
            let mut is_due = || space.is_due_asleep(|| has_unknown);
            (0..20).filter(|_| is_due()).count()
        };
        let due = |space: &mut Space| due_if(space, false);
        assert_eq!(due(&mut space), 0, "all is cleared");
        space.begin_reading(false);
        assert_eq!(due_if(&mut space, true), 5, "1, 2, 4, 8, 16");
        space.begin_reading(false);
        space.not_cleared[0] = Some(Hidden::Stall(Duration::from_millis(9)));
        assert_eq!(due(&mut space), 5, "1, 2, 4, 8, 16");
        space.begin_reading(true);
        assert!(
            space.is_trusted() && space.before().slept,
            "nothing was accessed since the last reading"
        );
        space.not_cleared[0] = None;
        assert_eq!(due(&mut space), 0);
        // What was left set for that reason is not left once more.
        assert!(space.may_spare(true) && !space.may_spare(false));
        space.not_cleared[1] = Some(Hidden::Stall(Duration::from_millis(9)));
        assert!(!space.may_spare(true));
    }

    /// (The story: of what was cleared at last, once clearing had been thought to take too long, ages were said to be unknown for its being
    /// shared with another process.)
    #[test]
    fn what_was_told_of_bits_that_were_left_set_says_why() {
        let mut space = Space::new(crate::books::Books::new(0).add_owner().expect("the first"));
        let why = Some(Hidden::Stall(Duration::from_millis(9)));
        space.not_cleared[0] = why;
        space.begin_reading(false);
        space.not_cleared[0] = None;
        assert_eq!(space.why_unknown(), why);
        space.begin_reading(false);
        assert_eq!(space.why_unknown(), None);
    }
}
