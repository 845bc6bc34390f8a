//! Writes the file of a recording.
//!
//! Invariant: the file holds only complete scans; an incomplete one is removed. The file is never
//! longer than its maximum size.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

/// Writes complete scans to a file, up to a maximum size.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    /// Size of the complete scans in the file, in bytes.
    bytes: u64,
    max_bytes: u64,
    /// Why writing has stopped. `None` while the file is open, and after its end mark was written
    /// on request.
    stopped: Option<String>,
    /// Whether no further scan can be written.
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

    /// Appends a scan to the file if the scan, and the end mark `end` after it, fit. Returns
    /// whether the scan was written.
    pub(super) fn write(&mut self, scan: &[u8], end: &[u8]) -> bool {
        if self.is_closed {
            return false;
        }
        let after = self.bytes + scan.len() as u64;
        if after + end.len() as u64 > self.max_bytes {
            let why = format!("it has reached {} bytes (--record-max)", self.bytes);
            self.stop(why);
            return false;
        }
        self.put(scan)
    }

    /// Appends bytes. If that fails, removes the part that was written, and stops writing. Returns
    /// whether all bytes were written.
    fn put(&mut self, bytes: &[u8]) -> bool {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.bytes += bytes.len() as u64;
                true
            }
            Err(error) => {
                // An incomplete scan is removed.
                let _ = self.file.set_len(self.bytes);
                let _ = self.file.seek(SeekFrom::Start(self.bytes));
                self.stop(format!("it cannot be written: {error}"));
                false
            }
        }
    }

    /// Stops writing for the reason `why`; the first reason is kept.
    pub(super) fn stop(&mut self, why: String) {
        self.is_closed = true;
        self.stopped.get_or_insert(why);
    }

    /// Writes the end mark, unless it was written before, and even after writing has stopped, if
    /// there is space.
    pub(super) fn finish(&mut self, end: &[u8]) {
        let was_stopped = self.stopped.is_some();
        if !self.is_closed || was_stopped {
            self.is_closed = true;
            let _ = self.put(end);
        }
    }

    /// Whether no further scan can be written.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns why writing has stopped; `None` if it has not, or only on request.
    pub(super) fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Returns the size of the file, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}
