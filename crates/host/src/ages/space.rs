//! State of one address space from scan to scan.
//!
//! Invariant: a part (anonymous memory, or files) is `trusted` in two cases only. Either the last
//! walk cleared every bit that it found set, so a bit that is set now was set since. Or the process
//! did not run since before that walk, so a bit that is set now was set before that walk. In the
//! second case the age table keeps the page's age or counts the page as accessed now; neither makes
//! it too old.

use std::time::Duration;

use pagetables::{Pace, Part, WalkResult};

use super::claim::Claim;
use super::found::{Hidden, WalkSums, work};
use crate::age_table::Owner;
use crate::system::{Identity, Proc};

/// Every how many walks the process's open descriptors are checked for devices.
const DEVICES_EVERY: u32 = 16;

/// Counters that show whether a process has run or was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ActivityCounters {
    pub(super) cpu: Duration,
    /// Resident pages, as the kernel counts them ([`Proc::resident`]).
    pub(super) resident: u64,
    /// Number of page faults so far.
    pub(super) faults: u64,
    /// Number of page faults so far that had to read from a device.
    pub(super) majors: u64,
    /// The host's count of pages migrated to other frames ([`crate::system::Vmstat`]), as the
    /// kernel also migrates pages of idle processes.
    pub(super) moved: u64,
}

/// What a scan knows about the meaning of accessed bits before it walks an address space.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkContext {
    pub(super) owner: Owner,
    /// Whether accesses may leave the accessed bit clear.
    pub(super) hidden: bool,
    /// Whether code outside of scans cleared bits since the last walk, so that a clear bit may have
    /// been set in between.
    pub(super) taken: bool,
    /// For anonymous memory, then for files: whether a set bit means an access since the last scan.
    pub(super) trusted: [bool; 2],
    /// Whether the process has not run since before the last walk: a set bit was set before that
    /// walk.
    pub(super) idle: bool,
    /// Whether the last walk kept the bits of files on purpose, so that it may have reported a bit
    /// that is set now.
    pub(super) kept_bits: bool,
}

/// State of one address space.
#[derive(Debug)]
pub struct Space {
    /// Number of the address space in the age table.
    pub owner: Owner,
    /// Sums of the last walk.
    pub found: WalkSums,
    /// Number of pages in swap, then of major faults, at the first walk; `None` before it.
    first: Option<(u64, u64)>,
    /// Why the last walk did not clear bits: of anonymous memory, then of files. `None` if it did.
    pub(super) not_cleared: [Option<Hidden>; 2],
    /// `not_cleared` of the walk before the last: explains the unknown ages that the last walk
    /// found.
    was_not_cleared: [Option<Hidden>; 2],
    /// Set if the source provides no accessed bits.
    pub(super) no_source: Option<Hidden>,
    /// The speed of clearing, as measured: of anonymous memory, then of files.
    pub(super) pace: [Pace; 2],
    /// For anonymous memory, then for files: see the invariant of the module.
    pub(super) trusted: [bool; 2],
    pub(super) activity: ActivityCounters,
    /// Whether this or another pagetide clears the accessed bits.
    claim: Claim,
    /// The kernel's number for the address space; an exec gives the process a new one.
    pub(super) id: u64,
    /// Whether a secondary MMU has registered with the address space. `has_devices`: whether the
    /// process has open descriptors of virtual machines or such devices.
    registered: bool,
    has_devices: bool,
    readings: u32,
    /// Number of scans that found the process idle since a scan last found that it had run.
    idle_scans: u32,
    /// Whether the last walk was of an idle process, which had not run since before the previous
    /// walk.
    idle: bool,
    /// Whether the last walk did not clear bits of files, on purpose
    /// ([`super::Ages::keep_file_bits`]).
    pub(super) kept_bits: bool,
    /// Whether bits were cleared since the last walk, outside of scans
    /// ([`super::Ages::take_bits`]).
    pub(super) taken: bool,
    /// Address from which the code that clears bits outside of scans continues.
    pub(super) take_from: u64,
    /// How long the process's mmap_lock may be held, by its activity as of the last scan
    /// ([`super::Pauses`]).
    pub(super) at_most: Duration,
}

impl Space {
    pub(super) fn new(owner: Owner) -> Space {
        Space {
            owner,
            found: WalkSums::default(),
            first: None,
            not_cleared: [None; 2],
            was_not_cleared: [None; 2],
            no_source: None,
            pace: [Pace::default(); 2],
            trusted: [false; 2],
            activity: ActivityCounters::default(),
            claim: Claim::Unknown,
            id: 0,
            registered: false,
            has_devices: false,
            readings: 0,
            idle_scans: 0,
            idle: false,
            kept_bits: false,
            taken: false,
            take_from: 0,
            at_most: Duration::ZERO,
        }
    }

    /// Returns whether accesses are hidden from us: a secondary MMU may access this memory without
    /// setting bits, or another pagetide clears the bits, or no bits can be read.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.registered || self.has_devices || self.no_source.is_some() || self.is_contested()
    }

    /// Returns whether another pagetide clears this process's bits; each walk checks again.
    #[must_use]
    pub fn is_contested(&self) -> bool {
        matches!(self.claim, Claim::Others)
    }

    /// Returns what is known before a walk. Must be called before bits are cleared, which changes
    /// it.
    pub(super) fn before(&self) -> WalkContext {
        WalkContext {
            owner: self.owner,
            hidden: self.is_hidden(),
            taken: self.taken,
            trusted: self.trusted,
            idle: self.idle,
            kept_bits: self.kept_bits,
        }
    }

    /// Returns whether this walk may keep the bits of files for the kernel (`keeps_file_bits`: the
    /// scan would). The bits must be known to belong to the last interval.
    pub(super) fn may_keep_file_bits(&self, keeps_file_bits: bool) -> bool {
        let file = Part::File as usize;
        keeps_file_bits && self.trusted[file] && self.not_cleared[file].is_none()
    }

    /// Returns the cost of clearing as of the last walk, as a number of entries in full page
    /// tables; 0 before the first walk.
    pub(super) fn entries(&self) -> u64 {
        work(self.found.entries, self.found.tables).iter().sum()
    }

    /// Returns whether the bits could not be cleared at the last walk because the mmap_lock was
    /// held.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.not_cleared.contains(&Some(Hidden::Locked))
    }

    /// Returns whether a set bit of anonymous memory means an access since the last scan.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.trusted[Part::Anon as usize]
    }

    /// Returns the kernel's number of the address space as of the last walk; an exec gives a new
    /// one.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the address from which bits are cleared next ([`super::Ages::take_bits`]).
    #[must_use]
    pub fn take_from(&self) -> u64 {
        self.take_from
    }

    /// Returns why ages are unknown; `None` if all are known.
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

    /// Returns whether the process has used no processor time since the last walk, so that it had
    /// no page fault. (The kernel may have reclaimed from it nevertheless.) False if accesses are
    /// hidden, as a secondary MMU may have accessed its memory.
    pub(super) fn used_no_cpu(&self, cpu: Duration, moved: u64) -> bool {
        let is_same = self.activity.cpu == cpu && self.activity.moved == moved;
        self.readings > 0 && !self.is_hidden() && is_same
    }

    /// Counts one more scan that found the process idle; returns whether to walk and clear it
    /// nevertheless.
    ///
    /// A walk is needed if bits were not cleared when the process last ran, or if ages of its pages
    /// are unknown for another reason: otherwise these pages could never be reclaimed. It is tried
    /// after 1, 2, 4, 8, ... scans.
    pub(super) fn must_walk_while_idle(&mut self, has_unknown: impl FnOnce() -> bool) -> bool {
        self.idle_scans = self.idle_scans.saturating_add(1);
        let is_left = |why: &Option<Hidden>| matches!(why, Some(Hidden::Stall(_) | Hidden::Locked));
        self.idle_scans.is_power_of_two() && (self.not_cleared.iter().any(is_left) || has_unknown())
    }

    /// Prepares for a walk. `idle`: the process did not run since before the last walk
    /// ([`Space::used_no_cpu`]). A set bit was then set before that walk: no page becomes older
    /// than it is, and no page counts as accessed again.
    pub(super) fn begin_reading(&mut self, idle: bool) {
        self.was_not_cleared = self.not_cleared;
        self.idle = idle;
        if idle {
            self.trusted = [true; 2];
        } else {
            self.idle_scans = 0;
        }
    }

    /// Returns whether the process was walked before.
    pub(super) fn was_read(&self) -> bool {
        self.readings > 0
    }

    /// Returns whether the resident size is unchanged, so that nothing was reclaimed from the idle
    /// process.
    pub(super) fn is_same_size(&self, resident: u64) -> bool {
        self.activity.resident == resident
    }

    /// Records the activity counters that the process had before the walk that has just ended.
    pub(super) fn note_activity(&mut self, now: ActivityCounters) {
        self.activity = now;
        self.first.get_or_insert((self.found.swapped, now.majors));
    }

    /// Returns by how many pages swap has grown since the first walk, then the number of major
    /// faults since.
    pub(super) fn swapped_since(&self) -> (i64, u64) {
        let (swapped, majors) = self.first.unwrap_or_default();
        let pages = |pages: u64| i64::try_from(pages).unwrap_or(i64::MAX);
        let more = pages(self.found.swapped) - pages(swapped);
        (more, self.activity.majors.saturating_sub(majors))
    }

    /// Claims the process unless this manager holds the claim already. Returns whether this manager
    /// may clear the bits.
    pub(super) fn claim(&mut self, identity: Identity) -> bool {
        if !self.claim.holds() {
            self.claim = Claim::take(identity);
        }
        !matches!(self.claim, Claim::Others)
    }

    /// Checks, at every 16th walk, for open descriptors of virtual machines and devices.
    pub(super) fn find_devices(&mut self, proc: &Proc, pid: u32) {
        if self.readings.is_multiple_of(DEVICES_EVERY) {
            self.has_devices = proc.secondary_mmu(pid).is_ok_and(|found| found.is_some());
        }
        self.readings = self.readings.wrapping_add(1);
    }

    /// Stores the sums of a walk. `is_first`: this scan has walked no other process with the same
    /// address space. Otherwise the pages in swap count for that other process only.
    pub(super) fn store_sums(&mut self, reading: &WalkResult, found: WalkSums, is_first: bool) {
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

    /// Ages of a process are unknown while another pagetide watches it, and known again afterwards.
    #[test]
    fn a_space_is_contested_until_the_other_claim_ends() {
        let child = Asleep::start();
        let somebody = child.identity();
        let other = Claim::take(somebody);
        let mut space = Space::new(
            crate::age_table::AgeTable::new(0)
                .add_owner()
                .expect("the first"),
        );
        assert!(!space.claim(somebody) && space.is_contested() && space.is_hidden());
        assert_eq!(space.why_unknown(), Some(Hidden::Contested));
        drop(other);
        assert!(space.claim(somebody) && !space.is_contested() && !space.is_hidden());
    }

    /// Regression: bits of a process were not cleared, as it had page faults. Then it stayed idle
    /// and was never walked again. So the ages of the pages that it had accessed last stayed
    /// unknown, and these pages were never reclaimed.
    #[test]
    fn an_idle_process_with_uncleared_bits_is_walked_ever_less_often() {
        let mut space = Space::new(
            crate::age_table::AgeTable::new(0)
                .add_owner()
                .expect("the first"),
        );
        let due_if = |space: &mut Space, has_unknown| {
            let mut is_due = || space.must_walk_while_idle(|| has_unknown);
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
            space.is_trusted() && space.before().idle,
            "nothing was accessed since the last reading"
        );
        space.not_cleared[0] = None;
        assert_eq!(due(&mut space), 0);
        // Bits that could not be cleared must be cleared next time, not kept.
        assert!(space.may_keep_file_bits(true) && !space.may_keep_file_bits(false));
        space.not_cleared[1] = Some(Hidden::Stall(Duration::from_millis(9)));
        assert!(!space.may_keep_file_bits(true));
    }

    /// Regression: clearing was expected to take too long and was done only later. The report then
    /// gave sharing with another process as the reason for unknown ages.
    #[test]
    fn unknown_ages_keep_the_reason_why_bits_were_not_cleared() {
        let mut space = Space::new(
            crate::age_table::AgeTable::new(0)
                .add_owner()
                .expect("the first"),
        );
        let why = Some(Hidden::Stall(Duration::from_millis(9)));
        space.not_cleared[0] = why;
        space.begin_reading(false);
        space.not_cleared[0] = None;
        assert_eq!(space.why_unknown(), why);
        space.begin_reading(false);
        assert_eq!(space.why_unknown(), None);
    }
}
