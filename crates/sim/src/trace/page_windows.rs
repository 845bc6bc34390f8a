//! Reads page touches in windows of time: little-endian u64 records `(page << 2) | kind`, with kind
//! 0 fetch, 1 read, 2 write. A record with all bits set ends a window. The time of a reference is
//! the number of its window.

use super::error::{Fault, TraceError};
use super::input::Input;
use super::{Kind, Reference, Source};

const RECORD: usize = 8;
const END_OF_WINDOW: u64 = u64::MAX;

pub(super) struct PageWindows {
    input: Input,
    window: u64,
}

impl PageWindows {
    pub(super) const fn new(input: Input) -> Self {
        Self { input, window: 0 }
    }
}

/// The meaning of a record.
enum Record {
    Touch(u64, Kind),
    EndOfWindow,
}

fn parse(record: [u8; RECORD]) -> Result<Record, Fault> {
    let record = u64::from_le_bytes(record);
    let kind = match record & 3 {
        0 => Kind::Fetch,
        1 => Kind::Read,
        2 => Kind::Write,
        _ if record == END_OF_WINDOW => return Ok(Record::EndOfWindow),
        _ => {
            let what = format!("record {record:#x} has kind 3; there are 0, 1 and 2");
            let remedy = "is it a page-window trace? `--format` names other formats";
            return Err(Fault::new(what, remedy));
        }
    };
    Ok(Record::Touch(record >> 2, kind))
}

impl Source for PageWindows {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let Self { input, window } = self;
        input.parse_records::<RECORD>(out, room, |&record| {
            Ok(match parse(record)? {
                Record::Touch(page, kind) => Some(Reference {
                    page,
                    time: *window,
                    kind,
                }),
                Record::EndOfWindow => {
                    *window += 1;
                    None
                }
            })
        })
    }

    fn input(&self) -> &Input {
        &self.input
    }
}
