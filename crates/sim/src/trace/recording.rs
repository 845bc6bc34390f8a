//! Reads recordings of real programs, which `pagetide run --record` makes. The references are the
//! pages that each scan found accessed, in a random order that is the same each time.
//!
//! Invariant: only complete scans are read. If a recording was cut off (its manager was killed, or
//! still writes it), reading ends after the last complete scan, and [`Recording::note`] says so.
//! Damage in the middle is an error.
//!
//! The number of a page is `space << 45 | page number`, so pages of two processes are always
//! different.

use event_log::frame::{FRAME_MAX, PREFIX, Split, split};
use event_log::{Decoded, Decoder, MAGIC, Scan};

use super::error::{Fault, TraceError};
use super::input::{CUT_OFF, Input};
use super::{Kind, Reference, Source};

/// A recording that is being read.
pub(super) struct Recording {
    input: Input,
    decoder: Decoder,
    scan: Scan,
    /// Index of the current unit in the current scan, and (`bits`) its remaining pages.
    at: usize,
    bits: u64,
    left_out: u64,
    /// Number of references after the first scan, and (`unknown`) number of pages among them for
    /// which it is unknown whether they were referenced.
    reported: u64,
    unknown: u64,
    has_ended: bool,
    is_cut: bool,
}

/// What comes next in a recording.
pub(super) enum Next {
    /// A scan.
    Scan(Scan),
    /// The end.
    End,
}

impl Recording {
    pub(super) fn new(mut input: Input) -> Result<Self, TraceError> {
        if !input.peek(MAGIC.len())?.starts_with(&MAGIC) {
            let what = "it does not begin as a recording of pagetide does";
            let remedy = "`pagetide run --record FILE` makes one; `--format` names other formats";
            return Err(input.at_byte(Fault::new(what, remedy)));
        }
        input.consume(MAGIC.len());
        Ok(Self {
            input,
            decoder: Decoder::default(),
            scan: Scan::default(),
            at: 0,
            bits: 0,
            left_out: 0,
            reported: 0,
            unknown: 0,
            has_ended: false,
            is_cut: false,
        })
    }

    /// Reads the next scan.
    pub(super) fn next(&mut self) -> Result<Next, TraceError> {
        const DAMAGED: &str = "the recording is damaged: make it again";
        loop {
            let mut held = self.input.peek(PREFIX)?;
            if held.is_empty() || self.is_cut {
                self.is_cut |= !self.has_ended;
                return Ok(Next::End);
            }
            if let Split::Needs(bytes) = split(held) {
                held = self.input.peek(bytes.min(PREFIX + FRAME_MAX))?;
            }
            let (content, damaged) = match split(held) {
                Split::Whole(content) => (content, "no frame: its checksum is another"),
                // The file ends in the middle of a frame.
                Split::Needs(_) => {
                    self.is_cut = true;
                    continue;
                }
                Split::Damaged => (
                    &[][..],
                    "no frame: its length or its checksum makes no sense",
                ),
            };
            let length = PREFIX + content.len();
            let decoded = match content {
                [] => Err(event_log::Damaged(damaged)),
                content => self.decoder.frame(content),
            };
            match decoded {
                Err(_) if self.input.may_be_cut => self.is_cut = true,
                Err(damaged) => {
                    let remedy = format!("{DAMAGED}, or {CUT_OFF}");
                    return Err(self.input.at_byte(Fault::new(damaged.0, remedy)));
                }
                Ok(decoded) => {
                    self.input.consume(length);
                    self.has_ended |= decoded == Decoded::End;
                    if decoded == Decoded::Scan {
                        return Ok(Next::Scan(self.decoder.scan()));
                    }
                }
            }
        }
    }

    /// Returns a remark for the user about the recording, as far as it was read; `None` if there is
    /// none.
    pub(super) fn words(&self) -> Option<String> {
        let mut notes = Vec::new();
        if self.is_cut {
            notes.push(format!(
                "it has no end: its manager was killed, or still writes; {} looks are whole",
                self.decoder.scans()
            ));
        }
        if self.unknown > 0 {
            let per_mille = u128::from(self.unknown) * 1000 / u128::from(self.reported.max(1));
            notes.push(format!(
                "of {}.{}% of the references nobody knows whether they were any: the bits were not cleared",
                per_mille / 10,
                per_mille % 10
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Reads the next scan and makes it the current one; returns false at the end.
    fn next_scan(&mut self) -> Result<bool, TraceError> {
        let Next::Scan(scan) = self.next()? else {
            return Ok(false);
        };
        let pages = |units: &[event_log::Unit]| -> u64 {
            units
                .iter()
                .map(|unit| u64::from(unit.bits.count_ones()))
                .sum()
        };
        self.left_out += scan.left + pages(&scan.unmapped);
        if self.decoder.scans() > 1 {
            self.reported += pages(&scan.accessed);
            self.unknown += scan.unknown;
        }
        (self.scan, self.at) = (scan, 0);
        self.bits = self.scan.accessed.first().map_or(0, |unit| unit.bits);
        Ok(true)
    }
}

impl Source for Recording {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let full = out.len() + room;
        while out.len() < full {
            let Some(unit) = self.scan.accessed.get(self.at) else {
                if !self.next_scan()? {
                    break;
                }
                continue;
            };
            let (page, time) = (
                unit.first + u64::from(self.bits.trailing_zeros()),
                self.scan.now_ms,
            );
            out.push(Reference {
                page,
                time,
                kind: Kind::Access,
            });
            self.bits &= self.bits - 1;
            if self.bits == 0 {
                self.at += 1;
                self.bits = self.scan.accessed.get(self.at).map_or(0, |unit| unit.bits);
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

    fn note(&self) -> Option<String> {
        self.words()
    }
}
