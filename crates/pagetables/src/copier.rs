//! Copies kernel memory with the BPF program ([`crate::program`]): collects requests, runs the
//! program once for all of them, and returns the copies.
//!
//! Invariant: a result is borrowed from the copier, so it cannot be used after the next request. It
//! refers to no memory but the map of this copier.

use std::io;
use std::os::fd::OwnedFd;

use crate::calls::{self, Shared};
use crate::entry::PAGE_SIZE;
use crate::program::{self, COPIES, PAGES, REQUESTS, WORDS};
use crate::unavailable::Unavailable;

/// The loaded program and its map.
#[derive(Debug)]
pub(crate) struct Copier {
    shared: Shared,
    program: OwnedFd,
    /// Number of requests since the last run.
    requested: usize,
    /// Number of runs of the program so far.
    pub(crate) runs: u64,
}

impl Copier {
    /// Creates the map and loads the program.
    pub(crate) fn open() -> Result<Copier, Unavailable> {
        let bytes = u32::try_from(WORDS * 8).unwrap_or(u32::MAX);
        let map = calls::bpf_array(bytes).map_err(Unavailable::map)?;
        let shared = Shared::map(&map, WORDS).map_err(Unavailable::map)?;
        let code = program::code(&map);
        let program = calls::bpf_load(&code, &mut []).map_err(|error| {
            // Load it once more to get the verifier's log.
            let mut log = vec![0; 1 << 16];
            let _ = calls::bpf_load(&code, &mut log);
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
            Unavailable::program(error, String::from_utf8_lossy(&log[..end]).trim())
        })?;
        let (requested, runs) = (0, 0);
        let mut copier = Copier {
            shared,
            program,
            requested,
            runs,
        };
        copier
            .run()
            .map_err(|error| Unavailable::program(error, ""))?;
        Ok(copier)
    }

    /// Address of this process's task_struct in the kernel.
    pub(crate) fn task(&self) -> u64 {
        self.shared.words()[0]
    }

    /// Adds a request to copy `bytes` bytes (at most a page) from the kernel address `from`.
    /// Returns the request's number, for [`Copier::result`]. Panics if there are [`COPIES`]
    /// requests already.
    pub(crate) fn request(&mut self, from: u64, bytes: u64) -> usize {
        assert!(self.requested < COPIES, "more requests than a run takes");
        assert!(bytes <= PAGE_SIZE, "more than a page");
        let number = self.requested;
        let at = REQUESTS + 2 * number;
        self.shared.words_mut()[at..at + 2].copy_from_slice(&[from, bytes]);
        self.requested += 1;
        number
    }

    /// Runs the program for all requests. The results are valid until the next [`Copier::request`].
    pub(crate) fn run(&mut self) -> io::Result<()> {
        self.shared.words_mut()[1] = self.requested as u64;
        self.requested = 0;
        self.runs += 1;
        calls::bpf_run(&self.program)
    }

    /// Returns the copy made for the request `number`: 512 words, of which the first hold the
    /// requested bytes. `None` if the kernel memory could not be read.
    pub(crate) fn result(&self, number: usize) -> Option<&[u64]> {
        let words = self.shared.words();
        let failed = words[REQUESTS + 2 * number + 1] != 0;
        let at = PAGES + number * 512;
        (!failed).then(|| &words[at..at + 512])
    }

    /// Reads one word of kernel memory at address `at`; `None` if it cannot be read.
    pub(crate) fn peek(&mut self, at: u64) -> io::Result<Option<u64>> {
        debug_assert_eq!(self.requested, 0, "requests would be lost");
        let number = self.request(at, 8);
        self.run()?;
        Ok(self.result(number).map(|words| words[0]))
    }
}
