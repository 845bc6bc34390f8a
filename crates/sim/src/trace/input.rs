//! The input of a trace: opens the file, decompresses it if it is zstd, and returns its bytes in
//! windows or lines.
//!
//! Invariant: at most [`BUFFER`] decompressed bytes are kept. A line longer than [`LINE_MAX`] is an
//! error, so a file without line breaks cannot fill memory.

use super::Reference;
use super::error::{Fault, Position, TraceError};
use super::unzstd::{Unzstd, UnzstdError, read_some};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

const BUFFER: usize = 512 << 10;
/// Maximum length of a line in a text format, bytes.
pub(super) const LINE_MAX: usize = 64 << 10;

/// An open trace.
pub(super) struct Input {
    file: PathBuf,
    stream: Counted,
    size: Option<u64>,
    unzstd: Option<Box<Unzstd>>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Number of decompressed bytes before `start`.
    offset: u64,
    lines: u64,
    ended: bool,
    /// Whether an end in the middle of a record or of the compressed data is accepted.
    pub(super) may_be_cut: bool,
}

/// What the user can do about a trace that ends too early.
pub(super) const CUT_OFF: &str =
    "the file was cut off: fetch or make it again, or read what is there with --cut-off";

/// A stream that counts the bytes read from it.
struct Counted {
    stream: Box<dyn Read>,
    bytes: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(out)?;
        self.bytes.set(self.bytes.get() + n as u64);
        Ok(n)
    }
}

impl Input {
    pub(super) fn open(file: &Path) -> Result<Self, TraceError> {
        let whole = |what: String, remedy: &'static str| TraceError {
            file: file.to_owned(),
            place: Position::Whole,
            what,
            remedy: remedy.into(),
        };
        let opened = File::open(file)
            .map_err(|error| whole(format!("cannot open it: {error}"), "give a readable file"))?;
        let meta = opened
            .metadata()
            .map_err(|error| whole(format!("cannot look at it: {error}"), "is it a file?"))?;
        if meta.is_dir() {
            return Err(whole("it is a directory".into(), "give a trace file"));
        }
        let size = (meta.is_file() && meta.len() > 0).then_some(meta.len());
        Self::new(file, Box::new(opened), size)
    }

    pub(super) fn new(
        file: &Path,
        stream: Box<dyn Read>,
        size: Option<u64>,
    ) -> Result<Self, TraceError> {
        let stream = Counted {
            stream,
            bytes: Rc::default(),
        };
        let mut input = Self {
            file: file.to_owned(),
            stream,
            size,
            unzstd: None,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            offset: 0,
            lines: 0,
            ended: false,
            may_be_cut: false,
        };
        let head = input.peek(4)?;
        if head.starts_with(&[0x1f, 0x8b]) {
            let fault = Fault::new(
                "it is compressed with gzip",
                "decompress it (`zcat FILE > PLAIN`), or recompress it with zstd",
            );
            return Err(input.whole(fault));
        }
        if is_zstd(head) {
            input.unzstd = Some(Box::new(Unzstd::new(&input.buffer[input.start..input.end])));
            (input.start, input.end, input.ended) = (0, 0, false);
        }
        Ok(input)
    }

    /// Returns the file name.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Makes `want` bytes (at most half of the buffer) available, and returns all available bytes.
    /// These are fewer than `want` only at the end of the input.
    pub(super) fn peek(&mut self, want: usize) -> Result<&[u8], TraceError> {
        debug_assert!(want <= BUFFER / 2);
        while self.end - self.start < want && !self.ended {
            if self.buffer.len() - self.end < want {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            }
            let room = &mut self.buffer[self.end..];
            let read = match &mut self.unzstd {
                Some(unzstd) => unzstd.read(&mut self.stream, room),
                None => read_some(&mut self.stream, room).map_err(UnzstdError::Io),
            };
            match read {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(UnzstdError::Truncated) if self.may_be_cut => self.ended = true,
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Skips `n` of the bytes that [`Self::peek`] returned.
    pub(super) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    /// Returns up to `room` complete records of `N` bytes, without consuming them; none at the end.
    /// An incomplete record is an error, or the end if the trace may be cut off.
    pub(super) fn records<const N: usize>(
        &mut self,
        room: usize,
    ) -> Result<&[[u8; N]], TraceError> {
        let may_be_cut = self.may_be_cut;
        let held = self.peek(N)?.len();
        if (1..N).contains(&held) && !may_be_cut {
            let what = format!("it ends {held} bytes into a record of {N}");
            return Err(self.at_byte(Fault::new(what, CUT_OFF)));
        }
        let (records, _) = self.buffer[self.start..self.end].as_chunks::<N>();
        Ok(&records[..records.len().min(room)])
    }

    /// Parses records of `N` bytes and adds references to `out`, until it has `room` more or the
    /// input ends. `parse` returns `None` for a record that is not a reference. An error has the
    /// position of its record.
    pub(super) fn parse_records<const N: usize>(
        &mut self,
        out: &mut Vec<Reference>,
        room: usize,
        mut parse: impl FnMut(&[u8; N]) -> Result<Option<Reference>, Fault>,
    ) -> Result<(), TraceError> {
        let full = out.len() + room;
        while out.len() < full {
            let records = self.records::<N>(full - out.len())?;
            let (mut used, mut fault) = (0, None);
            // Reserves space once for all records.
            out.reserve(records.len());
            for record in records {
                match parse(record) {
                    // Copied field by field. If the value is moved as a whole, its padding makes
                    // the processor wait for partial stores.
                    Ok(Some(Reference { page, time, kind })) => {
                        out.push(Reference { page, time, kind });
                    }
                    Ok(None) => {}
                    Err(found) => {
                        fault = Some(found);
                        break;
                    }
                }
                used += N;
            }
            self.consume(used);
            if let Some(fault) = fault {
                return Err(self.at_byte(fault));
            }
            if used == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Returns the next line with its line break, which the last line may lack; `None` after the
    /// last line.
    pub(super) fn line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let mut shown = self.end - self.start;
        let length = loop {
            let bytes = &self.buffer[self.start..self.start + shown];
            if let Some(at) = bytes.iter().take(LINE_MAX).position(|&b| b == b'\n') {
                break at + 1;
            }
            if shown >= LINE_MAX {
                self.lines += 1;
                let what = format!("a line of more than {LINE_MAX} bytes");
                return Err(self.at_line(Fault::new(what, "is this a text trace? see --format")));
            }
            let more = self.peek(LINE_MAX)?.len();
            if more == shown {
                break shown;
            }
            shown = more;
        };
        if length == 0 {
            return Ok(None);
        }
        self.lines += 1;
        let at = self.start;
        self.consume(length);
        Ok(Some(&self.buffer[at..at + length]))
    }

    /// Makes an error at the line that was read last.
    pub(super) fn at_line(&self, fault: Fault) -> TraceError {
        self.error(Position::Line(self.lines.max(1)), fault)
    }

    /// Makes an error at the next byte.
    pub(super) fn at_byte(&self, fault: Fault) -> TraceError {
        self.error(Position::Byte(self.offset), fault)
    }

    /// Makes an error about the whole file.
    pub(super) fn whole(&self, fault: Fault) -> TraceError {
        self.error(Position::Whole, fault)
    }

    pub(super) fn error(&self, place: Position, fault: Fault) -> TraceError {
        TraceError {
            file: self.file.clone(),
            place,
            what: fault.what,
            remedy: fault.remedy,
        }
    }

    fn broken(&self, error: &UnzstdError) -> TraceError {
        let held = (self.end - self.start) as u64;
        let place = Position::Byte(self.offset + held);
        let fault = match error {
            UnzstdError::Io(error) => Fault::new(
                format!("cannot read on: {error}"),
                "is the disk or the file system damaged?",
            ),
            UnzstdError::Damaged(why) => Fault::new(
                format!("cannot decompress on: {why}"),
                "fetch or make the file again; windows above 128 MiB (`zstd --long`) must be \
                 recompressed without",
            ),
            UnzstdError::Truncated => Fault::new("the compressed data ends in the middle", CUT_OFF),
        };
        self.error(place, fault)
    }

    /// Returns the share of the file's bytes that were read, 0 to 1; `None` if its size is unknown.
    #[expect(clippy::cast_precision_loss, reason = "a share to be drawn")]
    pub(super) fn progress(&self) -> Option<f64> {
        let size = self.size? as f64;
        Some((self.stream.bytes.get() as f64 / size).min(1.0))
    }
}

/// Returns whether `head` begins with a zstd frame or a skippable frame.
fn is_zstd(head: &[u8]) -> bool {
    let Some(&magic) = head.first_chunk::<4>() else {
        return false;
    };
    let magic = u32::from_le_bytes(magic);
    magic == 0xfd2f_b528 || magic & 0xffff_fff0 == 0x184d_2a50
}
