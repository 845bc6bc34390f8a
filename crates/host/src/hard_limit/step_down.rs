//! Lowers a cgroup's usage to a pending limit while the program uses all of its memory. After each
//! small amount that the kernel reclaims, the cgroup's limit is lowered, so that its usage cannot
//! grow back.
//!
//! Invariant: no limit is set below the pending one, and none that the kernel cannot reach. Version
//! 1 refuses a limit that it cannot reach. Version 2 would kill, so there a limit is set only after
//! the kernel has reclaimed enough for it.

use std::io;

use engine::units::{Bytes, Limit, PAGE_SIZE};
use rustix::io::Errno;

use super::{HardLimit, lowered};
use crate::system::cgroup::Version;

/// Bytes reclaimed at a time: so few that the program refaults less than this meanwhile.
const STEP: u64 = 256 << 10;
/// Minimum bytes reclaimed at a time. If the kernel refuses that, stepping down ends, because each
/// attempt scans all memory of the cgroup.
const STEP_MIN: u64 = 64 << 10;

impl HardLimit {
    /// Lets the kernel reclaim the charge above `goal` bytes, 256 KiB at a time, and lowers the
    /// limit each time. Ends at `goal`, when `is_due` returns true, or when the kernel finds no
    /// pages. Returns the bytes by which the new limit is below the former limit or charge,
    /// whichever was lower.
    ///
    /// # Errors
    /// The cgroup is gone, or the kernel refuses.
    pub fn step_down(&self, goal: u64, is_due: impl FnMut() -> bool) -> io::Result<u64> {
        let bytes = |max: Limit| max.bytes().map_or(u64::MAX, |bytes| bytes.0);
        let most = |hard_limit: &HardLimit| hard_limit.max().map(bytes);
        let before = most(self)?.min(self.charged()?);
        match self.version() {
            Version::V1 => self.step_down_v1(goal, is_due)?,
            Version::V2 => self.step_down_v2(goal, is_due)?,
        }
        Ok(before.saturating_sub(most(self)?))
    }

    /// Steps down on version 1: the kernel reclaims before it sets each lower limit.
    fn step_down_v1(&self, goal: u64, mut is_due: impl FnMut() -> bool) -> io::Result<()> {
        let turn = self.turn();
        let dir = self.opened()?;
        let limit = self.max()?;
        lowered::note(&dir, limit, self.swappiness()?);
        // With fresh counters, kernel reclaim always finds pages of a program that refaults them,
        // and the write of the limit would never return.
        self.keep_fresh(false);
        let (mut low, mut step) = (None, STEP);
        let ended = loop {
            let charged = match self.charged() {
                Ok(charged) if charged <= goal => break Ok(()),
                Ok(charged) => charged,
                Err(error) => break Err(error),
            };
            let next = charged.saturating_sub(step).max(goal) & !(PAGE_SIZE - 1);
            let next = Limit::Bytes(Bytes(next));
            match self.set_max_v1(next) {
                Ok(()) => low = Some(next),
                Err(Errno::BUSY) if step / 2 >= STEP_MIN => step /= 2,
                Err(Errno::BUSY | Errno::INTR) => break Ok(()),
                Err(errno) => break Err(self.io_error("memory.limit_in_bytes", errno)),
            }
            if is_due() {
                break Ok(());
            }
        };
        drop(turn);
        // The limit of memory and swap together is lowered by as much: allowed swap stays the same.
        let both = low.map_or(Ok(()), |low| self.put_max_v1(limit, low));
        self.keep_fresh(low.unwrap_or(limit) != Limit::Max);
        lowered::forget(&dir);
        ended.and(both)
    }

    /// Steps down on version 2: each lower limit is set after the kernel has reclaimed enough for
    /// it.
    fn step_down_v2(&self, goal: u64, mut is_due: impl FnMut() -> bool) -> io::Result<()> {
        loop {
            let charged = self.charged()?;
            if charged <= goal || !self.reclaim_step_v2(STEP, None)? {
                return Ok(());
            }
            // The limit falls by only half of what the kernel has just reclaimed.
            let next = charged.saturating_sub(STEP / 2).max(goal) & !(PAGE_SIZE - 1);
            let next = Limit::Bytes(Bytes(next));
            if self.max()? > next {
                self.set_max(next)?;
            }
            if is_due() {
                return Ok(());
            }
        }
    }
}
