//! A way out of a deadlock that the kernel sets up: mremap that grows locked memory brings the new
//! pages in *before* it announces its event, and until then refuses every answer to its own fault.
//!
//! Unregistering is not refused, and sends the thread back to the kernel, which fills the page
//! with zeros as it would without us. That is right for a page that was never anywhere else, and
//! only such pages are let go (one that a queued event has moved here was somewhere else). They are registered again as soon as nothing is changing, so that
//! the mapping is one again.

use super::present;
use super::queue;
use super::sys;
use super::table::PAGE;
use super::view::{Keeper, View};
use keeper::layout::{ctl, fd};
use keeper::word::State;
use uffd::abi::{
    Range, UFFDIO_REGISTER, UFFDIO_REGISTER_MODE_MISSING, UFFDIO_UNREGISTER, UffdioRegister,
};

/// Lets the kernel fill the pages of waiting faults that nobody can answer now.
pub(super) fn let_kernel_fill(k: &mut Keeper) {
    let mut kept = 0;
    for i in 0..k.pending_len {
        let fault = k.pending[i];
        let state = k.table_of(fault.view).state_at(fault.addr).state();
        let never = state == State::None
            && k.let_go_len < k.let_go.len()
            && !queue::moved_to(k.table, fault.view, fault.addr);
        if !never || k.uffd_of(fault.view) < 0 || queue::quiet(k, fault.view) {
            k.pending[kept] = fault;
            kept += 1;
            continue;
        }
        let mut range = Range {
            start: fault.addr,
            len: PAGE,
        };
        sys::ioctl(k.uffd_of(fault.view), UFFDIO_UNREGISTER, &mut range);
        if fault.view == View::Own {
            k.let_go[k.let_go_len] = fault.addr;
            k.let_go_len += 1;
        }
        k.table.count(ctl::LET_GO, 1);
    }
    k.pending_len = kept;
}

/// Registers pages that were let go again, those that are filled by now: before the thread's event
/// is read, so that its mapping is one again when it goes on.
pub(super) fn register_again(k: &mut Keeper) {
    let mut kept = 0;
    for i in 0..k.let_go_len {
        let addr = k.let_go[i];
        if !present::any(addr) && !queue::quiet(k, View::Own) {
            k.let_go[kept] = addr;
            kept += 1;
            continue;
        }
        let range = Range {
            start: addr,
            len: PAGE,
        };
        let mut arg = UffdioRegister {
            range,
            mode: UFFDIO_REGISTER_MODE_MISSING,
            ioctls: 0,
        };
        // Unmapped meanwhile, or something else is there: then it is not ours any more.
        sys::ioctl(fd::EVENTS, UFFDIO_REGISTER, &mut arg);
    }
    k.let_go_len = kept;
}
