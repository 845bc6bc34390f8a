//! Access to what another process can lock without end: its memory.
//!
//! Invariant: **nothing waits on another process's memory without a deadline.** The kernel takes a process's memory lock
//! (mmap_lock, or exec_update_lock during an exec) for what is opened, read and written here, and the process holds that lock
//! for as long as it likes: in mmap(2) or munmap(2) of a file whose file server (FUSE, NFS) does not answer. So these calls
//! are made by an access worker (`sys::worker`), which is killed when it has waited, and used no processor time, for `Patience::stall`.
//!
//! A process for which a deadline was missed is *locked*. It is tried again after a pause that doubles with each try
//! (`PAUSE_MIN` to `PAUSE_MAX`), or at once when [`note_free`] says that its memory lock is free, or when it has run since
//! (for the lock of an exec). All waiting for locked processes together is bounded: once `STALL_BUDGET` is used up, a process
//! that is known to be locked is not tried, and the first try of another ends after `STALL_SHORT` or `STALL_OF_EXEC_SHORT`.
//!
//! Which files wait for what, seen on Linux 6.18: for the memory lock cmdline, environ, smaps, pagemap, clear_refs, numa_maps
//! (maps only until 6.16); for the end of an exec stat, io, fd, ns, exe, cwd, root, and all that is opened with a check of
//! rights (maps, pagemap, environ, mem). status, statm, cgroup, mountinfo and comm wait for nothing.

mod ledger;

use std::cell::Cell;
use std::ffi::CStr;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::worker::{
    Abandoned, Busy, DATA_BYTES, Operation, PATH_BYTES, WITHOUT_FILE_RIGHTS, Waited, Worker,
    own_rights,
};
use crate::sys::{Advice, cpu_time};
use ledger::Ledger;

/// No progress for so long: the process is locked.
const STALL: Duration = Duration::from_millis(100);
/// The same for advice, which writes to swap and reads from it: a disk may take that long.
const STALL_OF_ADVICE: Duration = Duration::from_millis(500);
/// The same for the second try of a process, and when [`STALL_BUDGET`] is used up.
const STALL_SHORT: Duration = Duration::from_millis(10);
/// Both for the lock of an exec, held for microseconds unless a file server hangs. A process that is taken for locked in vain is
/// tried again as soon as it has run.
const STALL_OF_EXEC: Duration = Duration::from_millis(30);
const STALL_OF_EXEC_SHORT: Duration = Duration::from_millis(2);
/// Waiting for locked processes in [`STALL_WINDOW`].
const STALL_BUDGET: Duration = Duration::from_millis(150);
const STALL_WINDOW: Duration = Duration::from_secs(10);
/// The first pause before a locked process is tried again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// No call takes longer, progress or not.
const CALL_MAX: Duration = Duration::from_secs(2);
/// How often progress is measured, and how often at least before a worker is given up.
const STEP: Duration = Duration::from_millis(5);
const SEEN_MIN: u32 = 2;
/// How long a killed worker is waited for; one that takes longer is abandoned.
const END: Duration = Duration::from_millis(20);
/// Idle workers that are kept, and for how long beside others that are used.
const IDLE_MAX: usize = 4;
const IDLE_TIME: Duration = Duration::from_secs(1);
/// Killed workers that wait uninterruptibly: with more of them no new worker is started.
const ABANDONED_MAX: usize = 16;

/// Workers and what is known of locked processes.
struct Pool {
    /// The process that made them: a fork has copies of their sockets, and must not use them.
    owner: u32,
    /// With when each was used last, in that order.
    idle: Vec<(Worker, Instant)>,
    abandoned: Vec<Abandoned>,
    ledger: Ledger,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);
/// Processor time of all workers' calls, nanoseconds.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The same of calls that this thread asked for.
    static THREAD_CPU_NS: Cell<u64> = const { Cell::new(0) };
}

/// How long a call may take.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Without progress.
    stall: Duration,
    /// At real-time priority, for so long at most; none: not at all.
    real_time: Option<Duration>,
}

impl Patience {
    const ORDINARY: Patience = Patience {
        stall: STALL,
        real_time: None,
    };
}

/// A process whose memory is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockedProcess {
    /// Its number.
    pub pid: u32,
    /// For how long it is known to be locked.
    pub known_for: Duration,
}

/// What a process that makes calls for us is called (`comm`).
pub const WORKER: &str = "pagetide-access";

/// How a call takes a process's memory lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For reading: it waits while the lock is held for writing.
    Read,
    /// For writing: it waits while any task holds the lock, and all later readers and writers wait behind it.
    Change,
}

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    /// The end of an exec: what is opened only.
    Open,
    /// The memory lock.
    Memory,
}

impl Stage {
    /// By the name of a process's file.
    fn of(name: &str) -> Stage {
        let of_exec = ["stat", "fd", "io", "pagemap"];
        let last = name.rsplit('/').next().unwrap_or_default();
        match of_exec.contains(&last) {
            true => Stage::Open,
            false => Stage::Memory,
        }
    }

    /// The longest deadline of a call: while there is time to wait, and when it is used up.
    fn stall_max(self, is_short: bool) -> Duration {
        match (self, is_short) {
            (Stage::Open, false) => STALL_OF_EXEC,
            (Stage::Open, true) => STALL_OF_EXEC_SHORT,
            (Stage::Memory, false) => STALL_OF_ADVICE,
            (Stage::Memory, true) => STALL_SHORT,
        }
    }
}

/// The error of a call to a process whose memory is locked.
pub(crate) fn locked_error() -> io::Error {
    io::Error::from_raw_os_error(libc::ETIMEDOUT)
}

/// Processor time that access workers took for calls of this process.
#[must_use]
pub fn workers_cpu() -> Duration {
    Duration::from_nanos(CPU_NS.load(Ordering::Relaxed))
}

/// The same for calls of the calling thread.
#[must_use]
pub fn workers_cpu_of_thread() -> Duration {
    Duration::from_nanos(THREAD_CPU_NS.get())
}

/// Whether an error means that the process's memory is locked.
#[must_use]
pub fn is_locked(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETIMEDOUT)
}

/// Processes whose memory was locked when they were tried last.
#[must_use]
pub fn locked() -> Vec<LockedProcess> {
    let now = Instant::now();
    pool().ledger.locked(now)
}

/// The lock of this process's memory was seen free: the next call tries it at once.
pub fn note_free(pid: u32) {
    pool().ledger.forget((pid, Stage::Memory));
}

/// The lock of this process's memory was seen held for long: calls are refused until the pause is over.
pub fn note_locked(pid: u32) {
    let of = (pid, Stage::Memory);
    pool()
        .ledger
        .note_stall(of, Duration::ZERO, (Instant::now(), 0));
}

/// Ends all idle workers, and waits for their end. To be called before an exec: the program would have them as children.
pub fn end_workers() {
    let idle = std::mem::take(&mut pool().idle);
    drop(idle);
}

/// Ends idle workers that were not used for a while.
pub fn trim_workers() {
    let mut pool = pool();
    let surplus = pool.surplus(Instant::now());
    drop(pool);
    drop(surplus);
}

/// Appends the file `name` of a process to `into`, up to about `limit` bytes of it. `proc` is /proc.
///
/// # Errors
/// As open(2) and read(2) of that file; `ETIMEDOUT` if the process's memory is locked ([`is_locked`]).
pub fn read(
    proc: BorrowedFd<'_>,
    (pid, name): (u32, &str),
    limit: usize,
    into: &mut Vec<u8>,
) -> io::Result<()> {
    let end = into.len().saturating_add(limit);
    read_pieces(proc, (pid, name), &mut |piece| {
        into.extend_from_slice(piece);
        into.len() < end
    })
}

/// Appends all of the file `name` of a process, of the system's /proc.
///
/// # Errors
/// As those of [`read`].
pub(crate) fn read_system(file: (u32, &str), into: &mut Vec<u8>) -> io::Result<()> {
    let proc = std::fs::File::open("/proc")?;
    read(proc.as_fd(), file, usize::MAX, into)
}

/// The same in pieces of some hundred KiB, until `sink` wants no more.
///
/// # Errors
/// As those of [`read`].
pub fn read_pieces(
    proc: BorrowedFd<'_>,
    file: (u32, &str),
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    pieces(proc, file, [Operation::Read, Operation::ReadOn], sink)
}

/// Tells `sink` the targets of the links in the directory `name` of a process, cut to some 64 bytes each, until it wants no more.
///
/// # Errors
/// As those of [`read`].
pub fn read_links(
    proc: BorrowedFd<'_>,
    directory: (u32, &str),
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let operations = [Operation::Links, Operation::LinksOn];
    pieces(proc, directory, operations, &mut |piece| {
        let links = piece.split(|byte| *byte == 0);
        links.filter(|link| !link.is_empty()).all(&mut *sink)
    })
}

/// What the first of two operations reads, and the second as long as there is more.
fn pieces(
    proc: BorrowedFd<'_>,
    (pid, name): (u32, &str),
    [first, next]: [Operation; 2],
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    if is_own(pid) && first == Operation::Read {
        sink(&std::fs::read(own_path(pid, name))?);
        return Ok(());
    }
    let mut call = Call::to((pid, Stage::of(name)), Patience::ORDINARY)?;
    let begin = Instant::now();
    call.set(first, &path(pid, name));
    let mut bytes = call.make(Some(proc))?.0;
    loop {
        let worker = call.worker();
        let got = usize::try_from(bytes).unwrap_or(0).min(DATA_BYTES);
        let has_more = worker.header().has_more;
        if !sink(&worker.data()[..got]) || !has_more {
            return Ok(());
        }
        if begin.elapsed() > CALL_MAX {
            return Err(locked_error());
        }
        worker.header().operation = next;
        bytes = call.make(None)?.0;
    }
}

/// Reads an open file of a process (its pagemap) at `offset`; how many bytes that gave, 0 at its end. `into` is cut to some
/// hundred KiB.
///
/// # Errors
/// As pread(2); `ETIMEDOUT` if the process's memory is locked ([`is_locked`]).
pub fn read_at(
    (pid, file): (u32, BorrowedFd<'_>),
    offset: u64,
    into: &mut [u8],
) -> io::Result<usize> {
    if is_own(pid) {
        let file = std::fs::File::from(file.try_clone_to_owned()?);
        return file.read_at(into, offset);
    }
    let mut call = Call::to((pid, Stage::Memory), Patience::ORDINARY)?;
    let header = call.worker().header();
    header.operation = Operation::ReadAt;
    header.count = into.len().min(DATA_BYTES) as u64;
    header.offset = offset;
    let (got, _) = call.make(Some(file))?;
    let got = usize::try_from(got).unwrap_or(0).min(into.len());
    into[..got].copy_from_slice(&call.worker().data()[..got]);
    Ok(got)
}

/// Opens the file `name` of a process for reading.
///
/// # Errors
/// As those of [`read`].
pub fn open(pid: u32, name: &str) -> io::Result<OwnedFd> {
    if is_own(pid) {
        return std::fs::File::open(own_path(pid, name)).map(OwnedFd::from);
    }
    let mut call = Call::to((pid, Stage::Open), Patience::ORDINARY)?;
    call.set(Operation::Open, &system_path(pid, name));
    call.worker().header().flags = libc::O_RDONLY;
    let (_, opened) = call.make(None)?;
    // It was opened; without it, no descriptor was left for us.
    opened.ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))
}

/// Writes to the file `name` of a process, in one call; how long that took. The worker does it at real-time priority for
/// `real_time` at most, so that no other program takes the processor from it while it holds the process's lock.
///
/// # Errors
/// As those of [`read`].
pub(crate) fn write(
    (pid, name): (u32, &str),
    bytes: &[u8],
    real_time: Duration,
) -> io::Result<Duration> {
    if is_own(pid) {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(own_path(pid, name))?;
        let begin = Instant::now();
        return file.write_all(bytes).map(|()| begin.elapsed());
    }
    let patience = Patience {
        stall: STALL,
        real_time: Some(real_time),
    };
    let mut call = Call::to((pid, Stage::Memory), patience)?;
    call.set(Operation::Write, &system_path(pid, name));
    let worker = call.worker();
    worker.data()[..bytes.len()].copy_from_slice(bytes);
    worker.header().count = bytes.len() as u64;
    call.make(None)?;
    Ok(Duration::from_nanos(call.worker().header().took_ns))
}

/// Advises about ranges of another process's memory, by its pidfd; the bytes that were gone through. It stops early at the
/// first range that is not all mapped. At most [`crate::ADVICE_RANGES_MAX`] ranges. Where `keeps_files`, without the rights to
/// files that root or capabilities give: pages of files that the process itself could not drop stay.
///
/// # Errors
/// As process_madvise(2): no right (`EPERM`), the process is gone (`ESRCH`), nothing is mapped at the first range
/// (`ENOMEM`); `ETIMEDOUT` if the process's memory is locked: some of the advice may have been taken.
pub fn advise(
    (pid, pidfd): (u32, &OwnedFd),
    ranges: &[Range<u64>],
    advice: Advice,
    keeps_files: bool,
) -> io::Result<u64> {
    let patience = Patience {
        stall: STALL_OF_ADVICE,
        real_time: None,
    };
    let mut call = Call::to((pid, Stage::Memory), patience)?;
    let worker = call.worker();
    let header = worker.header();
    header.operation = Operation::Advise;
    header.flags = advice.number();
    header.options = if keeps_files { WITHOUT_FILE_RIGHTS } else { 0 };
    header.count = ranges.len().min(crate::ADVICE_RANGES_MAX) as u64;
    for (range, into) in ranges.iter().zip(worker.data().chunks_exact_mut(16)) {
        let (start, length) = into.split_at_mut(8);
        start.copy_from_slice(&range.start.to_ne_bytes());
        length.copy_from_slice(&(range.end - range.start).to_ne_bytes());
    }
    // Where the calling thread is bound to a processor, it means the call to be made there.
    worker.follow_affinity();
    let (bytes, _) = call.make(Some(pidfd.as_fd()))?;
    u64::try_from(bytes).map_err(io::Error::other)
}

/// How often the first thread of a process gave up its processor, by its status, which the kernel prints without a lock; 0
/// for what waits for the memory lock. While a process waits within an exec, this stays the same.
fn switches((pid, stage): (u32, Stage)) -> u64 {
    if stage != Stage::Open {
        return 0;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let lines = status
        .lines()
        .filter_map(|line| line.split_once("ctxt_switches:"));
    lines
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}

/// Whether a process runs or waits for a processor, by its status, which the kernel prints without a lock.
fn is_runnable(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with('R'))
}

/// Whether a process is this one: it does not lock its own memory without end, and the kernel lets it read its files where it
/// lets no other process (a file with capabilities).
fn is_own(pid: u32) -> bool {
    pid == std::process::id()
}

fn own_path(pid: u32, name: &str) -> String {
    format!("/proc/{pid}/{name}")
}

/// A path below /proc, with its NUL.
fn path(pid: u32, name: &str) -> Vec<u8> {
    format!("{pid}/{name}\0").into_bytes()
}

fn system_path(pid: u32, name: &str) -> Vec<u8> {
    format!("/proc/{pid}/{name}\0").into_bytes()
}

fn pool() -> Locked {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let us = std::process::id();
    if pool.as_ref().is_some_and(|pool| pool.owner != us) {
        // We are a fork: the workers are another process's.
        std::mem::forget(pool.take());
    }
    pool.get_or_insert_with(|| Pool {
        owner: us,
        idle: Vec::new(),
        abandoned: Vec::new(),
        ledger: Ledger::default(),
    });
    Locked(pool)
}

/// The pool, which is there.
struct Locked(MutexGuard<'static, Option<Pool>>);

impl std::ops::Deref for Locked {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        self.0.as_ref().expect("made when it was locked")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Pool {
        self.0.as_mut().expect("made when it was locked")
    }
}

impl Pool {
    /// A worker with the calling thread's rights, an idle one if there is one; none starts while too many wait
    /// uninterruptibly.
    fn worker(&mut self) -> io::Result<Worker> {
        let rights = own_rights();
        let idle = self.idle.iter();
        if let Some(at) = idle.rev().position(|(worker, _)| worker.rights() == rights) {
            return Ok(self.idle.remove(self.idle.len() - 1 - at).0);
        }
        self.abandoned.retain_mut(|worker| !worker.is_gone());
        if self.abandoned.len() >= ABANDONED_MAX {
            return Err(locked_error());
        }
        Worker::start()
    }
}

impl Pool {
    /// Takes those out that were not used for a while, or are too many: one with other rights, or for another thread, may never
    /// be wanted again.
    fn surplus(&mut self, now: Instant) -> Vec<(Worker, Instant)> {
        let is_old = |(_, used): &&(Worker, Instant)| now - *used > IDLE_TIME;
        let old = self.idle.iter().take_while(is_old).count();
        let count = old.max(self.idle.len().saturating_sub(IDLE_MAX));
        self.idle.drain(..count).collect()
    }
}

/// Calls to one process, by one worker.
struct Call {
    of: (u32, Stage),
    patience: Patience,
    /// Taken while it is at work.
    worker: Option<Worker>,
    /// Processor time of the worker before this call.
    cpu_before: Duration,
}

impl Call {
    /// # Errors
    /// The process is known to be locked, or there is no worker.
    fn to(of: (u32, Stage), mut patience: Patience) -> io::Result<Call> {
        let mut pool = pool();
        let now = Instant::now();
        let is_known = pool.ledger.is_locked(of);
        if is_known {
            let mut is_paused = |of| pool.ledger.is_paused(of, (now, switches(of)));
            if is_paused(of) || is_paused((of.0, Stage::Open)) {
                return Err(locked_error());
            }
        }
        let is_short = is_known || !pool.ledger.has_budget(now);
        patience.stall = patience.stall.min(of.1.stall_max(is_short));
        let worker = pool.worker()?;
        Ok(Call {
            of,
            patience,
            cpu_before: cpu_time(worker.pid()).unwrap_or_default(),
            worker: Some(worker),
        })
    }

    fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("a call that failed is over")
    }

    fn set(&mut self, operation: Operation, path: &[u8]) {
        debug_assert!(CStr::from_bytes_with_nul(path).is_ok() && path.len() <= PATH_BYTES);
        let header = self.worker().header();
        header.operation = operation;
        let length = path.len().min(PATH_BYTES - 1);
        header.path[..length].copy_from_slice(&path[..length]);
        header.path[length] = 0;
    }

    /// Has the worker make it; what it returned, and the descriptor that it opened.
    fn make(&mut self, with: Option<BorrowedFd<'_>>) -> io::Result<(i64, Option<OwnedFd>)> {
        let ended = || io::Error::other("the access worker was ended");
        let worker = self.worker.take().ok_or_else(ended)?;
        let real_time = self.patience.real_time;
        if real_time.is_some() {
            worker.set_real_time(true);
        }
        let busy = worker.begin(with).map_err(|_| ended())?;
        let (mut worker, opened) = self.wait(busy)?;
        if real_time.is_some() {
            worker.set_real_time(false);
        }
        let result = worker.header().result;
        self.worker = Some(worker);
        if result < 0 {
            let number = i32::try_from(-result).unwrap_or(libc::EIO);
            return Err(io::Error::from_raw_os_error(number));
        }
        Ok((result, opened))
    }

    /// Waits for the worker, for as long as it makes progress.
    fn wait(&self, mut busy: Busy) -> io::Result<(Worker, Option<OwnedFd>)> {
        let begin = Instant::now();
        let (mut progress, mut progressed, mut seen) = (None, begin, 0);
        let mut is_real_time = self.patience.real_time.is_some();
        loop {
            busy = match busy.wait(STEP.min(self.patience.stall / 4)) {
                Waited::Done(worker, opened) => return Ok((worker, opened)),
                Waited::Ended => return Err(io::Error::other("the access worker was ended")),
                Waited::NotYet(busy) => busy,
            };
            let now = Instant::now();
            if is_real_time && self.patience.real_time < Some(now - begin) {
                busy.set_real_time(false);
                is_real_time = false;
            }
            let used = cpu_time(busy.pid()).ok();
            // One that waits for a processor on a busy machine does not wait for the process; nor does this tell anything if
            // we have waited for one.
            if used != progress || is_runnable(busy.pid()) {
                (progress, progressed, seen) = (used, now, 0);
            }
            seen += 1;
            let is_stalled = seen > SEEN_MIN && now - progressed >= self.patience.stall;
            if is_stalled || now - begin >= CALL_MAX {
                return Err(self.give_up(busy, now - begin));
            }
        }
    }

    /// Counts what the worker took for this call.
    fn count_cpu(&self, pid: u32) {
        let now = cpu_time(pid).unwrap_or(self.cpu_before);
        let took = now.saturating_sub(self.cpu_before).as_nanos();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        CPU_NS.fetch_add(took, Ordering::Relaxed);
        THREAD_CPU_NS.set(THREAD_CPU_NS.get().saturating_add(took));
    }

    /// The worker has missed the deadline.
    fn give_up(&self, busy: Busy, waited: Duration) -> io::Error {
        self.count_cpu(busy.pid());
        let left = busy.kill(END);
        let mut pool = pool();
        pool.abandoned.extend(left);
        let now = (Instant::now(), switches(self.of));
        pool.ledger.note_stall(self.of, waited, now);
        locked_error()
    }
}

impl Drop for Call {
    /// The worker is idle again. The process let it through: it is not locked.
    fn drop(&mut self) {
        let Some(worker) = self.worker.take() else {
            return;
        };
        self.count_cpu(worker.pid());
        let mut pool = pool();
        pool.ledger.forget(self.of);
        pool.ledger.forget((self.of.0, Stage::Open));
        let now = Instant::now();
        pool.idle.push((worker, now));
        let surplus = pool.surplus(now);
        drop(pool);
        drop(surplus);
    }
}

#[cfg(test)]
mod tests;
