//! The program of a tenant's process. It reads from its standard input how many touches to do next,
//! and reports on its standard output when it has done them.
//!
//! Invariant: nearly all memory charged to the group is the pages that this process touches,
//! because it enters the group after its own memory was allocated. Before each order another
//! process has run, so the processor has dropped its cached translations and sets accessed bits
//! again.

use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use touches::case::{Case, PAGE_LEN};
use touches::stream::{Stream, Touch};

use crate::{case, groups, number};

/// First argument of this program that makes it run as a tenant's process.
pub(crate) const ARGUMENT: &str = "worker";
/// Number of bytes that one page table maps. The touched memory begins at a multiple of this, like
/// the address spaces of the simulator.
const TABLE: usize = 512 * PAGE_LEN;
/// Length in bytes of an order (a number of touches), and of a report (a checksum).
pub(crate) const WORD: usize = 8;

/// Runs as a tenant's process until the standard input ends. The arguments are those of the command
/// line.
pub(crate) fn main(name: &str, tenant: &str, seed: &str, group: &str) -> Result<(), String> {
    let case: &Case = case(name)?;
    let tenant = usize::try_from(number(tenant)?).map_err(|error| error.to_string())?;
    let stream = Stream::new(case, tenant, number(seed)?);
    let pages = case.tenants[tenant].pages as usize;
    // Zeroed memory of this size is mapped, but has no page before the page is touched.
    let memory = vec![0_u8; pages * PAGE_LEN + TABLE];
    let first = memory.as_ptr().align_offset(TABLE);
    let mut worker = Worker {
        stream,
        memory,
        first,
    };
    groups::enter(Path::new(group))?;
    worker
        .serve_orders()
        .map_err(|error| format!("worker: cannot talk: {error}"))
}

/// The state of a tenant's process.
struct Worker {
    stream: Stream,
    memory: Vec<u8>,
    /// Offset in `memory` of the first page to touch, bytes.
    first: usize,
}

impl Worker {
    /// Reads orders until the input ends. For each, does the touches and then reports the checksum
    /// of all touches so far. The report before the first order says that the process is ready.
    fn serve_orders(&mut self) -> std::io::Result<()> {
        let (mut orders, mut reports) = (std::io::stdin(), std::io::stdout());
        let mut word = [0; WORD];
        loop {
            reports.write_all(&self.stream.checksum().to_le_bytes())?;
            reports.flush()?;
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

    /// Does one touch. The touched cache line differs from page to page, as in most programs. A
    /// written byte is never 0, because the kernel does not store pages of zeros in swap.
    fn touch(&mut self, touch: Touch) {
        let page = touch.page as usize;
        let byte = &mut self.memory[self.first + page * PAGE_LEN + page % 64 * 64];
        if touch.write {
            *byte = black_box(*byte).wrapping_add(2) | 1;
        } else {
            black_box(*byte);
        }
    }
}
