//! What the program did to its address space, applied to the table before anything else.
//!
//! Invariant: applying a message twice is applying it once, so that a keeper that dies while it
//! works through the queue can be followed by one that starts over.

use super::children;
use super::present;
use super::queue;
use super::registered::{self, Registered};
use super::store;
use super::table::{PAGE, Table, by_chunk, page_in_chunk};
use super::transit::{flush, move_pages};
use super::view::{Keeper, View};
use core::sync::atomic::Ordering;
use keeper::layout::{CHUNK, ctl, fd, log};
use keeper::protocol;
use keeper::word::{State, Word};
use uffd::abi::{UffdMsg, event};

/// Applies all queued events of `view`; nothing is changing now, so they are complete. They are
/// applied in the order in which they were read, but for what `ledger` says. The caller settles
/// what is then in doubt.
pub(super) fn apply_all(k: &mut Keeper, view: View) {
    let t = k.table;
    k.ledger.of = view.code();
    for i in 0..queue::len(t) {
        if queue::get(t, i).source == view.code() {
            apply(k, view, i);
        }
    }
}

/// Takes a set out of the queue whose events are applied and whose doubts are settled.
fn done(k: &mut Keeper, view: View) {
    let t = k.table;
    for i in 0..queue::len(t) {
        let msg = queue::get(t, i);
        if msg.source == view.code() {
            queue::set(t, i, UffdMsg { event: 0, ..msg });
            t.count(ctl::EVENTS, 1);
        }
    }
    queue::compact(t);
    k.ledger.clear();
    if view == View::Own {
        k.died_installing = (0, 0);
    }
}

/// Rebuilds the ledger of a set that another keeper died at: the moves that are made, in the order
/// in which they were made, and the unmappings whose doubts were not settled once more.
pub(super) fn start_over(k: &mut Keeper) {
    let t = k.table;
    let set = || (0..queue::len(t)).map(|i| (i, queue::get(t, i)));
    k.ledger.clear();
    while let Some((_, msg)) = set().find(|(_, m)| made(m) && m.turn == k.ledger.turn + 1) {
        k.ledger.of = msg.source;
        let words = k.table_of(View::from_code(msg.source));
        k.ledger.moved(words, msg.arg0, msg.arg1, msg.arg2);
    }
    for (i, msg) in set().filter(|(_, m)| m.event == event::UNMAP) {
        queue::set(t, i, UffdMsg { phase: 0, ..msg });
    }
}

/// Whether a message is a move that was made.
fn made(msg: &UffdMsg) -> bool {
    msg.event == event::REMAP && msg.phase == 2
}

/// Asks the kernel about what is in doubt, and forgets what is not registered. False when more
/// events are to be read first.
pub(super) fn settle_doubts(k: &mut Keeper) -> bool {
    let view = View::from_code(k.ledger.of);
    let uffd = k.uffd_of(view);
    while let Some((start, end)) = k.ledger.doubt() {
        let mut settled = true;
        by_chunk(start, end, |s, e| {
            settled = uffd < 0 || settle_doubt(k, view, s, e);
            if settled {
                k.ledger.settled(s, e);
            }
            settled
        });
        if !settled {
            return false;
        }
    }
    done(k, view);
    true
}

fn settle_doubt(k: &mut Keeper, view: View, start: u64, end: u64) -> bool {
    match registered::ask(k, view, start, end) {
        Registered::Yes | Registered::Gone => return true,
        Registered::Changing => return false,
        Registered::No => {}
    }
    let mut at = start;
    while at < end {
        match registered::ask(k, view, at, at + PAGE) {
            Registered::Yes | Registered::Gone => {}
            Registered::Changing => return false,
            Registered::No => {
                forget(k, view, at, at + PAGE, log::UNMAPPED);
                if view == View::Own {
                    k.reg_remove(at, at + PAGE);
                }
            }
        }
        at += PAGE;
    }
    true
}

fn apply(k: &mut Keeper, view: View, i: usize) {
    let t = k.table;
    let msg = queue::get(t, i);
    match msg.event {
        event::REMAP => return remap_in_order(k, view, i, 0),
        event::FORK => children::add(k, view, msg.arg0 as u32 as i32),
        event::REMOVE => {
            forget(k, view, msg.arg0, msg.arg1, log::REMOVED);
            if view == View::Own {
                k.let_rest(msg.arg0, msg.arg1);
            }
        }
        event::UNMAP if msg.phase == 1 => return,
        event::UNMAP if unmapped(k, view, msg.arg0, msg.arg1) => {
            // It stays until the doubt is settled: a keeper that starts over has to know.
            return queue::set(t, i, UffdMsg { phase: 1, ..msg });
        }
        _ => {}
    }
    queue::set(t, i, UffdMsg { event: 0, ..msg });
}

/// Forgets an unmapped range, but for the parts to which something was moved in this set. True if
/// there are any.
fn unmapped(k: &mut Keeper, view: View, start: u64, end: u64) -> bool {
    let (mut at, mut forgotten) = (start, 0);
    loop {
        let (from, to) = k.ledger.unmapped(k.table, at, end);
        if from == to {
            return forgotten < end - start;
        }
        forgotten += to - from;
        forget(k, view, from, to, log::UNMAPPED);
        if view == View::Own {
            k.reg_remove(from, to);
        }
        at = to;
    }
}

/// Empties the words of a range: its pages have no bytes anywhere any more.
pub(super) fn forget(k: &mut Keeper, view: View, start: u64, end: u64, why: u64) {
    let t = k.table_of(view);
    if view == View::Own {
        flush(k);
    }
    by_chunk(start, end, |s, e| {
        let Some(c) = t.chunk(s) else { return true };
        let mut in_limbo = false;
        let mut at = s;
        while at < e {
            let word = t.page(c, page_in_chunk(at));
            if word.load(Ordering::Relaxed) != Word::NONE.0 {
                let old = Word(word.swap(Word::NONE.0, Ordering::AcqRel));
                in_limbo |= old.in_limbo();
                if let Some(place) = old.place() {
                    store::release(k, place);
                }
            }
            at += PAGE;
        }
        if in_limbo && view == View::Own {
            k.drop_limbo(c, s, e);
        }
        true
    });
    if view == View::Own {
        k.table.log(why, (end - start) / PAGE, start);
    }
}

fn overlap(a: u64, a_len: u64, b: u64, b_len: u64) -> bool {
    a < b + b_len && b < a + a_len
}

/// Applies a queued move, but before it any later one that must have happened before: one that
/// vacated the place that this one takes. It did if the place was taken and the unmappings in the
/// set are no more than the moves from there account for (each brings its own).
fn remap_in_order(k: &mut Keeper, view: View, i: usize, depth: usize) {
    const DEPTH_MAX: usize = 16;
    let t = k.table;
    let msg = queue::get(t, i);
    let (to, len) = (msg.arg1, msg.arg2);
    if msg.phase == 0 && depth < DEPTH_MAX && occupied(k, view, to, len) {
        let (mut moves, mut unmaps) = (0, 0);
        for j in 0..queue::len(t) {
            let other = queue::get(t, j);
            let mine = other.source == view.code();
            if mine && other.event == event::REMAP {
                moves += u32::from(overlap(other.arg0, other.arg2, to, len));
            } else if mine && other.event == event::UNMAP {
                unmaps += u32::from(overlap(other.arg0, other.arg1 - other.arg0, to, len));
            }
        }
        for j in i + 1..queue::len(t) {
            let other = queue::get(t, j);
            let waits = other.source == view.code()
                && other.event == event::REMAP
                && other.phase == 0
                && overlap(other.arg0, other.arg2, to, len);
            if waits && unmaps <= moves {
                remap_in_order(k, view, j, depth + 1);
            }
        }
    }
    remap(k, view, i);
}

/// Whether something that we know of is at the range. What is in doubt was unmapped, as far as it
/// goes by reading order; it is there if the kernel says so.
fn occupied(k: &Keeper, view: View, start: u64, len: u64) -> bool {
    let end = start + len;
    let mut at = start;
    while at < end {
        let (from, to) = known(k, view, at, end);
        if from < to {
            let (doubted, _) = k.ledger.doubted(from, to);
            if from < doubted || registered::ask(k, view, from, from + PAGE) == Registered::Yes {
                return true;
            }
        }
        at = to.max(at + PAGE);
    }
    false
}

/// The first part of a range of which something is known; of a child a page.
fn known(k: &Keeper, view: View, start: u64, end: u64) -> (u64, u64) {
    match view {
        View::Own => {
            let from = k.next_registered(start).min(end);
            (from, k.registered(from).map_or(end, |(_, e)| e.min(end)))
        }
        View::Child(_) => {
            let known = k.table_of(view).state_at(start).state() != State::None;
            (start, start + if known { PAGE } else { 0 })
        }
    }
}

/// Phases of a queued move: 0 not begun, 1 the new place is cleared, 2 done.
fn remap(k: &mut Keeper, view: View, i: usize) {
    let msg = queue::get(k.table, i);
    let (from, to, len) = (msg.arg0, msg.arg1, msg.arg2);
    let t = k.table_of(view);
    if msg.phase == 2 {
        return;
    }
    if msg.phase == 0 {
        // Whatever was there has been unmapped: its event may come behind this one.
        forget(k, view, to, to + len, log::REMOVED);
        if view == View::Own {
            k.reg_remove(to, to + len);
        }
        queue::set(k.table, i, UffdMsg { phase: 1, ..msg });
    }
    if view == View::Own {
        flush(k);
        copy_registration(k, from, to, len);
    }
    let mut off = 0;
    while off < len {
        let c = t.chunk(from + off);
        if let Some(c) = c {
            move_word(k, view, t, c, from + off, to + off);
            off += PAGE;
        } else {
            // Nothing known about the whole chunk.
            off = ((from + off) / CHUNK + 1) * CHUNK - from;
        }
    }
    if view == View::Own {
        k.reg_remove(from, from + len);
        k.table.log(log::REMAP_FROM, len / PAGE, from);
        k.table.log(log::REMAP_TO, len / PAGE, to);
    }
    k.ledger.moved(t, from, to, len);
    let turn = k.ledger.turn;
    queue::set(
        k.table,
        i,
        UffdMsg {
            phase: 2,
            turn,
            ..msg
        },
    );
}

/// Registered parts take their registration with them. The old one is given up last: a keeper that
/// starts over has to find it.
fn copy_registration(k: &Keeper, from: u64, to: u64, len: u64) {
    let mut at = from;
    while at < from + len {
        at = k.next_registered(at);
        let Some((_, end)) = k.registered(at) else {
            break;
        };
        let end = end.min(from + len);
        if at >= end {
            break;
        }
        k.reg_add(to + (at - from), to + (end - from));
        at = end;
    }
}

fn move_word(k: &mut Keeper, view: View, t: Table, c: usize, from: u64, to: u64) {
    let word = t.page(c, page_in_chunk(from));
    if word.load(Ordering::Relaxed) == Word::NONE.0 {
        return;
    }
    let Some(d) = t.chunk_or_new(to, usize::MAX) else {
        k.table.anomaly(34, 0);
        return;
    };
    let old = Word(word.load(Ordering::Acquire));
    let target = t.page(d, page_in_chunk(to));
    if view == View::Own && old.in_limbo() {
        move_limbo_page(k, k.limbo_of(c, from), k.limbo_of(d, to));
    }
    let present = view == View::Own && !protocol::movable(old) && brought_back(k, from, to);
    let new = protocol::moved(old, present);
    let there = Word(target.swap(new.0, Ordering::AcqRel));
    let last = Word(word.swap(Word::NONE.0, Ordering::AcqRel));
    if present && old.in_limbo() {
        k.drop_limbo(d, to, to + PAGE);
    }
    // What the manager has committed in between is not named any more: the limbo copy is the good
    // one. Nor is what it has committed at the new place between a keeper's death and this.
    for gone in [there, last] {
        if let Some(place) = protocol::let_go(gone, new) {
            store::release(k, place);
        }
    }
}

/// Whether a keeper that died had brought the page of `from` back, and the program moved it to `to`
/// before the word said so. What is at `to` tells that only if this move is the last that is known
/// about the place, and nothing is outstanding: it may have been moved on since, and another mapping
/// be there, whose pages are not the moved ones.
fn brought_back(k: &Keeper, from: u64, to: u64) -> bool {
    let (start, end) = k.died_installing;
    let t = k.table;
    let about = |i: usize| {
        let m = queue::get(t, i);
        let at = |start: u64, end: u64| to >= start && to < end;
        m.source == View::Own.code()
            && match m.event {
                event::REMAP => at(m.arg0, m.arg0 + m.arg2) || at(m.arg1, m.arg1 + m.arg2),
                event::FORK => false,
                _ => at(m.arg0, m.arg1),
            }
    };
    from >= start
        && from < end
        && (0..queue::len(t)).filter(|&i| about(i)).count() == 1
        && present::any(to)
        && registered::ask(k, View::Own, to, to + PAGE) == Registered::Yes
}

fn move_limbo_page(k: &Keeper, src: u64, dst: u64) {
    if !present::any(src) {
        // A keeper that died has moved it already.
        return;
    }
    super::sys::madvise(dst, PAGE, super::sys::MADV_DONTNEED);
    for _ in 0..100 {
        move_pages(fd::LIMBO, dst, src, PAGE, 0);
        // The result does not tell (see `present`).
        if !present::any(src) {
            return;
        }
        // The manager may be reading it: then it is pinned for a moment.
        super::sys::yield_now();
    }
    // Pinned for longer, or a part of a huge page that cannot be split now.
    let (done, error) = super::install::copy(fd::LIMBO, dst, src, PAGE);
    if done == PAGE {
        super::sys::madvise(src, PAGE, super::sys::MADV_DONTNEED);
    } else {
        k.table.anomaly(35, error);
    }
}
