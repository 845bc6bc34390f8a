//! Bringing a group of which all is in use under a limit that waits: what leaves is not let back.
//!
//! Invariants: no limit is below the one that waits, and none is put that the kernel cannot follow. Version 1 refuses such a one; on version 2, which
//! would kill, a step is put after the kernel has taken as much.

use std::io;

use rustix::io::Errno;

use super::{Wall, lowered};
use crate::system::cgroup::Version;

/// What leaves in a step, bytes: so little that what comes back meanwhile is less.
const STEP: u64 = 256 << 10;
/// A step below this that the kernel refuses is the end: each time it looks at all that the group has.
const LEAST: u64 = 64 << 10;
const PAGE: u64 = 4096;

impl Wall {
    /// Has the kernel take what is charged above `goal`, step by step, until that is done, `is_due`, or there is nothing to take. Each step stands as
    /// the group's limit. By how many bytes that limit is lower than what was charged, or allowed.
    ///
    /// # Errors
    /// If the group is gone, or the kernel refuses.
    pub fn close_in(&self, goal: u64, is_due: impl FnMut() -> bool) -> io::Result<u64> {
        let most = |wall: &Wall| wall.max().map(|max| max.unwrap_or(u64::MAX));
        let before = most(self)?.min(self.charged()?);
        match self.version() {
            Version::V1 => self.close_in_v1(goal, is_due)?,
            Version::V2 => self.close_in_v2(goal, is_due)?,
        }
        Ok(before.saturating_sub(most(self)?))
    }

    fn close_in_v1(&self, goal: u64, mut is_due: impl FnMut() -> bool) -> io::Result<()> {
        let turn = self.turn();
        let dir = self.opened()?;
        let limit = self.max()?;
        lowered::note(&dir, limit, self.swappiness()?);
        // With fresh counters the kernel always finds something of a program that brings it back, and never answers.
        self.keep_fresh(false);
        let (mut low, mut step) = (None, STEP);
        let ended = loop {
            let charged = match self.charged() {
                Ok(charged) if charged <= goal => break Ok(()),
                Ok(charged) => charged,
                Err(error) => break Err(error),
            };
            let next = charged.saturating_sub(step).max(goal) & !(PAGE - 1);
            match self.set_max_v1(Some(next)) {
                Ok(()) => low = Some(next),
                Err(Errno::BUSY) if step / 2 >= LEAST => step /= 2,
                Err(Errno::BUSY | Errno::INTR) => break Ok(()),
                Err(errno) => break Err(self.io_error("memory.limit_in_bytes", errno)),
            }
            if is_due() {
                break Ok(());
            }
        };
        drop(turn);
        // What may be in swap is what both are apart by, as before.
        let both = low.map_or(Ok(()), |low| self.put_max_v1(limit, Some(low)));
        self.keep_fresh(low.or(limit).is_some());
        lowered::forget(&dir);
        ended.and(both)
    }

    fn close_in_v2(&self, goal: u64, mut is_due: impl FnMut() -> bool) -> io::Result<()> {
        loop {
            let charged = self.charged()?;
            if charged <= goal || !self.ask_v2(STEP, None)? {
                return Ok(());
            }
            // Half of what it has just been able to take.
            let next = charged.saturating_sub(STEP / 2).max(goal) & !(PAGE - 1);
            if self.max()?.is_none_or(|max| max > next) {
                self.set_max(Some(next))?;
            }
            if is_due() {
                return Ok(());
            }
        }
    }
}
