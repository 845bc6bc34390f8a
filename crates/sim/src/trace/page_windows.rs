//! Page touches by windows: little-endian u64 records, (page << 2) | kind with kind 0 fetch, 1 read,
//! 2 write; all ones ends a window. The time of a reference is the number of its window.

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

fn kind(record: u64) -> Option<Kind> {
    match record & 3 {
        0 => Some(Kind::Fetch),
        1 => Some(Kind::Read),
        2 => Some(Kind::Write),
        _ => None,
    }
}

impl Source for PageWindows {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let before = out.len();
        while out.len() - before < room {
            let Some(record) = self.input.record::<RECORD>()? else {
                break;
            };
            let record = u64::from_le_bytes(record);
            if record == END_OF_WINDOW {
                self.window += 1;
            } else if let Some(kind) = kind(record) {
                out.push(Reference {
                    page: record >> 2,
                    time: self.window,
                    kind,
                });
            } else {
                let what = format!("record {record:#x} has kind 3; there are 0, 1 and 2");
                let remedy = "is it a page-window trace? `--format` names other formats";
                return Err(self.input.at_byte(Fault::new(what, remedy)));
            }
            self.input.consume(RECORD);
        }
        Ok(())
    }

    fn input(&self) -> &Input {
        &self.input
    }
}
