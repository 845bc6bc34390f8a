//! Walks one large process in slices, so that the manager can serve requests between two slices.
//!
//! Invariant: each page is reported once, in order; bits are cleared after the last slice. An
//! access between the reading of a page and the clearing of its bit is lost. For large processes,
//! which alone are walked in slices, that time is long.

use std::io;
use std::time::Instant;

use pagetables::{Piece, WalkResult};

use super::Ages;
use super::found::WalkSums;
use super::listener::Listener;
use super::page::ranges;
use super::reader::{Job, WalkStart};
use super::slices::Slices;

/// The walk of a process that is read in slices.
pub(super) struct InParts {
    pub(super) begun: WalkStart,
    slices: Slices,
    found: WalkSums,
    /// What the last slice found out about the address space; `None` before the first slice.
    last: Option<WalkResult>,
}

impl Ages {
    /// Begins a walk in slices; returns `None` if the process has no memory.
    pub(super) fn begin_reading(
        &mut self,
        job: &mut Job,
        listener: &mut dyn Listener,
    ) -> io::Result<Option<InParts>> {
        let bounds = self.bounds();
        let begun = self.reader.begin(job, bounds)?;
        Ok(begun.map(|begun| {
            listener.begin(begun.before.owner, job.identity, &begun.maps);
            InParts {
                slices: Slices::of(ranges(&begun.maps.mappings)),
                begun,
                found: WalkSums::default(),
                last: None,
            }
        }))
    }

    /// Reads and reports the next slice. After the last slice, clears the young bits and returns
    /// `true`.
    pub(super) fn read_next_slice(
        &mut self,
        job: &mut Job,
        parts: &mut InParts,
        listener: &mut dyn Listener,
    ) -> io::Result<bool> {
        let begin = Instant::now();
        let slice = parts.slices.next();
        let is_over = slice.is_none();
        // A process without readable mappings is walked all the same: the walk identifies its
        // address space.
        if !is_over || parts.last.is_none() {
            let slice = slice.unwrap_or_default();
            let pid = job.identity.pid;
            let (reading, found) =
                self.record_pieces((&parts.begun, parts.found), listener, |source, sink| {
                    source.read(pid, &slice.ranges, &mut |place: usize, piece: Piece<'_>| {
                        sink(slice.numbers[place], piece);
                    })
                })?;
            (parts.last, parts.found) = (Some(reading), found);
            self.costs.reading += begin.elapsed();
        }
        if let (true, Some(reading)) = (is_over, parts.last) {
            let found = parts.found;
            self.reader
                .clear(job, &parts.begun, &found, &mut self.costs);
            self.store_walk(job, &reading, found, listener);
        }
        Ok(is_over)
    }
}
