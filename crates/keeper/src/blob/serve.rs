//! The loop: read messages, apply events, answer faults, run a slice of a command, look after the
//! other keeper and the target; spin a little, then sleep.
//!
//! Invariant: events that were read are applied before any fault is answered. Faults read before
//! an older event cannot be answered wrongly: until the event is read every install fails (EAGAIN).

use super::command::{self, Step};
use super::halt::Halt;
use super::install::{self, Answer, answer, wake};
use super::sys::{self, PollFd};
use super::table::{PAGE, Table};
use super::transit::flush;
use super::view::{CHILDREN_MAX, Fault, Keeper, PENDING_MAX, View, page_of};
use super::{boot, children, events, queue, registered, unstick};
use core::arch::x86_64::_rdtsc;
use core::sync::atomic::Ordering;
use keeper::layout::{HIST_LEN, QUEUE_MAX, ctl, fd, hist_index};
use keeper::order::set;
use keeper::span;
use uffd::abi::{UffdMsg, event};

pub(super) const INBOX_MSGS: usize = 16;
const MSG_BYTES: usize = size_of::<UffdMsg>();
/// How long to spin after the last work before sleeping, cycles.
const SPIN_CYCLES: u64 = 60_000;
/// For how long installs may be refused before `unstick` looks whether they ever will not be.
const STUCK_CYCLES: u64 = 40_000_000;
/// How soon after a page was filled, or its thread woken to ask again, the next fault is taken for a
/// part of the same trouble, cycles.
const STILL_STUCK_CYCLES: u64 = 40_000_000;
/// Housekeeping interval, nanoseconds.
const CHECK_NS: u64 = 100_000_000;
pub(super) const POLLIN: i16 = 1;

pub(super) fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has a time-stamp counter.
    unsafe { _rdtsc() }
}

pub(super) fn inbox_msg(t: Table, i: usize) -> UffdMsg {
    // SAFETY: i < INBOX_MSGS: inside the inbox of the control words; any bytes are a valid message.
    unsafe {
        t.inbox()
            .cast::<UffdMsg>()
            .add(i % INBOX_MSGS)
            .read_volatile()
    }
}

pub(super) fn clear_msg(t: Table, i: usize) {
    // SAFETY: as in `inbox_msg`.
    unsafe {
        t.inbox()
            .cast::<UffdMsg>()
            .add(i % INBOX_MSGS)
            .write_volatile(UffdMsg::default())
    };
}

/// Wakes every thread that waits on any userfaultfd.
pub(super) fn wake_all(k: &Keeper) {
    const LOW: u64 = 0x10000;
    const HIGH: u64 = 0x7fff_ffff_f000;
    wake(fd::EVENTS, LOW, HIGH - LOW);
    for child in &k.children[..k.children_end] {
        if child.uffd >= 0 {
            wake(child.uffd, LOW, HIGH - LOW);
        }
    }
}

/// Reads one batch of messages of a view: applies events, queues faults. True if there were any.
fn read_batch(k: &mut Keeper, view: View) -> bool {
    let t = k.table;
    if QUEUE_MAX - queue::len(t) < INBOX_MSGS {
        return false;
    }
    t.set(ctl::INBOX_SOURCE, u64::from(view.code()));
    let n = sys::read(k.uffd_of(view), t.inbox(), INBOX_MSGS * MSG_BYTES);
    if n <= 0 {
        return false;
    }
    let since = cycles();
    for i in 0..n as usize / MSG_BYTES {
        let msg = inbox_msg(t, i);
        if msg.event == event::PAGEFAULT {
            let addr = page_of(msg.arg1);
            add_fault(k, Fault { view, addr, since });
        } else if !queue::push(t, view, &msg) {
            t.anomaly(36, 0);
        }
        clear_msg(t, i);
    }
    true
}

/// Keeps a fault until it is answered. Without room its thread asks again: events lie between the
/// faults, and have to be read.
fn add_fault(k: &mut Keeper, fault: Fault) {
    if k.pending_len < PENDING_MAX {
        k.pending[k.pending_len] = fault;
        k.pending_len += 1;
    } else {
        wake(k.uffd_of(fault.view), fault.addr, PAGE);
        k.table.count(ctl::RETRIES, 1);
    }
}

/// Reads a batch of each view. True if there was anything.
fn read_all(k: &mut Keeper) -> bool {
    let mut any = read_batch(k, View::Own);
    for i in 0..k.children_end {
        if k.children[i].uffd >= 0 && unstick::register_again(k, i) {
            any |= read_batch(k, View::Child(i as u16));
        }
    }
    any
}

/// Applies the events of each view of which none is outstanding. False while some must wait.
fn apply_events(k: &mut Keeper) -> bool {
    let mut all = true;
    let mut code = 0;
    if k.ledger.in_doubt() {
        // Another view's events would need the ledger.
        let view = View::from_code(k.ledger.of);
        if queue::waits(k.table, view) && !apply_view(k, view) || !set::settle_doubts(k) {
            return false;
        }
    }
    while queue::len(k.table) > 0 && code <= k.children_end as u32 {
        let view = View::from_code(code);
        if queue::waits(k.table, view) {
            let applied = apply_view(k, view);
            if applied && !set::settle_doubts(k) {
                return false;
            }
            all &= applied;
        }
        code += 1;
    }
    all
}

/// Applies a view's events unless one is outstanding.
fn apply_view(k: &mut Keeper, view: View) -> bool {
    let complete = k.uffd_of(view) < 0 || registered::quiet(k, view);
    if complete {
        events::apply_all(k, view);
    }
    complete
}

/// Answers what is queued; what must wait stays. True if any was answered.
fn answer_pending(k: &mut Keeper) -> bool {
    let mut kept = 0;
    let n = k.pending_len;
    for i in 0..n {
        let fault = k.pending[i];
        if let View::Child(c) = fault.view
            && k.children[usize::from(c) % CHILDREN_MAX].uffd < 0
        {
            continue;
        }
        match answer(k, fault) {
            Answer::Done => note_time(k, fault.since),
            Answer::Again => {
                k.pending[kept] = fault;
                kept += 1;
                k.table.count(ctl::RETRIES, 1);
            }
            Answer::Gone => {
                if let View::Child(c) = fault.view {
                    children::drop_child(k, usize::from(c));
                }
            }
        }
    }
    k.pending_len = kept;
    kept < n
}

/// Answers what is queued; the program may have to stand still for the rest.
fn answer_or_halt(k: &mut Keeper, halt: &mut Halt) -> bool {
    let any = answer_pending(k);
    if k.pending_len > 0 && outstanding(k) {
        halt.consider(k);
    } else {
        halt.over();
    }
    any
}

/// Whether any of the faults that wait cannot be answered because of an event.
fn outstanding(k: &Keeper) -> bool {
    let mut last = None;
    k.pending[..k.pending_len].iter().any(|fault| {
        let new = last != Some(fault.view);
        last = Some(fault.view);
        new && !registered::quiet(k, fault.view)
    })
}

fn note_time(k: &Keeper, since: u64) {
    k.table.count(ctl::FAULTS, 1);
    let i = hist_index(cycles().wrapping_sub(since)).min(HIST_LEN - 1);
    k.table.count(ctl::HIST + i, 1);
}

/// Whether a manager has asked to stand still. Nothing is half done here, and the window is empty.
fn held(k: &Keeper) -> bool {
    let t = k.table;
    let until = t.ctl(ctl::HOLD_UNTIL).load(Ordering::Acquire);
    if t.get(ctl::HOLD_SEEN) != until {
        t.ctl(ctl::HOLD_SEEN).store(until, Ordering::Release);
    }
    if until == 0 || sys::now_ns() < until {
        return until != 0;
    }
    // Its manager is late, or dead: nobody waits for it any longer.
    let order = Ordering::AcqRel;
    let _ = t
        .ctl(ctl::HOLD_UNTIL)
        .compare_exchange(until, 0, order, Ordering::Relaxed);
    false
}

/// When to look for the deadlock that `unstick` describes.
struct Stuck {
    /// When no fault was waiting.
    quiet_since: u64,
    /// When a page was last filled, or a thread woken to ask again.
    filled: u64,
}

impl Stuck {
    fn now(&self) -> bool {
        let now = cycles();
        now.wrapping_sub(self.quiet_since) > STUCK_CYCLES
            || now.wrapping_sub(self.filled) < STILL_STUCK_CYCLES
    }

    fn fill(&mut self, k: &mut Keeper) -> bool {
        let any = unstick::fill_waiting(k);
        if any {
            self.filled = cycles();
        }
        any
    }
}

/// Serves until the target and every child are gone, or the manager says leave.
pub(super) fn serve(k: &mut Keeper) -> ! {
    let mut idle_since = cycles();
    let mut stuck = Stuck {
        quiet_since: idle_since,
        filled: 0,
    };
    let mut halt = Halt::new();
    loop {
        let mut busy = halt.may_read(k) && read_all(k);
        flush(k);
        if held(k) {
            sleep(k, 1);
            continue;
        }
        let events = queue::len(k.table) > 0 || k.ledger.in_doubt();
        if events && !apply_events(k) {
            // The threads whose events were read must run before anything can be installed.
            if !busy {
                sys::yield_now();
            }
            if stuck.now() && !stuck.fill(k) {
                sleep(k, 1);
            }
            halt.consider(k);
            idle_since = cycles();
            continue;
        }
        if k.pending_len == 0 {
            stuck.quiet_since = cycles();
        } else if stuck.now() {
            stuck.fill(k);
        }

        busy |= answer_or_halt(k, &mut halt);
        let step = if halt.on() {
            Step::Blocked
        } else {
            command::step(k)
        };
        if step == Step::More || busy {
            idle_since = cycles();
            if busy {
                continue;
            }
        }
        let now = sys::now_ns();
        if now.wrapping_sub(k.checked_ns) > CHECK_NS {
            k.checked_ns = now;
            housekeeping(k);
        }
        if step == Step::More {
            continue;
        }
        let waiting = k.pending_len > 0 || step == Step::Blocked;
        if waiting {
            sleep(
                k,
                if cycles().wrapping_sub(idle_since) < SPIN_CYCLES {
                    0
                } else {
                    1
                },
            );
        } else if cycles().wrapping_sub(idle_since) > SPIN_CYCLES {
            sleep(k, 100);
        }
    }
}

fn sleep(k: &mut Keeper, timeout_ms: i64) {
    const FIXED: usize = 4;
    let mut fds = [PollFd {
        fd: -1,
        events: POLLIN,
        revents: 0,
    }; FIXED + CHILDREN_MAX];
    for (place, f) in [fd::EVENTS, fd::WAKE, fd::TARGET, fd::PEER]
        .into_iter()
        .enumerate()
    {
        fds[place].fd = f;
    }
    if k.orphaned {
        fds[2].fd = -1;
    }
    for i in 0..k.children_end {
        fds[FIXED + i].fd = k.children[i].uffd;
    }
    if sys::poll(&mut fds[..FIXED + k.children_end], timeout_ms) <= 0 {
        return;
    }
    if fds[1].revents != 0 {
        let mut count = [0u8; 8];
        sys::read(fd::WAKE, count.as_mut_ptr(), 8);
    }
    if fds[2].revents != 0 {
        target_gone(k);
    }
    if fds[3].revents != 0 {
        boot::new_standby(k);
    }
}

/// Slow checks: has the target left this address space by exec, are children gone.
fn housekeeping(k: &mut Keeper) {
    if k.children_end > 0 {
        children::reap(k);
    }
    if !k.orphaned && sys::same_memory(k.target, sys::getpid()) == Some(false) {
        target_gone(k);
    }
    if k.orphaned && k.children_end == 0 {
        boot::leave(k);
    }
}

/// The target has exited or runs another program: its memory goes, its children are still served.
fn target_gone(k: &mut Keeper) {
    if !k.orphaned {
        k.orphaned = true;
        while k.regs().len() > 0 {
            let (start, end) = k.regs().get(0);
            let mut range = uffd::abi::Range {
                start,
                len: end - start,
            };
            sys::ioctl(fd::EVENTS, uffd::abi::UFFDIO_UNREGISTER, &mut range);
            // A range that was unmapped last of all may not be out of the list, and be a table now.
            let range = (start, end);
            if span::without(range, range, k.child_tables()).is_some() {
                sys::munmap(start, end - start);
            }
            events::forget(k, View::Own, start, end, keeper::layout::log::UNMAPPED);
            k.regs().remove(start, end);
        }
    }
    if k.children_end == 0 {
        boot::leave(k);
    }
}

const _: () = assert!(size_of::<install::Answer>() == 1);
