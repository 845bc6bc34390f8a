//! A way out of a deadlock that the kernel sets up: mremap that grows locked memory brings the new
//! pages in *before* it announces its event, and until then refuses every answer to its own fault.
//!
//! It refuses those of the userfaultfd that is to hear of the event. An install through another one
//! of the same address space is not refused, whichever the mapping is registered with. So the page
//! is filled with zeros through the one that asks questions. That is right for a page that is
//! new, and only such pages are filled (`queue::is_new`), and only where a thread waits. An event
//! that is not read yet may move a page to where this one is; but then nobody who keeps from races
//! knows the place. Of a child's address space there is no other userfaultfd: there the page
//! is unregistered, which is not refused either, and the kernel fills it.
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

/// Fills the pages of waiting faults that cannot be answered now. True if there were any.
pub(super) fn fill_waiting(k: &mut Keeper) -> bool {
    let mut kept = 0;
    let n = k.pending_len;
    for i in 0..n {
        let fault = k.pending[i];
        let state = k.table_of(fault.view).state_at(fault.addr).state();
        let new = queue::is_new(k.table, fault.view, fault.addr, state == State::None);
        let open = k.uffd_of(fault.view) >= 0;
        if new && open && !registered::quiet(k, fault.view) && fill(k, fault) {
            k.table.count(ctl::LET_GO, 1);
        } else {
            k.pending[kept] = fault;
            kept += 1;
        }
    }
    k.pending_len = kept;
    kept < n
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

/// Registers what was let go of child `i`, if the child has something to say.
pub(super) fn register_again(k: &mut Keeper, i: usize) {
    let uffd = k.children[i].uffd;
    if k.let_go[i].is_empty() {
        return;
    }
    let mut poll = [PollFd {
        fd: uffd,
        events: serve::POLLIN,
        revents: 0,
    }];
    if sys::poll(&mut poll, 0) <= 0 {
        return;
    }
    k.let_go[i].take(0, u64::MAX, |start, end| {
        registered::register(uffd, start, end);
    });
}
