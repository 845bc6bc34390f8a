//! Recordings of real programs, as `pagetide run --record` writes them: each look's pages are its references, in an
//! order that chance chose, the same each time.
//!
//! Invariant: whole looks alone are read. A recording that was cut off (its manager was killed, or still writes)
//! ends with its last whole look, and [`Recording::note`] tells so; what is damaged in the middle is an error.
//!
//! A page here is `space << 45 | page number`: pages of two processes are never the same.

use event_log::frame::{FRAME_MAX, PREFIX, Split, split};
use event_log::{Decoded, Decoder, Look, MAGIC};

use super::error::{Fault, TraceError};
use super::input::{CUT_OFF, Input};
use super::{Kind, Reference, Source};

/// Reads one.
pub(super) struct Recording {
    input: Input,
    decoder: Decoder,
    look: Look,
    /// The unit of the look that comes next, and which of its pages are left.
    at: usize,
    bits: u64,
    left_out: u64,
    /// After the first look: references, and those of which nobody knows whether they were any.
    told: u64,
    unknown: u64,
    has_ended: bool,
    is_cut: bool,
}

/// What comes next.
pub(super) enum Next {
    /// A look.
    Look(Look),
    /// Nothing.
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
            look: Look::default(),
            at: 0,
            bits: 0,
            left_out: 0,
            told: 0,
            unknown: 0,
            has_ended: false,
            is_cut: false,
        })
    }

    /// The next look.
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
                    if decoded == Decoded::Look {
                        return Ok(Next::Look(self.decoder.look()));
                    }
                }
            }
        }
    }

    /// What a reader should know of it, read so far.
    pub(super) fn words(&self) -> Option<String> {
        let mut notes = Vec::new();
        if self.is_cut {
            notes.push(format!(
                "it has no end: its manager was killed, or still writes; {} looks are whole",
                self.decoder.looks()
            ));
        }
        if self.unknown > 0 {
            let per_mille = u128::from(self.unknown) * 1000 / u128::from(self.told.max(1));
            notes.push(format!(
                "of {}.{}% of the references nobody knows whether they were any: the bits were not cleared",
                per_mille / 10,
                per_mille % 10
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Begins the next look; false at the end.
    fn turn(&mut self) -> Result<bool, TraceError> {
        let Next::Look(look) = self.next()? else {
            return Ok(false);
        };
        let pages = |units: &[event_log::Unit]| -> u64 {
            units
                .iter()
                .map(|unit| u64::from(unit.bits.count_ones()))
                .sum()
        };
        self.left_out += look.left + pages(&look.unmapped);
        if self.decoder.looks() > 1 {
            self.told += pages(&look.accessed);
            self.unknown += look.unknown;
        }
        (self.look, self.at) = (look, 0);
        self.bits = self.look.accessed.first().map_or(0, |unit| unit.bits);
        Ok(true)
    }
}

impl Source for Recording {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let full = out.len() + room;
        while out.len() < full {
            let Some(unit) = self.look.accessed.get(self.at) else {
                if !self.turn()? {
                    break;
                }
                continue;
            };
            let (page, time) = (
                unit.first + u64::from(self.bits.trailing_zeros()),
                self.look.now_ms,
            );
            out.push(Reference {
                page,
                time,
                kind: Kind::Access,
            });
            self.bits &= self.bits - 1;
            if self.bits == 0 {
                self.at += 1;
                self.bits = self.look.accessed.get(self.at).map_or(0, |unit| unit.bits);
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
