//! The demo's program: an ordinary process that knows nothing of pagetide.
//!
//! The program fills its memory with [`super::pages`], and then follows orders on its standard
//! input. The order for passes: make so many passes over the hot memory, in which each page is
//! checked and every eighth is rewritten. The last order: check all pages. One 2 MiB block in ten
//! is hot, so hot and cold blocks are neighbours, and a huge page is wholly hot or wholly cold.
//!
//! Invariant: the checksum depends only on the memory's size and the number of passes. The program
//! ends at the end of its input.

use std::io::{BufRead, Write};
use std::time::Instant;

use daemon::options::PAGE_LEN;
use serde::{Deserialize, Serialize};

use super::pages;
use crate::failure::Failure;

/// Bytes of a block, which is one huge page; blocks begin at multiples of this size.
pub(super) const BLOCK: usize = 2 << 20;
/// Number of blocks in the program's memory: 160 MiB.
pub(super) const BLOCKS: usize = 80;
/// One block in this many is hot.
const HOT_EVERY: usize = 10;
/// One page in this many is rewritten in a pass.
const WRITE_EVERY: u64 = 8;

/// An order to the program, one on a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Make this many passes over the hot memory.
    Passes(u64),
    /// Check all pages, then end.
    End,
}

/// A reply of the program, one on a line; the first is sent without an order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The memory is filled; its first block has this address.
    Ready(usize),
    /// The passes are done and took this many nanoseconds.
    Took(u64),
    /// A checksum of all pages and their versions.
    Checksum(String),
    /// The page with this index does not contain what was written to it.
    Wrong(usize),
}

/// Returns whether a block is hot.
pub(super) const fn is_hot(block: usize) -> bool {
    block.is_multiple_of(HOT_EVERY)
}

/// Number of pages that one pass checks.
pub(super) const HOT_PAGES: u64 = (BLOCKS / HOT_EVERY * (BLOCK / PAGE_LEN)) as u64;

/// Runs the program; returns its exit code.
pub(crate) fn workload() -> Result<u8, Failure> {
    let mut memory = Memory::filled(BLOCKS);
    let mut out = std::io::stdout().lock();
    write_answer(&mut out, &Answer::Ready(memory.address()))?;
    for line in std::io::stdin().lock().lines() {
        let Ok(order) = serde_json::from_str(&line?) else {
            break;
        };
        let answer = match order {
            Order::Passes(count) => memory.passes(count),
            Order::End => memory.checksum(),
        };
        write_answer(&mut out, &answer.unwrap_or_else(Answer::Wrong))?;
    }
    Ok(0)
}

fn write_answer(out: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(answer).unwrap_or_default())?;
    out.flush()
}

/// The program's memory: pages from the first multiple of [`BLOCK`] in `bytes` on.
struct Memory {
    bytes: Vec<u8>,
    begin: usize,
    blocks: usize,
    passes: u64,
}

impl Memory {
    fn filled(blocks: usize) -> Memory {
        let bytes = vec![0; (blocks + 1) * BLOCK];
        let begin = bytes.as_ptr().addr().next_multiple_of(BLOCK) - bytes.as_ptr().addr();
        let mut memory = Memory {
            bytes,
            begin,
            blocks,
            passes: 0,
        };
        for index in 0..blocks * BLOCK / PAGE_LEN {
            pages::fill(memory.page(index), index as u64, 0);
        }
        memory
    }

    fn address(&self) -> usize {
        self.bytes.as_ptr().addr() + self.begin
    }

    fn page(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[self.begin + index * PAGE_LEN..][..PAGE_LEN]
    }

    /// Makes `count` passes and returns their time. The error is the index of a page with wrong
    /// content.
    fn passes(&mut self, count: u64) -> Result<Answer, usize> {
        let begin = Instant::now();
        for _ in 0..count {
            for block in (0..self.blocks).filter(|block| is_hot(*block)) {
                self.pass(block)?;
            }
            self.passes += 1;
        }
        let took = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(Answer::Took(took))
    }

    fn pass(&mut self, block: usize) -> Result<(), usize> {
        let turn = self.passes;
        for index in block * BLOCK / PAGE_LEN..(block + 1) * BLOCK / PAGE_LEN {
            let page = self.page(index);
            let (version, _) = pages::check(page, index as u64).ok_or(index)?;
            if (index as u64 + turn).is_multiple_of(WRITE_EVERY) {
                pages::fill(page, index as u64, version + 1);
            }
        }
        Ok(())
    }

    fn checksum(&mut self) -> Result<Answer, usize> {
        let mut sum: u64 = 0;
        for index in 0..self.blocks * BLOCK / PAGE_LEN {
            let (version, hash) = pages::check(self.page(index), index as u64).ok_or(index)?;
            sum = (sum ^ hash ^ version)
                .rotate_left(7)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Ok(Answer::Checksum(format!("{sum:016x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(passes: &[u64]) -> Result<Answer, usize> {
        let mut memory = Memory::filled(2);
        for count in passes {
            memory.passes(*count)?;
        }
        memory.checksum()
    }

    #[test]
    fn the_checksum_follows_from_the_work_alone() {
        assert!(after(&[3]).is_ok());
        assert_eq!(after(&[3]), after(&[1, 2]));
        assert_ne!(after(&[3]), after(&[4]));
    }

    #[test]
    fn a_wrong_page_is_found() {
        let mut memory = Memory::filled(1);
        memory.page(5)[100] ^= 1;
        assert_eq!(memory.passes(1), Err(5));
        assert_eq!(memory.checksum(), Err(5));
        assert_eq!(memory.address() % BLOCK, 0);
    }
}
