//! A tenant's process: it touches as many pages as it is told on its standard input, and says when it has.
//!
//! Invariant: nearly all that its group is charged with is what it touches: it has taken the memory of its own before it
//! goes there. Between two orders another process has run, so the processor has forgotten its page tables
//! and sets accessed bits anew.

use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use touches::case::Case;
use touches::stream::{Stream, Touch};

use crate::{case, groups, number};

/// The first argument of a worker.
pub(crate) const ARGUMENT: &str = "worker";
const PAGE: usize = 4096;
/// What one page table maps: the simulator's spaces begin with one, too.
const TABLE: usize = 512 * PAGE;
/// Bytes of an order and of its answer.
pub(crate) const WORD: usize = 8;

/// Runs a worker until its standard input ends.
pub(crate) fn main(name: &str, tenant: &str, seed: &str, group: &str) -> Result<(), String> {
    let case: &Case = case(name)?;
    let tenant = usize::try_from(number(tenant)?).map_err(|error| error.to_string())?;
    let stream = Stream::new(case, tenant, number(seed)?);
    let pages = case.tenants[tenant].pages as usize;
    // Zeroed memory of this size is mapped and not touched.
    let memory = vec![0_u8; pages * PAGE + TABLE];
    let first = memory.as_ptr().align_offset(TABLE);
    let mut worker = Worker {
        stream,
        memory,
        first,
    };
    groups::enter(Path::new(group))?;
    worker
        .obey()
        .map_err(|error| format!("worker: cannot talk: {error}"))
}

struct Worker {
    stream: Stream,
    memory: Vec<u8>,
    /// Where its first page begins.
    first: usize,
}

impl Worker {
    /// Answers each order with the checksum of all touches so far; the first answer says that it is ready.
    fn obey(&mut self) -> std::io::Result<()> {
        let (mut orders, mut answers) = (std::io::stdin(), std::io::stdout());
        let mut word = [0; WORD];
        loop {
            answers.write_all(&self.stream.checksum().to_le_bytes())?;
            answers.flush()?;
            match orders.read_exact(&mut word) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                read => read?,
            }
            for _ in 0..u64::from_le_bytes(word) {
                let Some(touch) = self.stream.next() else {
                    break;
                };
                self.touch(touch);
            }
        }
    }

    /// Lines differ from page to page, as in most programs. What is written is never 0, for the kernel
    /// stores no page of zeros.
    fn touch(&mut self, touch: Touch) {
        let page = touch.page as usize;
        let byte = &mut self.memory[self.first + page * PAGE + page % 64 * 64];
        if touch.write {
            *byte = black_box(*byte).wrapping_add(2) | 1;
        } else {
            black_box(*byte);
        }
    }
}
