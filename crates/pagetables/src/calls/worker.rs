//! The access worker: a child process that makes those system calls that another process can delay
//! without end. Its owner, this process, kills a worker whose call takes too long.
//!
//! Invariant: from [`Worker::start`] to the worker's end, the kernel and the worker write to no
//! memory but the worker's region. The region is unmapped only after the worker was reaped. The
//! worker shares this process's memory and nothing else. Its descriptors are its own: its socket,
//! and those that requests carry. It blocks all signals. It ends when the last copy of the owner's
//! end of its socket is closed, so it also ends when this process is killed. Only a system call in
//! an uninterruptible wait delays its end.
//!
//! The worker's code runs on the thread-local storage of the thread that started it. So it makes
//! only raw system calls (`raw`): it calls no function of the C library (`errno` is thread-local),
//! allocates nothing and takes no lock.

mod raw;

mod serve;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null, null_mut};
use std::time::Duration;

pub(crate) use serve::{Header, Operation, PATH_BYTES, WITHOUT_FILE_RIGHTS};

/// Maximum number of bytes of data that a request or its result has in addition to the header.
pub(crate) const DATA_BYTES: usize = 256 << 10;
/// Size of the header, with padding up to the page boundary at which the data begin.
const HEADER_BYTES: usize = 4096;
/// Size of the inaccessible page between the data and the worker's stack.
const GUARD_BYTES: usize = 4096;
/// Size of the worker's stack, which uses a few KiB; more in builds without optimization.
const STACK_BYTES: usize = 64 << 10;
const REGION_BYTES: usize = HEADER_BYTES + DATA_BYTES + GUARD_BYTES + STACK_BYTES;

/// The memory that a worker shares with its owner: header, data, guard page, the worker's stack.
#[derive(Debug)]
struct Region(NonNull<u8>);

// SAFETY: the mapping belongs to the process, not to a thread, and `Region` is its only owner.
unsafe impl Send for Region {}

impl Region {
    /// Maps a region, with its guard page.
    fn map() -> io::Result<Region> {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping at a place of the kernel's choice disturbs no memory of ours.
        let at = unsafe { libc::mmap(null_mut(), REGION_BYTES, prot, flags, -1, 0) };
        let region = match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Region(at),
            _ => return Err(io::Error::last_os_error()),
        };
        // SAFETY: the page lies within the region, and nothing was put there yet.
        unsafe {
            let guard = region.0.as_ptr().add(HEADER_BYTES + DATA_BYTES);
            libc::mprotect(guard.cast(), GUARD_BYTES, libc::PROT_NONE);
        }
        Ok(region)
    }

    /// Address of the header.
    fn header(&self) -> *mut Header {
        self.0.as_ptr().cast()
    }

    /// Address of the data.
    fn data(&self) -> *mut u8 {
        // SAFETY: within the region.
        unsafe { self.0.as_ptr().add(HEADER_BYTES) }
    }

    /// The end of the region, from which the stack grows down.
    fn stack_top(&self) -> *mut u8 {
        // SAFETY: one past the region, as for the end of an array.
        unsafe { self.0.as_ptr().add(REGION_BYTES) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; the worker that used it was reaped or never
        // started (`Process` is dropped before).
        unsafe { libc::munmap(self.0.as_ptr().cast(), REGION_BYTES) };
    }
}

/// A worker's process, and the memory that it shares with this process.
#[derive(Debug)]
struct Process {
    pid: libc::pid_t,
    /// `None` once the worker was reaped.
    region: Option<Region>,
}

impl Process {
    /// Sends SIGKILL to the worker.
    fn kill(&self) {
        // SAFETY: no memory is handed over; the number is our child's until it is reaped, which
        // only this value does.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    /// Reaps the worker if it has ended; returns whether it is gone. `flags` are those of
    /// waitpid(2).
    fn reap(&mut self, flags: libc::c_int) -> bool {
        if self.region.is_none() {
            return true;
        }
        let done = loop {
            // SAFETY: no status is requested. `__WALL`: the worker sends no signal at its end.
            let done = unsafe { libc::waitpid(self.pid, null_mut(), flags | libc::__WALL) };
            if done >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                break done;
            }
        };
        // An error means that this process has no such child any more: other code has reaped it.
        let is_gone = done != 0;
        if is_gone {
            self.region = None;
        }
        is_gone
    }
}

impl Drop for Process {
    /// Kills the worker. If it cannot be reaped yet, the region stays: the kernel may still write
    /// there.
    fn drop(&mut self) {
        if self.region.is_some() {
            self.kill();
            if !self.reap(libc::WNOHANG) {
                std::mem::forget(self.region.take());
            }
        }
    }
}

/// An idle worker: its owner may read and write its memory.
#[derive(Debug)]
pub(crate) struct Worker {
    /// `None` once the worker is killed.
    process: Option<Process>,
    /// Our end of the socket.
    socket: OwnedFd,
    /// The worker's capabilities: those of the thread that started it.
    rights: Rights,
}

/// Capabilities in the order of capget(2): effective, permitted, inheritable (32 bits each); then
/// the same for capabilities 32 and up.
pub(crate) type Rights = [u32; 6];

/// Header of capget(2): version 3 of the interface, and 0 for the calling thread.
const RIGHTS_HEADER: [u32; 2] = [0x2008_0522, 0];

/// Returns the capabilities of the calling thread.
pub(crate) fn own_rights() -> Rights {
    let (mut header, mut rights) = (RIGHTS_HEADER, [0; 6]);
    // SAFETY: the kernel writes a header of two numbers and six numbers of capabilities, both ours.
    unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), rights.as_mut_ptr()) };
    rights
}

/// A worker that makes a call: its owner must not touch its memory.
#[derive(Debug)]
pub(crate) struct Busy(Worker);

/// A worker that was killed and has not ended yet: it is in an uninterruptible wait.
#[derive(Debug)]
pub(crate) struct Abandoned(Process);

/// The result of waiting for a worker.
pub(crate) enum Waited {
    /// The call is done. The descriptor is the one that the worker opened, if any.
    Done(Worker, Option<OwnedFd>),
    /// The call is not done.
    NotYet(Busy),
    /// The worker was ended, by another process or by the kernel.
    Ended,
}

impl Worker {
    /// Starts a worker.
    ///
    /// # Errors
    /// No process, memory or descriptor is available (`EAGAIN`, `ENOMEM`, `EMFILE`).
    pub(crate) fn start() -> io::Result<Worker> {
        let region = Region::map()?;
        let (ours, theirs) = socket_pair()?;
        // SAFETY: no other code uses the region yet.
        unsafe { region.header().write(Header::new(theirs.as_raw_fd())) };
        let pid = with_all_signals_blocked(|| {
            // SAFETY: the stack is the region's own and outlives the worker. The worker shares our
            // memory, and touches no part of it but the region (see the module's comment). Without
            // CLONE_FILES it has copies of our descriptors, all of which it closes but its socket.
            unsafe {
                libc::clone(
                    serve::main,
                    region.stack_top().cast(),
                    libc::CLONE_VM,
                    region.header().cast(),
                )
            }
        });
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Worker {
            process: Some(Process {
                pid,
                region: Some(region),
            }),
            socket: ours,
            rights: own_rights(),
        })
    }

    /// The worker's capabilities.
    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// The worker's process id in our pid namespace.
    pub(crate) fn pid(&self) -> u32 {
        self.number().unsigned_abs()
    }

    /// The process id; -1 once the worker is killed.
    fn number(&self) -> libc::pid_t {
        self.process.as_ref().map_or(-1, |process| process.pid)
    }

    /// Returns the memory that the worker shares with this process.
    ///
    /// # Panics
    /// If the worker was killed.
    fn region(&self) -> &Region {
        let process = self.process.as_ref();
        process
            .and_then(|process| process.region.as_ref())
            .expect("a worker that was not killed has its region")
    }

    /// Returns the header of the next request; after a call, the header of the call's result.
    pub(crate) fn header(&mut self) -> &mut Header {
        // SAFETY: the worker is idle, so ours is the only reference; the header was written by
        // `start`.
        unsafe { &mut *self.region().header() }
    }

    /// Returns the data of the next request; after a call, the data of the call's result.
    pub(crate) fn data(&mut self) -> &mut [u8] {
        // SAFETY: as for the header; any bytes are bytes, and the kernel has filled fresh memory
        // with zeros.
        unsafe { std::slice::from_raw_parts_mut(self.region().data(), DATA_BYTES) }
    }

    /// Starts the call that the header describes, with a copy of the descriptor `with`.
    ///
    /// # Errors
    /// The worker has ended.
    pub(crate) fn begin(self, with: Option<BorrowedFd<'_>>) -> io::Result<Busy> {
        send(self.socket.as_fd(), with)?;
        Ok(Busy(self))
    }

    /// Sets whether the worker has real-time priority; without effect where that is not allowed.
    pub(crate) fn set_real_time(&self, is_real_time: bool) {
        let (policy, priority): (_, libc::c_int) = match is_real_time && sys::has_time() {
            true => (libc::SCHED_FIFO, 1),
            false => (libc::SCHED_OTHER, 0),
        };
        // A raw system call: musl's wrapper of this name always fails.
        // SAFETY: the kernel reads one sched_param, which is one int that lives for the call.
        unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                self.number(),
                policy,
                &raw const priority,
            )
        };
    }

    /// Binds the worker to the processors on which the calling thread may run.
    pub(crate) fn follow_affinity(&self) {
        let mut set = [0u64; 128];
        let bytes = size_of_val(&set);
        // SAFETY: the kernel writes at most `bytes` bytes to `set`, which is ours, and then reads
        // them from there.
        unsafe {
            let result = libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, set.as_mut_ptr());
            if let Ok(result) = usize::try_from(result) {
                let set = set.as_ptr();
                libc::syscall(libc::SYS_sched_setaffinity, self.number(), result, set);
            }
        }
    }
}

impl Drop for Worker {
    /// Ends the worker at once: an idle worker waits only for its socket.
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
            process.reap(0);
        }
    }
}

impl Busy {
    /// The worker's process id in our pid namespace.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Does what [`Worker::set_real_time`] does.
    pub(crate) fn set_real_time(&self, is_real_time: bool) {
        self.0.set_real_time(is_real_time);
    }

    /// Waits until the call is done, but at most `at_most`.
    pub(crate) fn wait(self, at_most: Duration) -> Waited {
        if !is_readable(self.0.socket.as_fd(), at_most) {
            return Waited::NotYet(self);
        }
        match receive(self.0.socket.as_fd()) {
            Ok(opened) => Waited::Done(self.0, opened),
            Err(_) => {
                drop(self.kill(Duration::from_secs(1)));
                Waited::Ended
            }
        }
    }

    /// Kills the worker; returns it if it has not ended after about `within`.
    pub(crate) fn kill(mut self, within: Duration) -> Option<Abandoned> {
        let mut killed = Abandoned(self.0.process.take()?);
        killed.0.kill();
        // The kernel closes the worker's end of the socket when the worker ends.
        let _ = is_readable(self.0.socket.as_fd(), within);
        for _ in 0..20 {
            if killed.is_gone() {
                return None;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Some(killed)
    }
}

impl Abandoned {
    /// Whether the worker has ended and was reaped.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.0.reap(libc::WNOHANG)
    }
}

/// Creates two ends of a socket that preserves message boundaries.
fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two numbers to a place that is ours.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made these descriptors for us, and no other code knows their numbers.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Calls `act` while this thread blocks all signals; `errno` stays as `act` left it.
fn with_all_signals_blocked<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals are plain numbers, for which zeros are valid.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both sets are ours and live for the calls.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let done = act();
    let error = io::Error::last_os_error().raw_os_error();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
    if let Some(error) = error {
        // SAFETY: `errno` is this thread's.
        unsafe { *libc::__errno_location() = error };
    }
    done
}

/// Waits for at most `at_most` until the socket has something to read or its other end is closed;
/// returns whether that happened.
fn is_readable(socket: BorrowedFd<'_>, at_most: Duration) -> bool {
    let end = std::time::Instant::now() + at_most;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fd = libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the kernel reads and writes one pollfd and reads one timespec, which live for the
        // call. There is no signal mask.
        match unsafe { libc::ppoll(&raw mut fd, 1, &raw const time, null()) } {
            1 => return true,
            0 => return false,
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return false,
        }
    }
}

/// Sends a message of one byte, with the descriptor `with` if there is one.
fn send(socket: BorrowedFd<'_>, with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut message = serve::Message::new();
    message.put(with.map_or(-1, |fd| fd.as_raw_fd()));
    let header = message.header(with.is_some());
    // SAFETY: the message's parts live for the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    match sent {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Receives a message of one byte, and the descriptor that it carries.
fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let mut message = serve::Message::new();
    let mut header = message.header(true);
    // SAFETY: the message's parts live for the call.
    let result =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    if result != 1 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let fd = message.taken(&header);
    // SAFETY: the kernel just made this descriptor for us, and no other code knows its number.
    Ok(fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}
