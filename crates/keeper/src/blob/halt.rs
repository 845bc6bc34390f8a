//! The program stands still for a moment, so that all that is announced can be read.
//!
//! As long as any event of an address space is outstanding the kernel refuses every install
//! (`queue`). A few threads that change it without a pause, none of which needs a page that is out,
//! keep it so for ever: there is always one that has announced something, or has been heard and not
//! had its turn on a processor since. Then no fault is answered, and the queue fills up; and when it
//! is full nothing more is read, and everybody waits. So the threads are stopped, by ptrace, of which
//! neither they nor their parent learn anything, until nothing is outstanding.
//!
//! A helper does it that shares the keeper's memory. Its death lets all of them go at once, wherever
//! they are by then, and nothing else has to be undone.
//!
//! Invariant: nobody stands still for longer than `HALT_NS`, whoever dies.

use super::sys::{self, CLONE_UNTRACED, CLONE_VM, SIGKILL, clone_onto, sys};
use super::view::{Keeper, View};
use super::{queue, registered};
use core::sync::atomic::{AtomicU64, Ordering};
use keeper::layout::{KEEPER_COMM, ctl};
use keeper::task::{self, Path};
use uffd::abi::nr;

const WALL: u64 = 0x4000_0000;
const PTRACE_SEIZE: u64 = 0x4206;
const PTRACE_INTERRUPT: u64 = 0x4207;
/// For how long threads stand still at most, nanoseconds.
const HALT_NS: u64 = 300_000_000;
/// How long they run before the next time, at least.
const RUN_NS: u64 = 100_000_000;
/// How long a fault has waited when they are stopped for it.
const LATE_NS: u64 = 30_000_000;
/// How long events are left unread while no helper comes about, nanoseconds.
const GIVE_UP_NS: u64 = 2_000_000_000;
/// From one look at the threads to the next, microseconds.
const LOOK_US: u64 = 200;
/// With so many events in the queue they are stopped at once: of those that follow each thread has one.
const CROWD: usize = 256;
/// The argument of a helper that is to stop all relatives of this address space.
const RELATIVES: u64 = 0;

/// How often the helper has looked at all threads.
static LOOKS: AtomicU64 = AtomicU64::new(0);

/// Whether threads stand still.
pub(super) struct Halt {
    /// The helper's process id; 0 if there is none.
    helper: u64,
    /// When the last one began.
    begun: u64,
    /// From when on the stack of a helper is free: a dead keeper may have made one.
    free: u64,
    /// Since when somebody waits without a pause; 0 if nobody does.
    late: u64,
}

fn crowd(k: &Keeper) -> bool {
    queue::len(k.table) > CROWD && queue::waiting(k.table) > CROWD
}

impl Halt {
    pub(super) fn new() -> Halt {
        Halt {
            helper: 0,
            begun: 0,
            free: sys::now_ns() + HALT_NS,
            late: 0,
        }
    }

    /// Whether more events may be read: each that is read lets its thread go on, to announce the next.
    /// After the helper's first look it will not get that far.
    pub(super) fn may_read(&self, k: &Keeper) -> bool {
        let looked = self.helper != 0 && LOOKS.load(Ordering::Acquire) > 0;
        !crowd(k) || looked || self.late != 0 && sys::now_ns() > self.late + GIVE_UP_NS
    }

    /// Whether threads stand still: the helper needs the keeper's image.
    pub(super) fn on(&self) -> bool {
        self.helper != 0
    }

    /// Nobody waits: threads may run.
    pub(super) fn over(&mut self) {
        self.late = 0;
        self.end();
    }

    /// Something is outstanding: stops the threads when somebody waits for long, or many events do.
    pub(super) fn consider(&mut self, k: &Keeper) {
        let crowd = crowd(k);
        if k.pending_len == 0 && !crowd {
            return self.over();
        }
        let now = sys::now_ns();
        if self.late == 0 {
            self.late = now;
        }
        let again = now > self.begun + HALT_NS + RUN_NS;
        if self.helper != 0 {
            if now > self.begun + HALT_NS {
                self.end();
            }
        } else if now > self.free && (crowd || again && now > self.late + LATE_NS) {
            self.begin(k, now);
        }
    }

    fn begin(&mut self, k: &Keeper, now: u64) {
        let whom = if registered::quiet(k, View::Own) {
            RELATIVES
        } else {
            k.target
        };
        // The boot stack lies last, and is nobody's after the start.
        let stack = k.image + k.table.get(ctl::IMAGE_LEN);
        LOOKS.store(0, Ordering::Release);
        let flags = CLONE_VM | CLONE_UNTRACED;
        // SAFETY: the helper before this was reaped, or has ended by itself: the stack is unused, and
        // mapped as long as the image; `stop_threads` never returns.
        let pid = unsafe { clone_onto(flags, stack, stop_threads, whom) };
        if pid > 0 {
            self.helper = pid as u64;
            self.begun = now;
            k.table.count(ctl::HALTS, 1);
        }
    }

    fn end(&mut self) {
        if self.helper != 0 {
            sys::kill(self.helper, SIGKILL);
            // SAFETY: no pointers. It is our child, and dies of the signal.
            unsafe { sys!(nr::WAIT4, self.helper, 0, WALL, 0) };
            self.helper = 0;
        }
    }
}

/// In the helper: stops whatever thread runs, until it is killed, or it is time.
extern "C" fn stop_threads(whom: u64) -> ! {
    let end = sys::now_ns() + HALT_NS;
    let ours = stat_of(Path::proc().then("/self/stat"), task::start_stack);
    while sys::now_ns() < end {
        if whom == RELATIVES {
            each_in(Path::proc(), |pid| {
                let is = |stat: &[u8]| {
                    let relative = ours.is_some() && task::start_stack(stat) == ours;
                    (relative && !is_keeper(stat)).then_some(())
                };
                if stat_of(Path::proc().number(pid).then("/stat"), is).is_some() {
                    stop_process(pid);
                }
            });
        } else {
            stop_process(whom);
        }
        LOOKS.fetch_add(1, Ordering::AcqRel);
        sys::sleep_us(LOOK_US);
    }
    sys::exit()
}

fn is_keeper(stat: &[u8]) -> bool {
    task::name(stat) == Some(KEEPER_COMM.to_bytes())
}

/// Stops the threads of a process that run. One that sleeps announces nothing, and what it waits for
/// may not be interrupted (epoll_wait(2) fails with EINTR then, signal(7)).
fn stop_process(pid: u64) {
    let folder = || Path::proc().number(pid).then("/task");
    each_in(folder(), |tid| {
        let busy = |stat: &[u8]| task::is_busy(stat).then_some(());
        if stat_of(folder().number(tid).then("/stat"), busy).is_some() {
            // SAFETY: no pointers. One that is stopped already, or traced by somebody, refuses.
            unsafe {
                if sys!(nr::PTRACE, PTRACE_SEIZE, tid, 0, 0) == 0 {
                    sys!(nr::PTRACE, PTRACE_INTERRUPT, tid, 0, 0);
                }
            }
        }
    });
}

/// What `of` makes of a `stat` file.
fn stat_of<T>(path: Path, of: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let file = sys::open(path.bytes());
    if file < 0 {
        return None;
    }
    let mut text = [0; 512];
    let n = sys::read(file as i32, text.as_mut_ptr(), text.len());
    sys::close(file as i32);
    of(text.get(..usize::try_from(n).ok()?)?)
}

/// Calls `f` with each number that something in a folder is named by.
fn each_in(path: Path, mut f: impl FnMut(u64)) {
    let folder = sys::open(path.bytes());
    if folder < 0 {
        return;
    }
    let mut records = [0; 2048];
    loop {
        let n = sys::getdents(folder as i32, &mut records);
        let Some(read) = usize::try_from(n).ok().and_then(|n| records.get(..n)) else {
            break;
        };
        if read.is_empty() {
            break;
        }
        task::numbers(read).for_each(&mut f);
    }
    sys::close(folder as i32);
}
