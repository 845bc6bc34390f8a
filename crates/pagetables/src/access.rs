//! Reads, opens and writes what another process can keep locked without end: its memory and its
//! `/proc` files.
//!
//! Invariant: **nothing waits on another process's memory without a deadline.** The kernel takes a
//! process's memory lock (mmap_lock, or exec_update_lock during an exec) for the files that are
//! opened, read and written here. The process can hold that lock for any length of time: in mmap(2)
//! or munmap(2) of a file on a file server (FUSE, NFS) that does not answer. So a helper process,
//! the access worker (`calls::worker`), makes these calls. The worker is killed when it has used no
//! processor time for `CallDeadline::stall`.
//!
//! A process for which a deadline was missed is *locked*. It is tried again after a pause that
//! doubles with each try (`PAUSE_MIN` to `PAUSE_MAX`). It is tried at once when [`note_free`]
//! reports that its memory lock is free; during an exec, when the process has run since the last
//! try.
//!
//! All waiting for locked processes together is bounded by `STALL_BUDGET`. Once that is used up, a
//! process that is known to be locked is not tried. The first try of any other process then ends
//! after `STALL_SHORT` or `STALL_OF_EXEC_SHORT`.
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

/// Longest time that a call may make no progress; then its process counts as locked.
const STALL: Duration = Duration::from_millis(100);
/// Longest time that a call with advice may make no progress. It is long because such a call writes
/// to swap or reads from it, which may take a disk that long.
const STALL_OF_ADVICE: Duration = Duration::from_millis(500);
/// Longest time that a later try of a locked process may make no progress; once [`STALL_BUDGET`] is
/// used up, any try.
const STALL_SHORT: Duration = Duration::from_millis(10);
/// Longest time without progress of a call that waits for the end of an exec: at the first try; at
/// later tries. The lock of an exec is held for microseconds unless a file server hangs. The limits
/// may be short: a process that was taken for locked by mistake is tried again as soon as it has
/// run.
const STALL_OF_EXEC: Duration = Duration::from_millis(30);
const STALL_OF_EXEC_SHORT: Duration = Duration::from_millis(2);
/// Most time that waiting for locked processes may take within one [`STALL_WINDOW`].
const STALL_BUDGET: Duration = Duration::from_millis(150);
const STALL_WINDOW: Duration = Duration::from_secs(10);
/// Shortest and longest pause before a locked process is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longest time of one call, also of one that makes progress.
const CALL_MAX: Duration = Duration::from_secs(2);
/// Time between two checks of a call's progress. The worker is given up only after more than
/// [`SEEN_MIN`] checks without progress.
const STEP: Duration = Duration::from_millis(5);
const SEEN_MIN: u32 = 2;
/// Longest time to wait for the end of a killed worker; a worker that takes longer is abandoned.
const END: Duration = Duration::from_millis(20);
/// Most idle workers that are kept, and the time after which an idle worker is ended.
const IDLE_MAX: usize = 4;
const IDLE_TIME: Duration = Duration::from_secs(1);
/// Most abandoned workers: killed, but in an uninterruptible wait. With so many, none is started.
const ABANDONED_MAX: usize = 16;

/// The access workers, and what is known of locked processes.
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
    /// Longest time without progress.
    stall: Duration,
    /// Longest time that the worker has real-time priority; `None` if it never has.
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

/// How a call takes the memory lock of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For reading: the call waits while a task holds the lock for writing.
    Read,
    /// For writing: the call waits while any task holds the lock, and all later readers and writers
    /// wait behind the call.
    Change,
}

/// What a call to a process has to wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    /// The end of an exec: calls that only open a file.
    Open,
    /// The memory lock: calls that read or change memory.
    Memory,
}

impl Stage {
    /// Returns what a read of the file `name` of a process has to wait for.
    fn of(name: &str) -> Stage {
        let of_exec = ["stat", "fd", "io", "pagemap"];
        let last = name.rsplit('/').next().unwrap_or_default();
        match of_exec.contains(&last) {
            true => Stage::Open,
            false => Stage::Memory,
        }
    }

    /// Upper limit of [`CallDeadline::stall`]. `is_short`: for a locked process, or with
    /// [`STALL_BUDGET`] used up.
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

/// Returns the processes whose memory was locked at their last try.
#[must_use]
pub fn locked() -> Vec<LockedProcess> {
    let now = Instant::now();
    pool().ledger.locked(now)
}

/// Notes that this process's memory lock was seen free: the next call for the process is not
/// delayed.
pub fn note_free(pid: u32) {
    pool().ledger.forget((pid, Stage::Memory));
}

/// Notes that this process's memory lock was seen held for long: calls fail until the pause is
/// over.
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

/// Appends the file `name` of a process to `into`: up to `limit` bytes and the rest of the last
/// piece. `proc` is the open `/proc`.
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

/// Passes the file `name` of a process to `sink` in pieces, until `sink` returns false. A piece has
/// at most 256 KiB, unless the file is this process's own.
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

/// Passes on what the operation `first` reads, then what `next` reads, until all is read or `sink`
/// returns false.
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

/// Reads an open file of a process (its pagemap) from `offset` (in bytes) on. Returns the number of
/// bytes, 0 at the file's end. Of another process at most 256 KiB are read at once.
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
    let (got, _) = call.make(Some(file))?;
    let got = usize::try_from(got).unwrap_or(0).min(into.len());
    into[..got].copy_from_slice(&call.worker().data()[..got]);
    Ok(got)
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
/// `keeps_files`: the call runs without the file rights of root and of capabilities. Then it does
/// not drop pages of files that the process itself could not drop.
///
/// # Errors
/// Those of process_madvise(2): no right (`EPERM`), the process is gone (`ESRCH`), nothing is
/// mapped at the first range (`ENOMEM`). `ETIMEDOUT` if the process's memory is locked: the kernel
/// may have taken part of the advice.
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
    // A calling thread that is bound to a processor means the call to run there.
    worker.follow_affinity();
    let (bytes, _) = call.make(Some(pidfd.as_fd()))?;
    u64::try_from(bytes).map_err(io::Error::other)
}

/// Number of context switches of the process's first thread, from its file `status`; reading that
/// takes no lock. 0 for a call that waits for the memory lock ([`Stage::Memory`]). While a process
/// waits within an exec, this number stays the same.
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

/// Whether a process runs or waits for a processor, from its file `status`; reading that takes no
/// lock.
fn is_runnable(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with('R'))
}

/// Whether `pid` is this process, which needs no worker: it does not lock its own memory without
/// end. And if its program has file capabilities, the kernel lets no other process read its files.
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
    /// Removes and returns the workers that were idle for too long, and those above `IDLE_MAX`.
    /// They may have capabilities that no later call wants.
    fn surplus(&mut self, now: Instant) -> Vec<(Worker, Instant)> {
        let is_old = |(_, used): &&(Worker, Instant)| now - *used > IDLE_TIME;
        let old = self.idle.iter().take_while(is_old).count();
        let count = old.max(self.idle.len().saturating_sub(IDLE_MAX));
        self.idle.drain(..count).collect()
    }
}

/// One or more calls to one process, made by one worker.
struct Call {
    /// The process, and what the calls have to wait for.
    of: (u32, Stage),
    patience: CallDeadline,
    /// `None` while the worker makes a call, and after a call that failed.
    worker: Option<Worker>,
    /// Processor time that the worker had used before this `Call`.
    cpu_before: Duration,
}

impl Call {
    /// Takes a worker for calls to one process.
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

    /// Waits until the call is done; gives the worker up if it makes no progress, or after
    /// [`CALL_MAX`].
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
            // A worker that waits for a processor on a busy machine does not wait for the process.
            // Nor does time count in which this thread itself waited for a processor.
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

    /// Adds the processor time that the worker used since [`Call::cpu_before`] to both totals.
    fn count_cpu(&self, pid: u32) {
        let now = cpu_time(pid).unwrap_or(self.cpu_before);
        let took = now.saturating_sub(self.cpu_before).as_nanos();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        CPU_NS.fetch_add(took, Ordering::Relaxed);
        THREAD_CPU_NS.set(THREAD_CPU_NS.get().saturating_add(took));
    }

    /// Kills a worker that missed its deadline, and notes the process as locked.
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
    /// Puts the worker back: it is idle again. The process is not locked, because the call
    /// succeeded.
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
