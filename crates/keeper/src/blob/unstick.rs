//! A way out of a deadlock that the kernel sets up: mremap that grows locked memory brings the new
//! pages in *before* it announces its event, and until then refuses every answer to its own fault.
//!
//! It refuses those of the userfaultfd that is to hear of the event. An install through another one
//! of the same address space is not refused, whichever the mapping is registered with. So the page
//! is filled with zeros through the one that asks questions. That is right for a page that is
//! new, and only such pages are filled (`queue::is_new`), and only where a thread waits. An event
//! that is not read yet may move a page to where this one is; but then nobody who keeps from races
//! knows the place.
//!
//! That a thread waits is not told by a fault that was read a while ago. One thread may have asked
//! twice (it was woken in between), been answered once, and have given its memory away; then the
//! locked memory that grows moves there, and zeros would be put over its pages. So whoever waits for
//! an old fault is woken, and only a fault that was read just now is filled.
//!
//! Of a child's address space there is no other userfaultfd: there the page is unregistered, which is
//! not refused either, and the kernel fills it.
//!
//! Invariant: what was unregistered is registered again before the next message of that child is
//! read. Until it is read the thread that announces it cannot go on, so a program with one thread
//! never finds the seam (mremap over one fails).

use super::install::{self, wake};
use super::sys::{self, PollFd};
use super::table::PAGE;
use super::view::{CHILDREN_MAX, Fault, Keeper, View};
use super::{queue, registered, serve};
use keeper::layout::{ctl, fd};
use keeper::word::State;
use uffd::abi::{Range, UFFDIO_UNREGISTER};

/// For how long after it was read a fault is taken for one of a thread that waits now, cycles.
const FRESH_CYCLES: u64 = 4_000_000;
/// How often an event is looked at for a fault, each time: many may wait while many are queued.
const LOOKS: usize = 1 << 20;
/// The address of a fault that is not waited for any longer.
const HANDLED: u64 = u64::MAX;

/// Fills the pages of waiting faults that cannot be answered now, or asks anew who waits for them.
/// True if there were any.
pub(super) fn fill_waiting(k: &mut Keeper) -> bool {
    let mut kept = 0;
    let n = k.pending_len;
    let looked_at = 1 + LOOKS / (1 + queue::len(k.table));
    for i in 0..n {
        let fault = k.pending[i];
        if fault.addr == HANDLED {
            continue;
        }
        if i < looked_at && fillable(k, fault) && fill_or_ask(k, fault) {
            handled(k, i, n);
        } else {
            k.pending[kept] = fault;
            kept += 1;
        }
    }
    k.pending_len = kept;
    kept < n
}

fn fillable(k: &Keeper, fault: Fault) -> bool {
    let none = k.table_of(fault.view).state_at(fault.addr).state() == State::None;
    let taken = k.regs().around(fault.addr).is_some();
    queue::is_new(k.table, fault.view, fault.addr, none, taken)
        && k.uffd_of(fault.view) >= 0
        && !registered::quiet(k, fault.view)
}

fn fill_or_ask(k: &mut Keeper, fault: Fault) -> bool {
    if serve::cycles().wrapping_sub(fault.since) > FRESH_CYCLES {
        wake(k.uffd_of(fault.view), fault.addr, PAGE);
        return true;
    }
    let filled = fill(k, fault);
    k.table.count(ctl::LET_GO, u64::from(filled));
    filled
}

/// Drops the other faults at the same page, from the one at `i` on: whoever waits has been woken.
fn handled(k: &mut Keeper, i: usize, n: usize) {
    let Fault { view, addr, .. } = k.pending[i];
    for fault in &mut k.pending[i + 1..n] {
        if fault.view == view && fault.addr == addr {
            fault.addr = HANDLED;
        }
    }
}

fn fill(k: &mut Keeper, fault: Fault) -> bool {
    if let View::Child(i) = fault.view {
        let let_go = &mut k.let_go[usize::from(i) % CHILDREN_MAX];
        if !let_go.add(fault.addr, fault.addr + PAGE) {
            return false;
        }
        let mut range = Range {
            start: fault.addr,
            len: PAGE,
        };
        sys::ioctl(k.uffd_of(fault.view), UFFDIO_UNREGISTER, &mut range);
        return true;
    }
    install::zeropage(fd::PROBE, fault.addr, PAGE);
    // Whatever came of it, the thread looks again.
    wake(fd::EVENTS, fault.addr, PAGE);
    true
}

/// Registers what was let go of child `i`, if the child has something to say. Whether its messages
/// may be read now: what it says between the look and the reading is left for the next time.
pub(super) fn register_again(k: &mut Keeper, i: usize) -> bool {
    let uffd = k.children[i].uffd;
    if k.let_go[i].is_empty() {
        return true;
    }
    let mut poll = [PollFd {
        fd: uffd,
        events: serve::POLLIN,
        revents: 0,
    }];
    if sys::poll(&mut poll, 0) <= 0 {
        return false;
    }
    k.let_go[i].take(0, u64::MAX, |start, end| {
        registered::register(uffd, start, end);
    });
    true
}
