//! Reading one process: its mappings, its tables, and the clearing of what was young.
//!
//! Invariant: of all that is known, only the process's own [`Space`] is changed. So several threads may read at once, each with
//! a reader of its own and other processes than the others.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use pagetables::access::Access;
use pagetables::{Grain, Reading, Source};

use super::clearing::Clearing;
use super::costs::Costs;
use super::found::{ReadingSums, work};
use super::held::Held;
use super::page::{part_of, ranges};
use super::pauses::Pauses;
use super::space::{Activity, Before, Space};
use crate::system::{Filesystems, Identity, Mapping, Maps, Proc};

/// Processes with fewer entries are read and cleared without being interrupted: some ten milliseconds.
pub(super) const UNINTERRUPTED_MAX: u64 = 128 << 10;

/// A process that is to be read.
pub(super) struct Job {
    pub(super) identity: Identity,
    pub(super) space: Space,
    /// What it is like before the reading: what is accessed meanwhile is read in the next round.
    pub(super) now: Activity,
    /// The time since the last reading, or since a round at which it was known to have slept.
    pub(super) apart: Duration,
    /// What reading it has cost until now, processor time.
    pub(super) took: Duration,
    /// It did nothing since before the last reading.
    pub(super) slept: bool,
}

impl Job {
    /// It was read before, and is known to be small.
    pub(super) fn is_small(&self) -> bool {
        (1..UNINTERRUPTED_MAX).contains(&self.space.entries())
    }
}

/// What is known of a process when its reading begins.
pub(super) struct Begun {
    pub(super) maps: Maps,
    /// What its program reads in order or at random.
    pub(super) advised: Vec<Range<u64>>,
    pub(super) before: Before,
    /// How long clearing may take; none if the bits are not ours.
    at_most: Option<Duration>,
    spares_files: bool,
}

/// How long looks may hold a process up.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) pauses: Pauses,
    pub(super) spares_files: bool,
}

/// Reads processes, one after the other.
pub(super) struct ProcessReader {
    pub(super) source: Box<dyn Source>,
    pub(super) proc: Proc,
    pub(super) filesystems: Filesystems,
    /// Names of mappings are wanted.
    pub(super) needs_names: bool,
}

impl ProcessReader {
    /// One for another thread, if sources of this kind can be had twice.
    pub(super) fn another(&self) -> Option<ProcessReader> {
        Some(ProcessReader {
            source: self.source.another()?,
            proc: self.proc.clone(),
            filesystems: self.filesystems.clone(),
            needs_names: self.needs_names,
        })
    }

    /// Reads what must be known before the tables; none if it has no memory.
    pub(super) fn begin(&mut self, job: &mut Job, bounds: Bounds) -> io::Result<Option<Begun>> {
        let pid = job.identity.pid;
        self.source.begin(pid)?;
        let Some((maps, advised)) = self.mappings(pid)? else {
            return Ok(None);
        };
        let space = &mut job.space;
        space.look_for_devices(&self.proc, pid);
        let is_ours = self.source.grain() == Grain::None || space.claim(job.identity);
        space.begin_reading(job.slept);
        let at_most = match job.slept {
            true => bounds.pauses.asleep(),
            false => bounds.pauses.at_most(space.activity, job.now, job.apart),
        };
        space.at_most = at_most;
        Ok(Some(Begun {
            advised,
            before: space.before(),
            maps,
            at_most: is_ours.then_some(at_most),
            spares_files: bounds.spares_files,
        }))
    }

    /// Its mappings, and those that its program reads in order or at random; none if it has no memory.
    ///
    /// The source reads them without the process's memory lock. Where it cannot, or names are wanted, `/proc/PID/maps` tells;
    /// then everything has recency if the source cannot tell.
    pub(super) fn mappings(&mut self, pid: u32) -> io::Result<Option<(Maps, Vec<Range<u64>>)>> {
        let found = self.source.mappings(pid)?;
        let advised = found.iter().flatten().filter(|one| one.is_advised);
        let advised = advised.map(|one| one.start..one.end).collect();
        let maps = match found {
            Some(found) if !self.needs_names => {
                Some(Maps::nameless(found.iter().map(Mapping::from).collect()))
            }
            _ if self.source.is_locked(pid, Access::Read)? => return Err(locked()),
            _ => match self.proc.named_maps(pid, &mut self.filesystems) {
                Err(error) if error.is_locked() => return Err(locked()),
                Err(error) => return Err(io::Error::new(io::ErrorKind::PermissionDenied, error)),
                Ok(maps) => maps,
            },
        };
        let maps = maps.filter(|maps| !maps.mappings.is_empty());
        Ok(maps.map(|maps| (maps, advised)))
    }

    /// Reads the tables of a small process, clears what was young, and holds back what was read.
    ///
    /// What is accessed between the reading and the clearing of its table is lost: on a busy machine that was a whole pass of
    /// a program over 1,000 pages. So it is not interrupted, and comes before the books.
    pub(super) fn read_held(
        &mut self,
        job: &mut Job,
        begun: &Begun,
        costs: &mut Costs,
    ) -> io::Result<(Held, Reading)> {
        let (begin, cleared) = (Instant::now(), costs.clear);
        let mappings = &begun.maps.mappings;
        let (pid, ranges) = (job.identity.pid, ranges(mappings));
        let source = &mut *self.source;
        let mut held = Held::default();
        let reading = pagetables::uninterrupted(|| {
            let reading = source.read(pid, &ranges, &mut |number, piece| {
                held.take(part_of(mappings[number].kind), number, piece);
            })?;
            let entries = work(held.present, held.tables);
            clearing(job, begun, costs).clear(source, entries, held.accessed);
            source.end();
            Ok::<_, io::Error>(reading)
        })?;
        costs.reading += begin.elapsed().saturating_sub(costs.clear - cleared);
        Ok((held, reading))
    }

    /// Clears what was young in a process whose tables were told already.
    pub(super) fn clear(
        &mut self,
        job: &mut Job,
        begun: &Begun,
        found: &ReadingSums,
        costs: &mut Costs,
    ) {
        let entries = work(found.entries, found.tables);
        clearing(job, begun, costs).clear(&mut *self.source, entries, found.accessed);
        self.source.end();
    }
}

/// The process's memory is locked.
fn locked() -> io::Error {
    io::Error::from(rustix::io::Errno::TIMEDOUT)
}

fn clearing<'a>(job: &'a mut Job, begun: &Begun, costs: &'a mut Costs) -> Clearing<'a> {
    Clearing {
        pid: job.identity.pid,
        space: &mut job.space,
        at_most: begun.at_most,
        spares_files: begun.spares_files,
        costs,
    }
}
