//! Making the kernel reclaim from a wall, so much and no more.
//!
//! Invariant: the limit is the same afterwards, and whoever is killed before that has left a note ([`super::lowered`]).
//! What the kernel takes is its own choice; how much is what the charge fell by, less than asked for where it finds
//! nothing more (no error).

use std::io;

use rustix::io::Errno;

use super::limits::V1_SWAPPINESS;
use super::{Wall, lowered};
use crate::system::cgroup::Version;
use crate::system::text::number;

/// Version 1 goes by steps of at most this: the limit stands at what is charged between two writes, and
/// whoever allocates then reclaims for itself.
const STEP: u64 = 8 << 20;
/// A step below this that the kernel answers with EBUSY is the end.
const LEAST: u64 = 256 << 10;
/// So many steps after which no less is charged than before are the end, too.
const VAIN: u32 = 8;
/// Version 2 goes by these: each may take more than was asked for.
const STEP_V2: u64 = 2 << 20;
const PAGE: u64 = 4096;

impl Wall {
    /// Has the kernel take about so many bytes out of the group; by how much its charge fell meanwhile.
    /// `swappiness` (0 to 200) says how willingly anonymous memory goes, where the kernel lets it be chosen
    /// (version 1; version 2 since Linux 6.11). 0 forbids it.
    ///
    /// # Errors
    /// If the kernel cannot (version 2 before Linux 5.19; without anonymous memory before 6.11: nothing is asked for then), or the group is gone.
    pub fn reclaim(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        let before = self.charged()?;
        self.take_from(before, (bytes, swappiness))?;
        Ok(before.saturating_sub(self.charged()?))
    }

    /// The same, but how much the kernel has taken, whatever was charged anew meanwhile: who reads a file has what was dropped back at once.
    /// (The story: the charge did not fall, so the kernel was held to find no page cache, and what the program used once a second left for it.)
    ///
    /// # Errors
    /// As [`Wall::reclaim`].
    pub fn reclaim_taken(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        self.take_from(self.charged()?, (bytes, swappiness))
    }

    fn take_from(&self, before: u64, (bytes, swappiness): (u64, Option<u8>)) -> io::Result<u64> {
        match self.version() {
            Version::V2 => self.reclaim_v2(bytes, swappiness),
            Version::V1 => self.reclaim_v1(before, bytes, swappiness),
        }
    }

    /// How willingly the kernel's own reclaim of the group takes anonymous memory (0 to 100); what it was before.
    ///
    /// # Errors
    /// Version 2 has no such setting of a group; or the kernel refuses.
    pub fn set_swappiness(&self, swappiness: u8) -> io::Result<u8> {
        let _turn = self.turn();
        self.replace_swappiness(swappiness)
    }

    fn replace_swappiness(&self, swappiness: u8) -> io::Result<u8> {
        let before = self.swappiness()?;
        self.write(V1_SWAPPINESS, &swappiness.to_string())?;
        Ok(before)
    }

    pub(super) fn swappiness(&self) -> io::Result<u8> {
        let text = self.read(V1_SWAPPINESS)?;
        let now = number(text.trim_ascii()).and_then(|one| u8::try_from(one).ok());
        now.ok_or_else(|| self.io_error(V1_SWAPPINESS, Errno::INVAL))
    }

    /// In steps: asked for 20 MiB at once, Linux 6.1 took 28.
    fn reclaim_v2(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        let (mut left, mut taken) = (bytes, 0);
        while left > 0 {
            let (before, step) = (self.charged()?, left.min(STEP_V2));
            let got_all = self.ask_v2(step, swappiness)?;
            let fell = before.saturating_sub(self.charged()?);
            if !got_all {
                return Ok(taken + fell);
            }
            taken += fell.max(step);
            left = left.saturating_sub(fell.max(step));
        }
        Ok(taken)
    }

    /// One step; whether the kernel got all of it.
    pub(super) fn ask_v2(&self, bytes: u64, swappiness: Option<u8>) -> io::Result<bool> {
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
            // It got less than that; a signal came.
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(self.io_error(FILE, errno)),
        }
    }

    fn reclaim_v1(&self, before: u64, bytes: u64, swappiness: Option<u8>) -> io::Result<u64> {
        let _turn = self.turn();
        let dir = self.opened()?;
        let limit = self.max()?;
        lowered::note(&dir, limit, self.swappiness()?);
        let usual = swappiness.map(|swappiness| self.replace_swappiness(swappiness));
        let usual = usual.transpose()?;
        // With fresh counters the kernel always finds something of a program that brings it back, and never answers.
        let done = self.unwatched(|| self.lower(before.saturating_sub(bytes)));
        let back = usual
            .map(|usual| self.replace_swappiness(usual))
            .transpose();
        if done.is_ok() && back.is_ok() {
            lowered::forget(&dir);
        }
        back.and(done)
    }

    /// Down to `goal`, in steps, while the kernel finds something; the limit is put back after each. How much it has taken.
    fn lower(&self, goal: u64) -> io::Result<u64> {
        const FILE: &str = "memory.limit_in_bytes";
        let (mut step, mut least, mut vain, mut taken) = (STEP, u64::MAX, 0, 0);
        loop {
            let charged = self.charged()?;
            // A program that brings back what was taken would have it taken for ever.
            (least, vain) = match charged < least {
                true => (charged, 0),
                false => (least, vain + 1),
            };
            if charged < goal.saturating_add(PAGE) || vain == VAIN {
                return Ok(taken);
            }
            let next = charged.saturating_sub(step).max(goal);
            // Somebody else may have changed it since the last step.
            let limit = self.max()?;
            // The kernel reclaims until the charge is below, and only then is this the limit. From there on it
            // would be the program that meets it, so it is put back at once.
            let lowered = self.set_max_v1(Some(next));
            if lowered != Err(Errno::BUSY) {
                // Raising one reclaims nothing, so a signal is met here once at most.
                let put = self.set_max_v1(limit).or_else(|_| self.set_max_v1(limit));
                put.map_err(|errno| self.io_error(FILE, errno))?;
            }
            match lowered {
                Ok(()) => taken += charged - next,
                Err(Errno::BUSY) if step / 2 >= LEAST => step /= 2,
                Err(Errno::BUSY | Errno::INTR) => return Ok(taken),
                Err(errno) => return Err(self.io_error(FILE, errno)),
            }
        }
    }
}
