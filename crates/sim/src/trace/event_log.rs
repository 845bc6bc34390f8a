//! pagetide's own log of a real program, as `run --record` writes it.
//!
//! After [`MAGIC`] come records of 16 bytes, little-endian: u64 time in milliseconds, then u64
//! `space << 49 | page << 4 | event`. The last one is [`LogEvent::End`], whose upper 60 bits are
//! the number of records before it: a log without it was cut off.
//!
//! A page here is `space << 45 | page number`: pages of two processes are never the same. What the
//! pager learns of touches is at most one a page and aging interval.

use super::error::{Fault, TraceError};
use super::input::{CUT_OFF, Input};
use super::{Kind, Reference, Source};

/// What the file begins with.
pub const MAGIC: [u8; 16] = *b"pagetide-events1";

const RECORD: usize = 16;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LogEvent {
    /// The page was seen for the first time.
    FirstTouch = 0,
    /// It was touched since the last look.
    Touched = 1,
    /// It was touched while it was out, and came back.
    Refault = 2,
    /// It came back beside one that was touched.
    Readahead = 3,
    /// It left.
    Evicted = 4,
    /// Its program removed it.
    Unmapped = 5,
    /// An aging pass ended.
    Aged = 6,
    /// The log ends; the page is the number of records.
    End = 15,
}

impl LogEvent {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::FirstTouch,
        Self::Touched,
        Self::Refault,
        Self::Readahead,
        Self::Evicted,
        Self::Unmapped,
        Self::Aged,
        Self::End,
    ];

    /// Whether the program referenced the page.
    #[must_use]
    pub const fn is_reference(self) -> bool {
        matches!(self, Self::FirstTouch | Self::Touched | Self::Refault)
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Milliseconds since the recording began.
    pub time: u64,
    /// Space and page number, or what the event says.
    pub page: u64,
    /// What happened.
    pub event: LogEvent,
}

/// The bytes of a record.
#[must_use]
pub fn encode(record: LogRecord) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..8].copy_from_slice(&record.time.to_le_bytes());
    let key = record.page << 4 | record.event as u64;
    bytes[8..].copy_from_slice(&key.to_le_bytes());
    bytes
}

fn decode(bytes: [u8; RECORD]) -> Result<LogRecord, Fault> {
    let value = u128::from_le_bytes(bytes);
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    let (time, key) = (value as u64, (value >> 64) as u64);
    let event = LogEvent::ALL.into_iter().find(|e| *e as u64 == key & 15);
    let event = event.ok_or_else(|| {
        let what = format!("there is no event {}", key & 15);
        Fault::new(what, "the log is damaged, or of a newer pagetide")
    })?;
    Ok(LogRecord {
        time,
        page: key >> 4,
        event,
    })
}

pub(super) struct EventLog {
    input: Input,
    records: u64,
    time: u64,
    left_out: u64,
    ended: bool,
}

impl EventLog {
    pub(super) fn new(mut input: Input) -> Result<Self, TraceError> {
        if !input.peek(MAGIC.len())?.starts_with(&MAGIC) {
            let what = "it does not begin as an event log of pagetide does";
            let remedy = "`pagetide run --record FILE` makes one; `--format` names other formats";
            return Err(input.at_byte(Fault::new(what, remedy)));
        }
        input.consume(MAGIC.len());
        Ok(Self {
            input,
            records: 0,
            time: 0,
            left_out: 0,
            ended: false,
        })
    }

    /// The next record but the last; `None` at the end.
    fn next(&mut self) -> Result<Option<LogRecord>, TraceError> {
        let Some(&bytes) = self.input.records::<RECORD>(1)?.first() else {
            if self.ended || self.input.may_be_cut {
                return Ok(None);
            }
            let what = format!(
                "the log ends without its last record, after {}",
                self.records
            );
            return Err(self.input.at_byte(Fault::new(what, CUT_OFF)));
        };
        let record = decode(bytes).and_then(|record| self.judge(record));
        let record = record.map_err(|fault| self.input.at_byte(fault))?;
        self.input.consume(RECORD);
        if record.event == LogEvent::End {
            self.ended = true;
            return self.next();
        }
        (self.records, self.time) = (self.records + 1, record.time);
        Ok(Some(record))
    }

    fn judge(&self, record: LogRecord) -> Result<LogRecord, Fault> {
        const DAMAGED: &str = "the log is damaged: make it again";
        if self.ended {
            return Err(Fault::new("a record after the last", DAMAGED));
        }
        if record.time < self.time {
            let what = format!("time goes back from {} to {} ms", self.time, record.time);
            return Err(Fault::new(what, DAMAGED));
        }
        if record.event == LogEvent::End && record.page != self.records {
            let what = format!(
                "{} records were written, {} are here",
                record.page, self.records
            );
            return Err(Fault::new(what, DAMAGED));
        }
        Ok(record)
    }
}

impl Source for EventLog {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let full = out.len() + room;
        while out.len() < full {
            let Some(record) = self.next()? else { break };
            if record.event.is_reference() {
                out.push(Reference {
                    page: record.page,
                    time: record.time,
                    kind: Kind::Access,
                });
            } else {
                self.left_out += 1;
            }
        }
        Ok(())
    }

    fn input(&self) -> &Input {
        &self.input
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}
