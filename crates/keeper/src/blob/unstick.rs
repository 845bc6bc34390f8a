//! A way out of a deadlock that the kernel sets up: mremap that grows locked memory brings the new
//! pages in *before* it announces its event, and until then refuses every answer to its own fault.
//!
//! It refuses those of the userfaultfd that is to hear of the event. An install through another one
//! of the same address space is not refused, whichever the mapping is registered with. So the page
//! is filled with zeros through the one that asks questions. That is right for a page that was never
//! anywhere else, and only such pages are filled (one that a queued event has moved here was
//! somewhere else). Of a child's address space there is no other userfaultfd: there the page is
//! unregistered, which is not refused either, and the kernel fills it.

use super::install::wake;
use super::queue;
use super::sys;
use super::table::PAGE;
use super::view::{Fault, Keeper, View};
use keeper::layout::{ctl, fd};
use keeper::word::State;
use uffd::abi::{Range, UFFDIO_UNREGISTER, UFFDIO_ZEROPAGE, UffdioZeropage};

/// Fills the pages of waiting faults that cannot be answered now.
pub(super) fn fill_waiting(k: &mut Keeper) {
    let mut kept = 0;
    for i in 0..k.pending_len {
        let fault = k.pending[i];
        let state = k.table_of(fault.view).state_at(fault.addr).state();
        let never = state == State::None && !queue::moved_to(k.table, fault.view, fault.addr);
        if !never || k.uffd_of(fault.view) < 0 || queue::quiet(k, fault.view) {
            k.pending[kept] = fault;
            kept += 1;
            continue;
        }
        fill(k, fault);
        k.table.count(ctl::LET_GO, 1);
    }
    k.pending_len = kept;
}

fn fill(k: &Keeper, fault: Fault) {
    let mut range = Range {
        start: fault.addr,
        len: PAGE,
    };
    if fault.view != View::Own {
        sys::ioctl(k.uffd_of(fault.view), UFFDIO_UNREGISTER, &mut range);
        return;
    }
    let mut arg = UffdioZeropage {
        range,
        mode: 0,
        done: 0,
    };
    sys::ioctl(fd::PROBE, UFFDIO_ZEROPAGE, &mut arg);
    // Whatever came of it, the thread looks again.
    wake(fd::EVENTS, fault.addr, PAGE);
}
