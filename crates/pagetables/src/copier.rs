//! Copies of kernel memory: requests in, pages out, one run of the BPF program for all of them.
//!
//! Invariant: an answer is lent only until the next request, and names no memory but our own map.

use std::io;
use std::os::fd::OwnedFd;

use crate::program::{self, COPIES, PAGES, REQUESTS, WORDS};
use crate::sys::{self, Shared};
use crate::unavailable::Unavailable;

/// The loaded program and its map.
#[derive(Debug)]
pub(crate) struct Copier {
    shared: Shared,
    program: OwnedFd,
    asked: usize,
    /// Runs so far.
    pub(crate) runs: u64,
}

impl Copier {
    /// Makes the map and loads the program.
    pub(crate) fn open() -> Result<Copier, Unavailable> {
        let bytes = u32::try_from(WORDS * 8).unwrap_or(u32::MAX);
        let map = sys::bpf_array(bytes).map_err(Unavailable::map)?;
        let shared = Shared::map(&map, WORDS).map_err(Unavailable::map)?;
        let code = program::code(&map);
        let program = sys::bpf_load(&code, &mut []).map_err(|error| {
            // Once more for the verifier's words.
            let mut log = vec![0; 1 << 16];
            let _ = sys::bpf_load(&code, &mut log);
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(0);
            Unavailable::program(error, String::from_utf8_lossy(&log[..end]).trim())
        })?;
        let (asked, runs) = (0, 0);
        let mut copier = Copier {
            shared,
            program,
            asked,
            runs,
        };
        copier
            .run()
            .map_err(|error| Unavailable::program(error, ""))?;
        Ok(copier)
    }

    /// Our own task_struct's address.
    pub(crate) fn task(&self) -> u64 {
        self.shared.words()[0]
    }

    /// Adds a request for `bytes` (at most a page) at the kernel address `from`; the number of its
    /// answer. There must be room.
    pub(crate) fn ask(&mut self, from: u64, bytes: u64) -> usize {
        assert!(self.asked < COPIES, "more requests than a run takes");
        assert!(bytes <= 4096, "more than a page");
        let number = self.asked;
        let at = REQUESTS + 2 * number;
        self.shared.words_mut()[at..at + 2].copy_from_slice(&[from, bytes]);
        self.asked += 1;
        number
    }

    /// Copies all that was asked for; answers can be had until the next [`Copier::ask`].
    pub(crate) fn run(&mut self) -> io::Result<()> {
        self.shared.words_mut()[1] = self.asked as u64;
        self.asked = 0;
        self.runs += 1;
        sys::bpf_run(&self.program)
    }

    /// What was copied for a request; `None` if it could not be read.
    pub(crate) fn answer(&self, number: usize) -> Option<&[u64]> {
        let words = self.shared.words();
        let failed = words[REQUESTS + 2 * number + 1] != 0;
        let at = PAGES + number * 512;
        (!failed).then(|| &words[at..at + 512])
    }

    /// One word of the kernel's; `None` if it cannot be read.
    pub(crate) fn peek(&mut self, at: u64) -> io::Result<Option<u64>> {
        debug_assert_eq!(self.asked, 0, "requests would be lost");
        let number = self.ask(at, 8);
        self.run()?;
        Ok(self.answer(number).map(|words| words[0]))
    }
}
