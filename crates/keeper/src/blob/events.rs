//! What the program did to its address space, applied to the table before anything else.
//!
//! Invariant: applying a message twice is applying it once, so that a keeper that dies while it
//! works through the queue can be followed by one that starts over.

use super::children;
use super::present;
use super::queue;
use super::registered::{self, Registered};
use super::sketch::Sketch;
use super::store;
use super::table::{PAGE, Table, by_chunk, page_in_chunk};
use super::transit::{flush, move_pages};
use super::view::{Keeper, View};
use core::sync::atomic::Ordering;
use keeper::layout::{CHUNK, ctl, fd, log};
use keeper::protocol;
use keeper::word::Word;
use uffd::abi::{UffdMsg, event};

/// Applies all queued events of `view`; nothing is changing now, so they are complete. The caller
/// settles what is then in doubt.
pub(super) fn apply_all(k: &mut Keeper, view: View) {
    let t = k.table;
    k.ledger.of = view.code();
    plan(k, view);
    for turn in 1..=t.get(ctl::PLANNED) as u16 {
        let mine = |i: &usize| {
            let m = queue::get(t, *i);
            m.source == view.code() && m.turn == turn && m.event != 0
        };
        if let Some(i) = (0..queue::len(t)).find(mine) {
            apply(k, view, i);
        }
    }
}

/// Gives the messages that have no turn yet theirs. All have it before the first is applied, so that
/// a keeper that starts over goes on in the same order.
fn plan(k: &mut Keeper, view: View) {
    let t = k.table;
    let planned = t.get(ctl::PLANNED) as u16;
    k.plan.clear();
    for i in 0..queue::len(t) {
        let msg = queue::get(t, i);
        let waits = msg.turn == 0 || msg.turn > planned;
        if msg.source == view.code() && msg.event != 0 && waits {
            // For now the turn says where in the queue it is.
            k.plan.add(UffdMsg {
                turn: i as u16,
                ..msg
            });
        }
    }
    let sketch = Sketch::of(k, view);
    let mut turn = planned;
    for msg in k.plan.in_order(&sketch) {
        turn += 1;
        queue::set(t, usize::from(msg.turn), UffdMsg { turn, ..*msg });
    }
    t.ctl(ctl::PLANNED)
        .store(u64::from(turn), Ordering::Release);
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
    t.set(ctl::PLANNED, 0);
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
    for turn in 1..=t.get(ctl::PLANNED) as u16 {
        if let Some((_, msg)) = set().find(|(_, m)| made(m) && m.turn == turn) {
            k.ledger.of = msg.source;
            let words = k.table_of(View::from_code(msg.source));
            k.ledger.moved(words, msg.arg0, msg.arg1, msg.arg2);
        }
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
                    k.regs().remove(at, at + PAGE);
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
        event::REMAP => return remap(k, view, i),
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
            k.regs().remove(from, to);
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
            k.regs().remove(to, to + len);
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
        k.regs().remove(from, from + len);
        k.table.log(log::REMAP_FROM, len / PAGE, from);
        k.table.log(log::REMAP_TO, len / PAGE, to);
    }
    k.ledger.moved(t, from, to, len);
    queue::set(k.table, i, UffdMsg { phase: 2, ..msg });
}

/// Registered parts take their registration with them. The old one is given up last: a keeper that
/// starts over has to find it.
fn copy_registration(k: &Keeper, from: u64, to: u64, len: u64) {
    let mut at = from;
    while at < from + len {
        at = k.regs().next_from(at);
        let Some((_, end)) = k.regs().around(at) else {
            break;
        };
        let end = end.min(from + len);
        if at >= end {
            break;
        }
        k.regs().add(to + (at - from), to + (end - from));
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
