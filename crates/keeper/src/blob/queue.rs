//! Events wait here until nothing is changing, and are then applied together.
//!
//! A thread queues its event after it has let go of the lock under which it changed the address
//! space, so events of different threads can be read in another order than they happened: a move to
//! a place before the unmapping of what was there, a fork after a move that followed it. While any
//! event is outstanding the kernel refuses every install and every move (EAGAIN). So nothing is
//! lost by waiting: once an install would not be refused, the set of events is complete, and
//! `set::apply_all` can tell from the set, and from what is registered now, what happened.
//!
//! In which order they are applied, `keeper::order::plan` works out.
//!
//! Invariant: the queue is in shared memory and a message leaves it only when it was applied.

use super::table::Table;
use super::view::View;
use keeper::layout::{QUEUE_MAX, ctl};
use keeper::occupancy::Occupancy;
use uffd::abi::UffdMsg;

/// From so many places on, those that were done with are taken out between others, too.
const LONG: usize = 512;

/// Messages that are not applied.
pub(super) fn waiting(t: Table) -> usize {
    (0..len(t)).filter(|&i| get(t, i).event != 0).count()
}

pub(super) fn len(t: Table) -> usize {
    (t.get(ctl::QUEUE_LEN) as usize).min(QUEUE_MAX)
}

pub(super) fn get(t: Table, i: usize) -> UffdMsg {
    // SAFETY: inside the queue; any bytes are a valid message.
    unsafe { t.queue().add(i % QUEUE_MAX).read_volatile() }
}

pub(super) fn set(t: Table, i: usize, msg: UffdMsg) {
    // SAFETY: inside the queue.
    unsafe { t.queue().add(i % QUEUE_MAX).write_volatile(msg) };
}

/// Adds a message; false when there is no room.
pub(super) fn push(t: Table, view: View, msg: &UffdMsg) -> bool {
    let n = len(t);
    if n == QUEUE_MAX {
        return false;
    }
    set(
        t,
        n,
        UffdMsg {
            source: view.code(),
            phase: 0,
            turn: 0,
            ..*msg
        },
    );
    t.ctl(ctl::QUEUE_LEN)
        .store(n as u64 + 1, core::sync::atomic::Ordering::Release);
    true
}

/// Takes out what was applied: the last messages, and those before them only where room gets short,
/// for a keeper that dies while it moves a message leaves it there twice. What is left is nobody's.
pub(super) fn compact(t: Table) {
    let mut n = len(t);
    while n > 0 && get(t, n - 1).event == 0 {
        n -= 1;
    }
    t.set(ctl::QUEUE_LEN, n as u64);
    let mut kept = 0;
    for i in 0..n {
        let msg = get(t, i);
        if msg.event == 0 && n < LONG {
            let source = u32::MAX;
            set(t, i, UffdMsg { source, ..msg });
        } else if msg.event != 0 && n >= LONG {
            if kept != i {
                set(t, kept, msg);
            }
            kept += 1;
        }
    }
    if n >= LONG {
        t.set(ctl::QUEUE_LEN, kept as u64);
    }
}

/// Whether the view has messages in the queue.
pub(super) fn waits(t: Table, view: View) -> bool {
    (0..len(t)).any(|i| get(t, i).source == view.code() && get(t, i).event != 0)
}

/// Whether the page at `addr` is new once the queue is applied. `taken` says whether something
/// registered is there before; of a child that is not known, and a page that anything moves to is
/// not called new.
pub(super) fn is_new(t: Table, view: View, addr: u64, word_is_none: bool, taken: bool) -> bool {
    let mut place = Occupancy::before(taken, word_is_none);
    let mine = (0..len(t))
        .map(|i| get(t, i))
        .filter(|m| m.source == view.code());
    for m in mine {
        let came = place.apply(&m, addr);
        if came && view != View::Own {
            return false;
        }
    }
    place.is_new()
}
