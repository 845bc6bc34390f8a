//! What the program did to its address space, applied to the table before anything else. In which
//! order, `keeper::order` decides; here is what each step does.
//!
//! Invariant: doing a step twice is doing it once, so that a keeper that dies while it works through
//! the queue can be followed by one that starts over.

use super::children;
use super::present;
use super::queue;
use super::registered;
use super::sketch::Sketch;
use super::store;
use super::table::{PAGE, Table, by_chunk, page_in_chunk};
use super::transit::{flush, move_pages};
use super::view::{Keeper, View};
use core::sync::atomic::Ordering;
use keeper::layout::{CHUNK, ctl, fd, log};
use keeper::order::ledger::Ledger;
use keeper::order::plan::Plan;
use keeper::order::{Memory, Registered, Why, set};
use keeper::protocol;
use keeper::word::Word;
use uffd::abi::{UffdMsg, event};

/// Applies all queued events of `view`; see `keeper::order`.
pub(super) fn apply_all(k: &mut Keeper, view: View) {
    set::apply_all(k, view.code());
}

impl Memory for Keeper {
    fn queued(&self) -> usize {
        queue::len(self.table)
    }

    fn get(&self, i: usize) -> UffdMsg {
        queue::get(self.table, i)
    }

    fn set(&mut self, i: usize, msg: UffdMsg) {
        queue::set(self.table, i, msg);
    }

    fn done(&mut self, of: u32, messages: u64) {
        self.table.count(ctl::EVENTS, messages);
        queue::compact(self.table);
        if View::from_code(of) == View::Own {
            self.died_installing = (0, 0);
        }
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn no_room(&mut self, doubt: bool) {
        self.table.anomaly(if doubt { 51 } else { 50 }, 0);
    }

    fn forget(&mut self, of: u32, start: u64, end: u64, why: Why) {
        let view = View::from_code(of);
        let told = match why {
            Why::Unmapped => log::UNMAPPED,
            Why::Replaced | Why::Removed => log::REMOVED,
        };
        forget(self, view, start, end, told);
        match why {
            _ if view != View::Own => {}
            Why::Unmapped | Why::Replaced => self.regs().remove(start, end),
            Why::Removed => self.let_rest(start, end),
        }
    }

    fn carry(&mut self, of: u32, from: u64, to: u64, len: u64, stays: bool) {
        let view = View::from_code(of);
        carry(self, view, from, to, len);
        if view == View::Own && !stays {
            self.regs().remove(from, from + len);
        }
    }

    fn forked(&mut self, of: u32, event: UffdMsg) {
        children::add(self, View::from_code(of), event.arg0 as u32 as i32);
    }

    fn plan(&mut self) -> &mut Plan {
        &mut self.plan
    }

    fn work_out(&mut self, of: u32) {
        let sketch = Sketch::of(self, View::from_code(of));
        self.plan.work_out(&sketch);
    }

    fn planned(&self) -> u16 {
        self.table.get(ctl::PLANNED) as u16
    }

    fn set_planned(&mut self, turns: u16) {
        let planned = self.table.ctl(ctl::PLANNED);
        planned.store(u64::from(turns), Ordering::Release);
    }

    fn ask(&self, of: u32, start: u64, end: u64) -> Registered {
        registered::ask(self, View::from_code(of), start, end)
    }

    fn open(&self, of: u32) -> bool {
        self.uffd_of(View::from_code(of)) >= 0
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

/// Takes words and registration to where their pages were moved.
fn carry(k: &mut Keeper, view: View, from: u64, to: u64, len: u64) {
    let t = k.table_of(view);
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
        k.table.log(log::REMAP_FROM, len / PAGE, from);
        k.table.log(log::REMAP_TO, len / PAGE, to);
    }
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
