//! Walks one process: reads its mappings and page tables, and clears the accessed bits that are
//! set.
//!
//! Invariant: a walk changes only the process's own [`Space`]. So several threads may walk at the
//! same time, each with its own reader and its own processes.

use std::io;
use std::time::{Duration, Instant};

use pagetables::access::Access;
use pagetables::{Grain, Source, WalkResult};

use super::buffered_walk::BufferedWalk;
use super::clearing::Clearing;
use super::costs::Costs;
use super::found::{WalkSums, work};
use super::page::{part_of, ranges};
use super::pauses::Pauses;
use super::space::{ActivityCounters, Space, WalkContext};
use crate::system::{Filesystems, Identity, Maps, Proc};

/// Processes with fewer entries than this are walked and cleared without interruption (in about 10
/// ms).
pub(super) const UNINTERRUPTED_MAX: u64 = 128 << 10;

/// A process that must be walked.
pub(super) struct Job {
    pub(super) identity: Identity,
    pub(super) space: Space,
    /// The process's activity counters before the walk; later accesses belong to the next scan.
    pub(super) now: ActivityCounters,
    /// Time since the last walk, or since the last scan that found the process idle.
    pub(super) apart: Duration,
    /// Processor time that the walk has cost so far.
    pub(super) took: Duration,
    /// Whether the process has not run since before the last walk.
    pub(super) idle: bool,
}

impl Job {
    /// Returns whether the process was walked before and is known to be small.
    pub(super) fn is_small(&self) -> bool {
        (1..UNINTERRUPTED_MAX).contains(&self.space.entries())
    }
}

/// What is known of a process when its walk begins.
pub(super) struct WalkStart {
    pub(super) maps: Maps,
    pub(super) before: WalkContext,
    /// Longest time that clearing may take; `None` if another pagetide clears this process's bits.
    at_most: Option<Duration>,
    keeps_file_bits: bool,
}

/// Bounds of what a scan may do to a process.
#[derive(Clone, Copy)]
pub(super) struct WalkBounds {
    pub(super) pauses: Pauses,
    pub(super) keeps_file_bits: bool,
}

/// Walks processes, one after the other.
pub(super) struct ProcessReader {
    pub(super) source: Box<dyn Source>,
    pub(super) proc: Proc,
    pub(super) filesystems: Filesystems,
    /// Whether listeners need the names of mappings.
    pub(super) needs_names: bool,
}

impl ProcessReader {
    /// Returns a reader for another thread; `None` if only one source of this kind can exist.
    pub(super) fn another(&self) -> Option<ProcessReader> {
        Some(ProcessReader {
            source: self.source.another()?,
            proc: self.proc.clone(),
            filesystems: self.filesystems.clone(),
            needs_names: self.needs_names,
        })
    }

    /// Reads everything that must be known before the page tables are read; `None` if the process
    /// has no memory.
    pub(super) fn begin(
        &mut self,
        job: &mut Job,
        bounds: WalkBounds,
    ) -> io::Result<Option<WalkStart>> {
        let pid = job.identity.pid;
        self.source.begin(pid)?;
        let Some(maps) = self.mappings(pid)? else {
            return Ok(None);
        };
        let space = &mut job.space;
        space.find_devices(&self.proc, pid);
        let is_ours = self.source.grain() == Grain::None || space.claim(job.identity);
        space.begin_reading(job.idle);
        let at_most = match job.idle {
            true => bounds.pauses.idle(),
            false => bounds.pauses.at_most(space.activity, job.now, job.apart),
        };
        space.at_most = at_most;
        Ok(Some(WalkStart {
            before: space.before(),
            maps,
            at_most: is_ours.then_some(at_most),
            keeps_file_bits: bounds.keeps_file_bits,
        }))
    }

    /// Returns the mappings of a process; `None` if the process has no memory.
    ///
    /// The source reads mappings without taking the process's mmap_lock. If it cannot, or if names
    /// are needed, they are read from `/proc/PID/maps`. If the source does not know advice of the
    /// program, no mapping has any.
    pub(super) fn mappings(&mut self, pid: u32) -> io::Result<Option<Maps>> {
        let maps = match self.source.mappings(pid)? {
            Some(found) if !self.needs_names => Some(Maps::nameless(found)),
            _ if self.source.is_locked(pid, Access::Read)? => return Err(locked()),
            found => match self.proc.named_maps(pid, &mut self.filesystems) {
                Err(error) if error.is_locked() => return Err(locked()),
                Err(error) => return Err(io::Error::new(io::ErrorKind::PermissionDenied, error)),
                Ok(maps) => maps.map(|maps| maps.advised_as(&found.unwrap_or_default())),
            },
        };
        Ok(maps.filter(|maps| !maps.mappings.is_empty()))
    }

    /// Walks a small process, clears the bits that are set, and returns the buffered walk.
    ///
    /// An access between the reading and the clearing of a table is lost. On a busy machine, a
    /// whole pass of a program over 1,000 pages was lost in this way. So the walk is not
    /// interrupted, and the age table is updated only after the clearing.
    pub(super) fn read_buffered(
        &mut self,
        job: &mut Job,
        begun: &WalkStart,
        costs: &mut Costs,
    ) -> io::Result<(BufferedWalk, WalkResult)> {
        let (begin, cleared) = (Instant::now(), costs.clear);
        let mappings = &begun.maps.mappings;
        let (pid, ranges) = (job.identity.pid, ranges(mappings));
        let source = &mut *self.source;
        let mut walk = BufferedWalk::default();
        let reading = sys::with_real_time_priority(|| {
            let reading = source.read(pid, &ranges, &mut |number, piece| {
                walk.buffer(part_of(mappings[number].kind), number, piece);
            })?;
            let entries = work(walk.present, walk.tables);
            clearing(job, begun, costs).clear(source, entries, walk.accessed);
            source.end();
            Ok::<_, io::Error>(reading)
        })?;
        costs.reading += begin.elapsed().saturating_sub(costs.clear - cleared);
        Ok((walk, reading))
    }

    /// Clears the set bits of a process after its pages were reported.
    pub(super) fn clear(
        &mut self,
        job: &mut Job,
        begun: &WalkStart,
        found: &WalkSums,
        costs: &mut Costs,
    ) {
        let entries = work(found.entries, found.tables);
        clearing(job, begun, costs).clear(&mut *self.source, entries, found.accessed);
        self.source.end();
    }
}

/// Returns the error for a process whose mmap_lock is held.
fn locked() -> io::Error {
    io::Error::from(rustix::io::Errno::TIMEDOUT)
}

fn clearing<'a>(job: &'a mut Job, begun: &WalkStart, costs: &'a mut Costs) -> Clearing<'a> {
    Clearing {
        pid: job.identity.pid,
        space: &mut job.space,
        at_most: begun.at_most,
        keeps_file_bits: begun.keeps_file_bits,
        costs,
    }
}
