//! Events wait here until nothing is changing, and are then applied together.
//!
//! A thread queues its event after it has let go of the lock under which it changed the address
//! space, so events of different threads can be read in another order than they happened: a move to
//! a place before the unmapping of what was there, a fork after a move that followed it. While any
//! event is outstanding the kernel refuses every install and every move (EAGAIN). So nothing is
//! lost by waiting: once an install would not be refused, the set of events is complete, and
//! `events::apply_all` can tell from the set, and from what is registered now, what happened.
//!
//! Invariant: the queue is in shared memory and a message leaves it only when it was applied.

use super::table::Table;
use super::view::View;
use keeper::layout::ctl;
use uffd::abi::{UffdMsg, event};

pub(super) fn len(t: Table) -> usize {
    (t.get(ctl::QUEUE_LEN) as usize).min(ctl::QUEUE_MAX)
}

pub(super) fn get(t: Table, i: usize) -> UffdMsg {
    // SAFETY: inside the queue; any bytes are a valid message.
    unsafe { t.queue().add(i % ctl::QUEUE_MAX).read_volatile() }
}

pub(super) fn set(t: Table, i: usize, msg: UffdMsg) {
    // SAFETY: inside the queue.
    unsafe { t.queue().add(i % ctl::QUEUE_MAX).write_volatile(msg) };
}

/// Adds a message; false when there is no room.
pub(super) fn push(t: Table, view: View, msg: &UffdMsg) -> bool {
    let n = len(t);
    if n == ctl::QUEUE_MAX {
        return false;
    }
    set(
        t,
        n,
        UffdMsg {
            source: view.code(),
            phase: 0,
            ..*msg
        },
    );
    t.ctl(ctl::QUEUE_LEN)
        .store(n as u64 + 1, core::sync::atomic::Ordering::Release);
    true
}

/// Takes out what was applied.
pub(super) fn compact(t: Table) {
    let n = len(t);
    let mut kept = 0;
    for i in 0..n {
        let msg = get(t, i);
        if msg.event != 0 {
            if kept != i {
                set(t, kept, msg);
            }
            kept += 1;
        }
    }
    t.set(ctl::QUEUE_LEN, kept as u64);
}

/// Whether the view has messages in the queue.
pub(super) fn waits(t: Table, view: View) -> bool {
    (0..len(t)).any(|i| get(t, i).source == view.code())
}

/// Whether the page at `addr` is new once the queue is applied: its word says so and nothing in
/// the queue moves there, or the queue tells of the end of what its word is about.
pub(super) fn is_new(t: Table, view: View, addr: u64, word_is_none: bool) -> bool {
    let mut new = word_is_none;
    for m in (0..len(t)).map(|i| get(t, i)) {
        if m.source != view.code() {
            continue;
        }
        let (gone, to) = match m.event {
            event::REMAP => ((m.arg0, m.arg0 + m.arg2), Some((m.arg1, m.arg1 + m.arg2))),
            event::UNMAP => ((m.arg0, m.arg1), None),
            _ => continue,
        };
        // What is known of that page is elsewhere yet.
        if to.is_some_and(|(start, end)| addr >= start && addr < end) {
            return false;
        }
        new |= addr >= gone.0 && addr < gone.1;
    }
    new
}
