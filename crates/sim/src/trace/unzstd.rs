//! Decompresses a stream of zstd data.
//!
//! Invariant: the memory in use is one input buffer and the decoder's window, which zstd limits to
//! 128 MiB. A frame that needs more is an error, and so is an incomplete frame at the end.

use std::io::{self, Read};
use zstd_safe::{DCtx, InBuffer, OutBuffer, get_error_name};

/// Size of the buffer for compressed input, bytes.
const INPUT: usize = 128 << 10;

/// Why decompression failed.
#[derive(Debug)]
pub(super) enum UnzstdError {
    Io(io::Error),
    /// The data is not zstd from this position on.
    Damaged(&'static str),
    /// The last frame is incomplete.
    Truncated,
}

/// Reads once; tries again if a signal interrupts the call.
pub(super) fn read_some(stream: &mut dyn Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// A decompressor in front of a stream.
pub(super) struct Unzstd {
    context: DCtx<'static>,
    input: Vec<u8>,
    at: usize,
    end: usize,
    /// Whether the last frame is complete, so that the input may end here.
    complete: bool,
}

impl Unzstd {
    /// Makes a decompressor. `head` are the bytes that were already read from the stream.
    pub(super) fn new(head: &[u8]) -> Self {
        let mut input = vec![0; INPUT.max(head.len())];
        input[..head.len()].copy_from_slice(head);
        Self {
            context: DCtx::create(),
            input,
            at: 0,
            end: head.len(),
            complete: true,
        }
    }

    /// Fills a part of `out`, which must not be empty, and returns its length; 0 at the end.
    pub(super) fn read(
        &mut self,
        stream: &mut dyn Read,
        out: &mut [u8],
    ) -> Result<usize, UnzstdError> {
        loop {
            if self.at == self.end && !self.refill(stream)? && self.complete {
                return Ok(0);
            }
            let ended = self.at == self.end;
            let mut input = InBuffer::around(&self.input[self.at..self.end]);
            let mut output = OutBuffer::around(out);
            let left = self
                .context
                .decompress_stream(&mut output, &mut input)
                .map_err(|code| UnzstdError::Damaged(get_error_name(code)))?;
            let (used, made) = (input.pos(), output.pos());
            self.at += used;
            self.complete = left == 0;
            if made > 0 {
                return Ok(made);
            }
            if ended && !self.complete {
                return Err(UnzstdError::Truncated);
            }
        }
    }

    fn refill(&mut self, stream: &mut dyn Read) -> Result<bool, UnzstdError> {
        self.at = 0;
        self.end = read_some(stream, &mut self.input).map_err(UnzstdError::Io)?;
        Ok(self.end > 0)
    }
}
