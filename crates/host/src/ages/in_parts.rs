//! Reading one process part by part, so that others are served in between.
//!
//! Invariant: each page is told once, in order, and bits are cleared when all was told. What is accessed between the reading of a
//! page and the clearing leaves no trace: a process of which that takes long is large (`slices`).

use std::io;
use std::time::Instant;

use pagetables::{Piece, Reading};

use super::Ages;
use super::found::ReadingSums;
use super::listener::Listener;
use super::page::ranges;
use super::reader::{Begun, Job};
use super::slices::Slices;

/// A process whose tables are read part by part.
pub(super) struct InParts {
    pub(super) begun: Begun,
    slices: Slices,
    found: ReadingSums,
    /// What the last part told of its address space.
    last: Option<Reading>,
}

impl Ages {
    /// Begins to read the tables of a process part by part; none if it has no memory.
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
                found: ReadingSums::default(),
                last: None,
            }
        }))
    }

    /// Reads the next part and tells of it. When all was read, clears what was young: then it is over (true).
    pub(super) fn go_on_with(
        &mut self,
        job: &mut Job,
        parts: &mut InParts,
        listener: &mut dyn Listener,
    ) -> io::Result<bool> {
        let begin = Instant::now();
        let slice = parts.slices.next();
        let is_over = slice.is_none();
        // What maps nothing is read, too: it tells which address space this is.
        if !is_over || parts.last.is_none() {
            let slice = slice.unwrap_or_default();
            let pid = job.identity.pid;
            let (reading, found) =
                self.hear((&parts.begun, parts.found), listener, |source, sink| {
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
            self.learn(job, &reading, found, listener);
        }
        Ok(is_over)
    }
}
