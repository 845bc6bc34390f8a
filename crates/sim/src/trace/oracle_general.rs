//! Reads libCacheSim's format oracleGeneral: records of 24 bytes, little-endian: u32 time, u64
//! object, u32 size, i64 index of the object's next request.
//!
//! Requests of size 0 are skipped, as in libCacheSim. The index of the next request is not used,
//! only checked: it must be -1, the largest number, or a later index. So a file of another format
//! is detected.

use super::error::{Fault, TraceError};
use super::input::Input;
use super::{Kind, Reference, Source};

const RECORD: usize = 24;

pub(super) struct OracleGeneral {
    input: Input,
    index: u64,
    left_out: u64,
}

impl OracleGeneral {
    pub(super) const fn new(input: Input) -> Self {
        Self {
            input,
            index: 0,
            left_out: 0,
        }
    }
}

/// Upper bound of request indices. It is above those of any trace, and below the number that eight
/// bytes of text make.
const REQUESTS_MAX: u64 = 1 << 48;

/// Parses request number `index`; `None` if its size is 0.
#[inline(always)]
fn parse(record: &[u8; RECORD], index: u64) -> Result<Option<Reference>, Fault> {
    let (time, object) = (word(record, 0), long(record, 4));
    let (size, next) = (word(record, 12), long(record, 16).cast_signed());
    let never = next == -1 || next == i64::MAX;
    // Eight letters also make a number, but a larger one than any trace has requests.
    let is_number = |next: &u64| *next < REQUESTS_MAX;
    let next_index = u64::try_from(next).ok().filter(is_number);
    let ahead = next_index.is_some_and(|next| next > index);
    if !never && !ahead {
        return Err(astray(index, next));
    }
    let reference = Reference {
        page: object,
        time: u64::from(time),
        kind: Kind::Access,
    };
    Ok((size > 0).then_some(reference))
}

#[cold]
fn astray(index: u64, next: i64) -> Fault {
    let what = format!("request {index}: its object's next request is said to be {next}");
    Fault::new(what, NOT_THIS)
}

const NOT_THIS: &str = "is it oracleGeneral? `--format` names other formats; else make it again";

fn word(record: &[u8; RECORD], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&record[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn long(record: &[u8; RECORD], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[at..at + 8]);
    u64::from_le_bytes(bytes)
}

impl Source for OracleGeneral {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let Self {
            input,
            index,
            left_out,
        } = self;
        input.parse_records::<RECORD>(out, room, |record| {
            let reference = parse(record, *index)?;
            *index += 1;
            *left_out += u64::from(reference.is_none());
            Ok(reference)
        })
    }

    fn input(&self) -> &Input {
        &self.input
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}
