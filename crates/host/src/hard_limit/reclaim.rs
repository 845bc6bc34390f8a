//! Makes the kernel reclaim a given amount from a cgroup.
//!
//! Invariant: afterwards the cgroup's limit is the same as before. If the manager is killed before
//! that, its note on the cgroup remains ([`super::lowered`]). The kernel chooses the pages. The
//! result is the number of bytes by which the charge fell. If the kernel finds no more pages, the
//! result is less than requested, and that is no error.

use std::io;

use engine::units::{Bytes, Limit, PAGE_SIZE};
use rustix::io::Errno;

use super::limits::V1_SWAPPINESS;
use super::{HardLimit, lowered};
use crate::system::cgroup::Version;
use crate::system::text::number;

/// Maximum bytes reclaimed by one lowering of the limit on version 1. Until the limit is restored,
/// it equals the charge, so a task that allocates must reclaim for itself.
const STEP: u64 = 8 << 20;
/// Minimum bytes of one lowering on version 1. If the kernel refuses it with EBUSY, reclaim ends.
const STEP_MIN: u64 = 256 << 10;
/// Number of consecutive lowerings without a lower charge after which reclaim ends.
const FUTILE_MAX: u32 = 8;
/// Bytes of one request on version 2. For each request the kernel may reclaim more than requested.
const STEP_V2: u64 = 2 << 20;

impl HardLimit {
    /// Makes the kernel reclaim about `bytes` from the cgroup. Returns the bytes by which its
    /// charge fell. `swappiness` (0 to 200): how readily anonymous memory is reclaimed; 0 forbids
    /// it. The kernel allows that choice on version 1, and on version 2 since Linux 6.11.
    ///
    /// # Errors
    /// The cgroup is gone, or the kernel cannot reclaim on request (version 2 before Linux 5.19),
    /// or not without anonymous memory (version 2 before 6.11). In these cases nothing is
    /// reclaimed.
    pub fn reclaim(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        let before = self.charged()?;
        self.take_from(before, (bytes, swappiness))?;
        Ok(before.saturating_sub(self.charged()?))
    }

    /// Like [`HardLimit::reclaim`], but returns the bytes that the kernel reclaimed, even if as
    /// much was charged meanwhile. (A program that reads a file refills the dropped page cache at
    /// once. Its charge does not fall, as if the kernel had found no page cache.)
    ///
    /// # Errors
    /// As [`HardLimit::reclaim`].
    pub fn reclaim_taken(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        self.take_from(self.charged()?, (bytes, swappiness))
    }

    /// Reclaims `bytes` with this swappiness from a cgroup with the charge `before`. Returns the
    /// bytes that the kernel reclaimed.
    fn take_from(&self, before: u64, (bytes, swappiness): (u64, Option<u8>)) -> io::Result<u64> {
        match self.version() {
            Version::V2 => self.reclaim_v2(bytes, swappiness),
            Version::V1 => self.reclaim_v1(before, bytes, swappiness),
        }
    }

    /// Sets how readily kernel reclaim takes anonymous memory of the cgroup (0 to 100). Returns the
    /// former value.
    ///
    /// # Errors
    /// Version 2 has no such setting of a cgroup; or the kernel refuses.
    pub fn set_swappiness(&self, swappiness: u8) -> io::Result<u8> {
        let _turn = self.turn();
        self.replace_swappiness(swappiness)
    }

    /// Sets the cgroup's swappiness on version 1; returns the former value.
    fn replace_swappiness(&self, swappiness: u8) -> io::Result<u8> {
        let before = self.swappiness()?;
        self.write(V1_SWAPPINESS, &swappiness.to_string())?;
        Ok(before)
    }

    /// Returns the cgroup's swappiness on version 1.
    pub(super) fn swappiness(&self) -> io::Result<u8> {
        let text = self.read(V1_SWAPPINESS)?;
        let now = number(text.trim_ascii()).and_then(|one| u8::try_from(one).ok());
        now.ok_or_else(|| self.io_error(V1_SWAPPINESS, Errno::INVAL))
    }

    /// Reclaims on version 2 by many small requests: of one for 20 MiB, Linux 6.1 made 28 MiB.
    fn reclaim_v2(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        let (mut left, mut taken) = (bytes, 0);
        while left > 0 {
            let (before, step) = (self.charged()?, left.min(STEP_V2));
            let got_all = self.reclaim_step_v2(step, swappiness)?;
            let fell = before.saturating_sub(self.charged()?);
            if !got_all {
                return Ok(taken + fell);
            }
            taken += fell.max(step);
            left = left.saturating_sub(fell.max(step));
        }
        Ok(taken)
    }

    /// Makes one request on version 2. Returns whether the kernel reclaimed all of `bytes`.
    pub(super) fn reclaim_step_v2(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<bool> {
        const FILE: &str = "memory.reclaim";
        let write = |text: &str| self.put(FILE, text);
        let plain = bytes.to_string();
        let done = match swappiness {
            Some(swappiness) => match write(&format!("{plain} swappiness={swappiness}")) {
                Err(Errno::INVAL) if swappiness > 0 => write(&plain),
                Err(Errno::INVAL) => return Err(self.io_error(FILE, Errno::OPNOTSUPP)),
                done => done,
            },
            None => write(&plain),
        };
        match done {
            Ok(()) => Ok(true),
            // The kernel reclaimed less than requested, or a signal interrupted it.
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(self.io_error(FILE, errno)),
        }
    }

    /// Reclaims on version 1, by lowering the limit for moments. Returns the bytes that the kernel
    /// reclaimed.
    fn reclaim_v1(&self, before: u64, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        let _turn = self.turn();
        let dir = self.opened()?;
        let limit = self.max()?;
        lowered::note(&dir, limit, self.swappiness()?);
        let usual = swappiness.map(|swappiness| self.replace_swappiness(swappiness));
        let usual = usual.transpose()?;
        // With fresh counters, kernel reclaim always finds pages of a program that refaults them,
        // and the write of the limit would never return.
        let goal = before.saturating_sub(bytes);
        let done = self.counting_forced_hits(|| self.unwatched(|| self.lower(goal)));
        let restored = usual
            .map(|usual| self.replace_swappiness(usual))
            .transpose();
        if done.is_ok() && restored.is_ok() {
            lowered::forget(&dir);
        }
        restored.and(done)
    }

    /// Reclaims on version 1 down to a charge of `goal` bytes, as long as the kernel finds pages:
    /// lowers the limit repeatedly, and restores it each time. Returns the bytes that the kernel
    /// reclaimed.
    fn lower(&self, goal: u64) -> io::Result<u64> {
        const FILE: &str = "memory.limit_in_bytes";
        let (mut step, mut least, mut vain, mut taken) = (STEP, u64::MAX, 0, 0);
        loop {
            let charged = self.charged()?;
            // Counts attempts without progress. Otherwise a program that swaps its pages in again
            // at once would be reclaimed from forever.
            (least, vain) = match charged < least {
                true => (charged, 0),
                false => (least, vain + 1),
            };
            if charged < goal.saturating_add(PAGE_SIZE) || vain == FUTILE_MAX {
                return Ok(taken);
            }
            let next = charged.saturating_sub(step).max(goal);
            // Another process may have changed the limit since it was last read.
            let limit = self.max()?;
            // The kernel first reclaims until the charge is at most `next`, and only then sets the
            // limit. From then on the program would meet that limit, so the former limit is
            // restored at once.
            let lowered = self.set_max_v1(Limit::Bytes(Bytes(next)));
            if lowered != Err(Errno::BUSY) {
                // Raising a limit reclaims nothing, so at most one signal can interrupt it: one
                // retry is enough.
                let put = self.set_max_v1(limit).or_else(|_| self.set_max_v1(limit));
                put.map_err(|errno| self.io_error(FILE, errno))?;
            }
            match lowered {
                Ok(()) => taken += charged - next,
                Err(Errno::BUSY) if step / 2 >= STEP_MIN => step /= 2,
                Err(Errno::BUSY | Errno::INTR) => return Ok(taken),
                Err(errno) => return Err(self.io_error(FILE, errno)),
            }
        }
    }
}
