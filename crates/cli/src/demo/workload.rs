//! The demo's program: an ordinary process that knows nothing of pagetide.
//!
//! It fills its memory with [`super::pages`], touches a fifth of it often (the lower the rank
//! the oftener, ranks scattered over the memory) and the rest now and then, rewrites every eighth
//! page it touches, checks every page it reads, and at the end all of them.
//!
//! Invariant: the checksum depends on the size and the number of operations alone.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::Parser;

use super::outcome::Outcome;
use super::pages::{self, PAGE};
use crate::failure::Failure;

/// The same sequence in every run.
const SEED: u64 = 0x7469_6465;

/// One touch in so many is anywhere, not only in the hot fifth.
const COLD_EVERY: u64 = 400;

/// One touch in so many rewrites the page.
const WRITE_EVERY: u64 = 8;

/// So many touches between two looks at the clock.
const BATCH: u64 = 1000;

/// How much work, and where to report.
#[derive(Parser, Debug)]
struct Work {
    #[arg(long)]
    mib: u32,
    /// For so long
    #[arg(long, required_unless_present = "ops")]
    seconds: Option<u32>,
    /// Exactly so many touches
    #[arg(long)]
    ops: Option<u64>,
    /// A descriptor to write the outcome to, else standard output
    #[arg(long)]
    result_fd: Option<u32>,
}

/// The whole program; its exit code.
pub(crate) fn workload() -> Result<u8, Failure> {
    let work = Work::parse_from(std::env::args_os().skip(1));
    let outcome = work.perform().map_err(|index| {
        Failure::new(
            format!("page {index} is wrong: its bytes are not what was written"),
            "memory was corrupted",
        )
    })?;
    let mut line = serde_json::to_vec(&outcome).unwrap_or_default();
    line.push(b'\n');
    match work.result_fd {
        None => std::io::stdout().write_all(&line)?,
        Some(fd) => {
            let path = format!("/proc/self/fd/{fd}");
            OpenOptions::new()
                .write(true)
                .open(path)?
                .write_all(&line)?;
        }
    }
    Ok(0)
}

impl Work {
    /// Fills, touches, checks; the index of a wrong page as the error.
    fn perform(&self) -> Result<Outcome, usize> {
        let begin = Instant::now();
        let mut memory = Memory::filled(usize::try_from(self.mib).unwrap_or(0).max(1) << 20);
        let filled = Instant::now();
        let mut random = SEED;
        let mut ops = 0;
        while self.goes_on(ops, filled) {
            let end = self.ops.map_or(BATCH, |all| (all - ops).min(BATCH));
            for _ in 0..end {
                memory.touch(pages::next(&mut random))?;
            }
            ops += end;
        }
        let touched = Instant::now();
        let checksum = memory.checksum()?;
        Ok(Outcome {
            checksum: format!("{checksum:016x}"),
            ops,
            fill_ms: ms(filled - begin),
            touch_ms: ms(touched - filled),
            check_ms: ms(touched.elapsed()),
        })
    }

    fn goes_on(&self, ops: u64, since: Instant) -> bool {
        match (self.ops, self.seconds) {
            (Some(all), _) => ops < all,
            (None, seconds) => since.elapsed().as_secs() < u64::from(seconds.unwrap_or(0)),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The workload's data.
struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    fn filled(size: usize) -> Memory {
        let mut bytes = vec![0; size];
        for (index, page) in bytes.chunks_exact_mut(PAGE).enumerate() {
            pages::fill(page, index as u64, 0);
        }
        Memory { bytes }
    }

    /// Reads the page that `random` names, checks it, and rewrites it at times.
    fn touch(&mut self, random: u64) -> Result<(), usize> {
        let index = self.pick(random);
        let page = &mut self.bytes[index * PAGE..][..PAGE];
        let (version, _) = pages::check(page, index as u64).ok_or(index)?;
        if (random >> 40).is_multiple_of(WRITE_EVERY) {
            pages::fill(page, index as u64, version + 1);
        }
        Ok(())
    }

    /// A rank with a density that falls as its cube root grows, scattered so that neighbours in
    /// rank are none in memory.
    fn pick(&self, random: u64) -> usize {
        let pages = (self.bytes.len() / PAGE) as u64;
        let u = random & 0xffff_ffff;
        let rank = if (random >> 48).is_multiple_of(COLD_EVERY) {
            (u * pages) >> 32
        } else {
            let cube = (((u * u) >> 32) * u) >> 32;
            (cube * (pages / 5)) >> 32
        };
        // A prime that divides no size we use, so a permutation of the pages; one whose inverse is
        // far from 0 modulo those sizes, so that neighbours in memory differ much in rank.
        const SCATTER: u64 = 30_403;
        usize::try_from(rank * SCATTER % pages).unwrap_or(0)
    }

    fn checksum(&self) -> Result<u64, usize> {
        let mut sum = 0;
        for (index, page) in self.bytes.chunks_exact(PAGE).enumerate() {
            let (version, hash) = pages::check(page, index as u64).ok_or(index)?;
            sum = (sum ^ hash ^ version)
                .rotate_left(7)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(ops: u64) -> Outcome {
        let work = Work {
            mib: 2,
            seconds: None,
            ops: Some(ops),
            result_fd: None,
        };
        work.perform().expect("sound memory")
    }

    #[test]
    fn the_checksum_follows_from_the_work_alone() {
        assert_eq!(work(5_500).ops, 5_500);
        assert_eq!(work(5_500).checksum, work(5_500).checksum);
        assert_ne!(work(5_500).checksum, work(5_501 + 64).checksum);
    }

    #[test]
    fn a_fifth_is_hot_and_scattered() {
        let memory = Memory {
            bytes: vec![0; 4 << 20],
        };
        let pages = memory.bytes.len() / PAGE;
        let mut touches = vec![0u32; pages];
        let mut random = SEED;
        for _ in 0..200_000 {
            touches[memory.pick(pages::next(&mut random))] += 1;
        }
        let hot = touches.iter().filter(|n| **n > 20).count();
        assert!((pages / 6..=pages / 5).contains(&hot), "{hot} of {pages}");
        let neighbours = touches.windows(2).filter(|two| two[0] > 20 && two[1] > 20);
        assert!(neighbours.count() < hot / 2);
    }

    #[test]
    fn a_wrong_page_is_found() {
        let mut memory = Memory::filled(1 << 20);
        assert!(memory.checksum().is_ok());
        memory.bytes[5 * PAGE + 100] ^= 1;
        assert_eq!(memory.checksum(), Err(5));
    }
}
