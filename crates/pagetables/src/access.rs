//! Reads, opens and writes the memory and the `/proc` files of other processes, with a deadline for
//! each call, because a process can keep them locked without end.
//!
//! Invariant: **nothing waits on another process's memory without a deadline.** The kernel takes a
//! process's memory lock (mmap_lock, or exec_update_lock during an exec) for the files that are
//! opened, read and written here. The process can hold that lock for any length of time: in mmap(2)
//! or munmap(2) of a file on a file server (FUSE, NFS) that does not answer. So a helper process,
//! the access worker (`calls::worker`), makes these calls. The worker is killed when it has used no
//! processor time for `CallDeadline::stall`.
//!
//! A process counts as *locked* once a call for it has missed its deadline. Calls for a locked
//! process fail at once, except for one try after a pause. The pause doubles with each failed try
//! (`PAUSE_MIN` to `PAUSE_MAX`). It ends early when [`note_free`] reports that the memory lock is
//! free, or, for a process within an exec, when the process has run since the last try.
//!
//! Waiting for all locked processes together takes at most about `STALL_BUDGET` in each
//! `STALL_WINDOW`. Once this time is used up, a process that is known to be locked is not tried.
//! The first try of any other process then ends after `STALL_SHORT` or `STALL_OF_EXEC_SHORT`.
//!
//! Which files wait for what, as seen on Linux 6.18:
//!
//! - for the memory lock: cmdline, environ, smaps, pagemap, clear_refs, numa_maps (maps only until
//!   6.16);
//! - for the end of an exec: stat, io, fd, ns, exe, cwd, root, and every file that is opened with a
//!   check of rights (maps, pagemap, environ, mem);
//! - for nothing: status, statm, cgroup, mountinfo, comm.

mod ledger;
mod touch;

use std::cell::Cell;
use std::ffi::CStr;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::calls::worker::{
    Abandoned, Busy, DATA_BYTES, Operation, PATH_BYTES, WITHOUT_FILE_RIGHTS, Waited, Worker,
    own_rights,
};
use crate::calls::{Advice, cpu_time};
use ledger::LockedProcesses;
pub use touch::{TOUCHED_MAX, Touched, touch};

/// Maximum time without progress of a call; after that its process counts as locked. A call makes
/// progress while its worker uses processor time or waits for a processor.
const STALL: Duration = Duration::from_millis(100);
/// Maximum time without progress of a call with advice. It is long because such a call writes to
/// swap or reads from it, and a disk may need that long.
const STALL_OF_ADVICE: Duration = Duration::from_millis(500);
/// Maximum time without progress at a later try of a locked process, and, once [`STALL_BUDGET`] is
/// used up, at the first try of any process.
const STALL_SHORT: Duration = Duration::from_millis(10);
/// Maximum time without progress of a call that waits for the end of an exec: at the first try, and
/// (`SHORT`) at later tries. The lock of an exec is held for microseconds unless a file server
/// hangs. So the limits may be short: a process that counts as locked by mistake is tried again as
/// soon as it has run.
const STALL_OF_EXEC: Duration = Duration::from_millis(30);
const STALL_OF_EXEC_SHORT: Duration = Duration::from_millis(2);
/// Maximum time for waiting for all locked processes together, within one [`STALL_WINDOW`].
const STALL_BUDGET: Duration = Duration::from_millis(150);
const STALL_WINDOW: Duration = Duration::from_secs(10);
/// Minimum and maximum pause before a locked process is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum time of one call, even if it makes progress.
const CALL_MAX: Duration = Duration::from_secs(2);
/// Time between two checks of a call's progress.
const STEP: Duration = Duration::from_millis(5);
/// A worker is killed only after more than this number of checks in a row without progress.
const CHECKS_MIN: u32 = 2;
/// Maximum time to wait for the end of a killed worker. A worker that takes longer is *abandoned*:
/// later calls check whether it has ended.
const END: Duration = Duration::from_millis(20);
/// Maximum number of idle workers, and the time after which an idle worker is ended.
const IDLE_MAX: usize = 4;
const IDLE_TIME: Duration = Duration::from_secs(1);
/// Maximum number of abandoned workers (killed, but still in an uninterruptible wait). At this
/// number no new worker is started.
const ABANDONED_MAX: usize = 16;

/// The access workers of this process, and its list of locked processes.
struct Pool {
    /// The process that created this pool. A fork has copies of the workers' sockets and must not
    /// use them.
    owner: u32,
    /// Idle workers with the time of their last use, the least recently used first.
    idle: Vec<(Worker, Instant)>,
    /// Killed workers that have not ended yet.
    abandoned: Vec<Abandoned>,
    ledger: LockedProcesses,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);
/// Processor time of all workers' calls, in nanoseconds.
static CPU_NS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Processor time of the workers' calls that this thread requested, in nanoseconds.
    static THREAD_CPU_NS: Cell<u64> = const { Cell::new(0) };
}

/// Time limits of one call.
#[derive(Clone, Copy, Debug)]
struct CallDeadline {
    /// Maximum time without progress.
    stall: Duration,
    /// Maximum time for which the worker has real-time priority; `None` if it never has.
    real_time: Option<Duration>,
}

impl CallDeadline {
    /// The limits of a call that neither gives advice nor clears accessed bits.
    const ORDINARY: CallDeadline = CallDeadline {
        stall: STALL,
        real_time: None,
    };
}

/// A process whose memory is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockedProcess {
    /// Its process id.
    pub pid: u32,
    /// Time since the first missed deadline.
    pub known_for: Duration,
}

/// Name (`comm`) of an access worker's process.
pub const WORKER: &str = "pagetide-access";

/// How a call locks the memory of a process (the kernel's mmap_lock).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For reading: the call waits while a task holds the lock for writing.
    Read,
    /// For writing: the call waits while any task holds the lock, and all later readers and writers
    /// wait behind the call.
    Change,
}

/// Kinds of calls, by the lock of the process that the call may have to wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    /// Calls that only open a file: they wait for the end of an exec.
    Open,
    /// Calls that read or change memory: they wait for the memory lock.
    Memory,
}

impl Stage {
    /// Returns the kind of a call that reads the file `name` of a process.
    fn of(name: &str) -> Stage {
        let of_exec = ["stat", "fd", "io", "pagemap"];
        let last = name.rsplit('/').next().unwrap_or_default();
        match of_exec.contains(&last) {
            true => Stage::Open,
            false => Stage::Memory,
        }
    }

    /// Upper limit of [`CallDeadline::stall`]. `is_short`: the process is known to be locked, or
    /// [`STALL_BUDGET`] is used up.
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

/// Processor time that access workers have used for calls of this process.
#[must_use]
pub fn workers_cpu() -> Duration {
    Duration::from_nanos(CPU_NS.load(Ordering::Relaxed))
}

/// Processor time that access workers have used for calls of the calling thread.
#[must_use]
pub fn workers_cpu_of_thread() -> Duration {
    Duration::from_nanos(THREAD_CPU_NS.get())
}

/// Returns whether the error means that the process's memory is locked.
#[must_use]
pub fn is_locked(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ETIMEDOUT)
}

/// Returns the processes that count as locked: the last call for each missed its deadline.
#[must_use]
pub fn locked() -> Vec<LockedProcess> {
    let now = Instant::now();
    pool().ledger.locked(now)
}

/// Notes that the memory lock of process `pid` was seen free, so the process no longer counts as
/// locked.
pub fn note_free(pid: u32) {
    pool().ledger.forget((pid, Stage::Memory));
}

/// Notes that the memory lock of process `pid` was seen held for long. Calls for the process fail
/// at once until its pause is over.
pub fn note_locked(pid: u32) {
    let of = (pid, Stage::Memory);
    pool()
        .ledger
        .note_stall(of, Duration::ZERO, (Instant::now(), 0));
}

/// Ends all idle workers and waits for their end. Call it before an exec: the new program would
/// have the workers as children.
pub fn end_workers() {
    let idle = std::mem::take(&mut pool().idle);
    drop(idle);
}

/// Ends the idle workers that were not used for `IDLE_TIME`, and those above `IDLE_MAX`.
pub fn trim_workers() {
    let mut pool = pool();
    let surplus = pool.surplus(Instant::now());
    drop(pool);
    drop(surplus);
}

/// Appends the content of the file `name` of a process to `into`. Reads in pieces and stops after
/// the piece that reaches `limit` bytes. `proc` is the open `/proc`.
///
/// # Errors
/// Those of open(2) and read(2) of that file; `ETIMEDOUT` if the process's memory is locked
/// ([`is_locked`]).
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

/// Appends the whole file `name` of a process to `into`; opens the system's `/proc` itself.
///
/// # Errors
/// The same as those of [`read`].
pub(crate) fn read_system(file: (u32, &str), into: &mut Vec<u8>) -> io::Result<()> {
    let proc = std::fs::File::open("/proc")?;
    read(proc.as_fd(), file, usize::MAX, into)
}

/// Passes the content of the file `name` of a process to `sink` in pieces, until `sink` returns
/// false. A piece has at most 256 KiB; a file of this process itself is a single piece.
///
/// # Errors
/// The same as those of [`read`].
pub fn read_pieces(
    proc: BorrowedFd<'_>,
    file: (u32, &str),
    sink: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    pieces(proc, file, [Operation::Read, Operation::ReadOn], sink)
}

/// Calls `sink` with the target of each link in the directory `name` of a process, until `sink`
/// returns false. A target is cut to 64 bytes.
///
/// # Errors
/// The same as those of [`read`].
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

/// Makes a worker do the operation `first`, then `next` again and again, and passes the bytes that
/// each returns to `sink`. Stops at the end of the file or when `sink` returns false.
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
    let mut call = Call::to((pid, Stage::of(name)), CallDeadline::ORDINARY)?;
    let begin = Instant::now();
    call.set(first, &path(pid, name));
    let mut bytes = call.make(Some(proc))?.0;
    loop {
        let worker = call.worker();
        let length = usize::try_from(bytes).unwrap_or(0).min(DATA_BYTES);
        let has_more = worker.header().has_more;
        if !sink(&worker.data()[..length]) || !has_more {
            return Ok(());
        }
        if begin.elapsed() > CALL_MAX {
            return Err(locked_error());
        }
        worker.header().operation = next;
        bytes = call.make(None)?.0;
    }
}

/// Reads an open file of a process (its pagemap) from `offset` (in bytes) on. Returns the number of
/// bytes, 0 at the file's end. From another process's file a call reads at most 256 KiB.
///
/// # Errors
/// Those of pread(2); `ETIMEDOUT` if the process's memory is locked ([`is_locked`]).
pub fn read_at(
    (pid, file): (u32, BorrowedFd<'_>),
    offset: u64,
    into: &mut [u8],
) -> io::Result<usize> {
    if is_own(pid) {
        let file = std::fs::File::from(file.try_clone_to_owned()?);
        return file.read_at(into, offset);
    }
    let mut call = Call::to((pid, Stage::Memory), CallDeadline::ORDINARY)?;
    let header = call.worker().header();
    header.operation = Operation::ReadAt;
    header.count = into.len().min(DATA_BYTES) as u64;
    header.offset = offset;
    let (length, _) = call.make(Some(file))?;
    let length = usize::try_from(length).unwrap_or(0).min(into.len());
    into[..length].copy_from_slice(&call.worker().data()[..length]);
    Ok(length)
}

/// Opens the file `name` of a process for reading.
///
/// # Errors
/// The same as those of [`read`].
pub fn open(pid: u32, name: &str) -> io::Result<OwnedFd> {
    if is_own(pid) {
        return std::fs::File::open(own_path(pid, name)).map(OwnedFd::from);
    }
    let mut call = Call::to((pid, Stage::Open), CallDeadline::ORDINARY)?;
    call.set(Operation::Open, &system_path(pid, name));
    call.worker().header().flags = libc::O_RDONLY;
    let (_, opened) = call.make(None)?;
    // The worker opened the file; if no descriptor arrived, this process had no free one.
    opened.ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))
}

/// Writes `bytes` to the file `name` of a process in one call, and returns how long the call took.
/// The worker has real-time priority for at most `real_time`, so that no other program takes the
/// processor from it while it holds the process's lock.
///
/// # Errors
/// The same as those of [`read`].
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
    let patience = CallDeadline {
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

/// Advises the kernel about ranges of another process's memory, by its pidfd; returns the number of
/// bytes that the kernel processed. The kernel stops at the first range that is not all mapped. At
/// most [`crate::ADVICE_RANGES_MAX`] ranges are used.
///
/// `keeps_files`: the call runs without the file rights of root and of capabilities. Then the
/// kernel drops no pages of files that a process without these rights may not drop.
///
/// # Errors
/// Those of process_madvise(2): no right (`EPERM`), the process is gone (`ESRCH`), nothing is
/// mapped at the first range (`ENOMEM`). `ETIMEDOUT` if the process's memory is locked: the kernel
/// may have processed some of the ranges.
pub fn advise(
    (pid, pidfd): (u32, &OwnedFd),
    ranges: &[Range<u64>],
    advice: Advice,
    keeps_files: bool,
) -> io::Result<u64> {
    let patience = CallDeadline {
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
    // If the calling thread is bound to certain processors, the call must run there, too.
    worker.follow_affinity();
    let (bytes, _) = call.make(Some(pidfd.as_fd()))?;
    u64::try_from(bytes).map_err(io::Error::other)
}

/// Returns the number of context switches of the process's first thread, from `/proc/PID/status`;
/// reading this file takes no lock. While a process waits within an exec, the number stays the
/// same. 0 for [`Stage::Memory`], for which the number is not used.
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

/// Whether a process runs or waits for a processor, from `/proc/PID/status`; reading this file
/// takes no lock.
fn is_runnable(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with('R'))
}

/// Whether `pid` is this process. Calls for this process need no worker, since it does not lock its
/// own memory without end. And a worker could not always make them: if this program has file
/// capabilities, the kernel lets no other process read its `/proc` files.
fn is_own(pid: u32) -> bool {
    pid == std::process::id()
}

/// Absolute path of one of this process's files.
fn own_path(pid: u32, name: &str) -> String {
    format!("/proc/{pid}/{name}")
}

/// A path below `/proc`, relative to it, ending with NUL.
fn path(pid: u32, name: &str) -> Vec<u8> {
    format!("{pid}/{name}\0").into_bytes()
}

/// The absolute path of a file of a process, ending with NUL.
fn system_path(pid: u32, name: &str) -> Vec<u8> {
    format!("/proc/{pid}/{name}\0").into_bytes()
}

/// Locks the pool; makes a new one in a fork, and on the first call.
fn pool() -> Locked {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let us = std::process::id();
    if pool.as_ref().is_some_and(|pool| pool.owner != us) {
        // This process is a fork: the workers belong to its parent.
        std::mem::forget(pool.take());
    }
    pool.get_or_insert_with(|| Pool {
        owner: us,
        idle: Vec::new(),
        abandoned: Vec::new(),
        ledger: LockedProcesses::default(),
    });
    Locked(pool)
}

/// The locked pool, which is always `Some`.
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
    /// Returns an idle worker that has the calling thread's capabilities, or starts one. Fails if
    /// there are [`ABANDONED_MAX`] abandoned workers.
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
    /// Removes and returns the workers that were idle for longer than `IDLE_TIME`, and those above
    /// `IDLE_MAX`. (A worker serves only threads with the same capabilities, so it may stay idle.)
    fn surplus(&mut self, now: Instant) -> Vec<(Worker, Instant)> {
        let is_old = |(_, used): &&(Worker, Instant)| now - *used > IDLE_TIME;
        let old = self.idle.iter().take_while(is_old).count();
        let count = old.max(self.idle.len().saturating_sub(IDLE_MAX));
        self.idle.drain(..count).collect()
    }
}

/// One or more calls to one process, made by one worker.
struct Call {
    /// The process id, and the kind of the calls.
    of: (u32, Stage),
    patience: CallDeadline,
    /// `None` while the worker makes a call, and after a call that failed.
    worker: Option<Worker>,
    /// Processor time that the worker had used before this `Call`.
    cpu_before: Duration,
}

impl Call {
    /// Gets a worker for calls to one process.
    ///
    /// # Errors
    /// The process is known to be locked, or no worker can be started.
    fn to(of: (u32, Stage), mut patience: CallDeadline) -> io::Result<Call> {
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

    /// The worker. Panics after a call that failed.
    fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("a call that failed is over")
    }

    /// Sets the request's operation and its path, which ends with NUL.
    fn set(&mut self, operation: Operation, path: &[u8]) {
        debug_assert!(CStr::from_bytes_with_nul(path).is_ok() && path.len() <= PATH_BYTES);
        let header = self.worker().header();
        header.operation = operation;
        let length = path.len().min(PATH_BYTES - 1);
        header.path[..length].copy_from_slice(&path[..length]);
        header.path[length] = 0;
    }

    /// Has the worker make the call, with a copy of the descriptor `with`. Returns the call's
    /// result (not negative), and the descriptor that the worker opened, if any.
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

    /// Waits until the call is done. Kills the worker if it makes no progress for
    /// [`CallDeadline::stall`], or after [`CALL_MAX`].
    fn wait(&self, mut busy: Busy) -> io::Result<(Worker, Option<OwnedFd>)> {
        let begin = Instant::now();
        let (mut cpu_before, mut last_progress, mut checks) = (None, begin, 0);
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
            // A runnable worker waits for a processor on a busy machine, not for the process.
            if used != cpu_before || is_runnable(busy.pid()) {
                (cpu_before, last_progress, checks) = (used, now, 0);
            }
            checks += 1;
            // Several checks are needed: this thread itself may have waited for a processor.
            let is_late = now - last_progress >= self.patience.stall;
            let is_stalled = checks > CHECKS_MIN && is_late;
            if is_stalled || now - begin >= CALL_MAX {
                return Err(self.give_up(busy, now - begin));
            }
        }
    }

    /// Adds the processor time that the worker used since [`Call::cpu_before`] to both totals.
    fn count_cpu(&self, pid: u32) {
        let now = cpu_time(pid).unwrap_or(self.cpu_before);
        let took = now.saturating_sub(self.cpu_before).as_nanos();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        CPU_NS.fetch_add(took, Ordering::Relaxed);
        THREAD_CPU_NS.set(THREAD_CPU_NS.get().saturating_add(took));
    }

    /// Kills a worker that missed its deadline after `waited`, and notes the process as locked.
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
    /// Returns the worker to the idle ones, and notes that the process is not locked. (A call that
    /// missed its deadline has no worker any more.)
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
