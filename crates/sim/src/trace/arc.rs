//! Reads the block traces of the ARC paper (FAST'03). A line is `start nblocks ignored request`:
//! `nblocks` consecutive blocks from `start` on. Each block is one reference.

use super::error::{Fault, TraceError, shown};
use super::input::Input;
use super::{Kind, Reference, Source};
use std::ops::Range;

/// Maximum number of blocks in a request: 2^24 blocks of 512 bytes are 8 GiB. A request of more
/// counts as damage.
const BLOCKS_MAX: u64 = 1 << 24;

pub(super) struct Arc {
    input: Input,
    /// The remaining blocks of the last request that was read.
    rest: Range<u64>,
}

impl Arc {
    pub(super) const fn new(input: Input) -> Self {
        Self { input, rest: 0..0 }
    }
}

/// Returns the blocks of one line; `None` for an empty line.
fn parse(line: &[u8]) -> Result<Option<Range<u64>>, Fault> {
    let mut fields = line
        .split(u8::is_ascii_whitespace)
        .filter(|f| !f.is_empty());
    let mut numbers = [0; 4];
    for (n, number) in numbers.iter_mut().enumerate() {
        match fields.next() {
            Some(field) => *number = parse_number(field)?,
            None if n == 0 => return Ok(None),
            None => return Err(Fault::new(format!("{n} fields instead of 4"), LINES)),
        }
    }
    if fields.next().is_some() {
        return Err(Fault::new("more than 4 fields", LINES));
    }
    let [start, blocks, ..] = numbers;
    if !(1..=BLOCKS_MAX).contains(&blocks) {
        let what = format!("a request of {blocks} blocks; 1 to {BLOCKS_MAX} are believed");
        return Err(Fault::new(what, LINES));
    }
    let end = start
        .checked_add(blocks)
        .ok_or_else(|| Fault::new(format!("block {start} + {blocks} is beyond 64 bits"), LINES))?;
    Ok(Some(start..end))
}

const LINES: &str = "lines are `start nblocks ignored request`; `--format` names other formats";

fn parse_number(field: &[u8]) -> Result<u64, Fault> {
    let number = std::str::from_utf8(field).ok().and_then(|f| f.parse().ok());
    number.ok_or_else(|| Fault::new(format!("`{}` is no number", shown(field)), LINES))
}

impl Source for Arc {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let full = out.len() + room;
        loop {
            let room = full - out.len();
            out.extend(self.rest.by_ref().take(room).map(|page| Reference {
                page,
                time: 0,
                kind: Kind::Access,
            }));
            if out.len() == full {
                return Ok(());
            }
            let Some(line) = self.input.line()? else {
                return Ok(());
            };
            match parse(line) {
                Ok(Some(blocks)) => self.rest = blocks,
                Ok(None) => {}
                Err(fault) => return Err(self.input.at_line(fault)),
            }
        }
    }

    fn input(&self) -> &Input {
        &self.input
    }
}
