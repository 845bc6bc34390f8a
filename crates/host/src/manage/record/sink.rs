//! The file of a recording.
//!
//! Invariant: it holds what was written whole; what could not be is cut off again. It is never longer than its bound.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

/// Where looks go.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    bytes: u64,
    max_bytes: u64,
    /// Why nothing more is written; the end was written where this is none and it is closed.
    stopped: Option<String>,
    is_closed: bool,
}

impl Sink {
    pub(super) const fn new(file: File, max_bytes: u64) -> Sink {
        Sink {
            file,
            bytes: 0,
            max_bytes,
            stopped: None,
            is_closed: false,
        }
    }

    /// Writes a look, if it and the end of the recording fit; whether it is in the file.
    pub(super) fn write(&mut self, look: &[u8], end: &[u8]) -> bool {
        if self.is_closed {
            return false;
        }
        let after = self.bytes + look.len() as u64;
        if after + end.len() as u64 > self.max_bytes {
            let why = format!("it has come to {} bytes (--record-max)", self.bytes);
            self.stop(why);
            return false;
        }
        self.put(look)
    }

    fn put(&mut self, bytes: &[u8]) -> bool {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.bytes += bytes.len() as u64;
                true
            }
            Err(error) => {
                // Half a look is no look.
                let _ = self.file.set_len(self.bytes);
                let _ = self.file.seek(SeekFrom::Start(self.bytes));
                self.stop(format!("it cannot be written: {error}"));
                false
            }
        }
    }

    /// Nothing more is written, and why.
    pub(super) fn stop(&mut self, why: String) {
        self.is_closed = true;
        self.stopped.get_or_insert(why);
    }

    /// Writes the end; once, also where it was stopped, if there is room for it.
    pub(super) fn finish(&mut self, end: &[u8]) {
        let was_stopped = self.stopped.is_some();
        if !self.is_closed || was_stopped {
            self.is_closed = true;
            let _ = self.put(end);
        }
    }

    /// Whether nothing more is written.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Why that is, if nobody asked for it.
    pub(super) fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Bytes in the file.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
