//! Answering faults: pages come back from limbo or the store, or are zeros.
//!
//! Invariant: a word leaves `Limbo`, `Writeback` or `Stored` only after its bytes are in the
//! program's page table; the install journal names the range in between.

use super::store;
use super::sys;
use super::table::{PAGE, Table, page_in_chunk};
use super::transit::{flush, move_pages};
use super::view::{Fault, Keeper, READAHEAD_MAX, View};
use core::sync::atomic::Ordering;
use keeper::layout::{CHUNK, CHUNK_PAGES, ctl, fd, log};
use keeper::protocol;
use keeper::word::{State, Word};
use uffd::abi::{
    Range, UFFDIO_COPY, UFFDIO_WAKE, UFFDIO_ZEROPAGE, UffdioCopy, UffdioZeropage, errno,
};

/// Whether a fault was answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// The address space is changing: read events, then ask again.
    Again,
    /// The address space is gone.
    Gone,
}

pub(super) fn wake(uffd: i32, start: u64, len: u64) {
    let mut range = Range { start, len };
    sys::ioctl(uffd, UFFDIO_WAKE, &mut range);
}

/// Answers one fault.
pub(super) fn answer(k: &mut Keeper, fault: Fault) -> Answer {
    let (view, addr) = (fault.view, fault.addr);
    let word = k.table_of(view).state_at(addr);
    if view == View::Own && !word.in_limbo() && !within_budget(k) {
        return Answer::Again;
    }
    match protocol::answer(word, view == View::Own) {
        protocol::Answer::Zeros => zero(k, view, addr),
        protocol::Answer::FromLimbo => from_limbo(k, addr),
        protocol::Answer::FromStore => from_store(k, view, addr),
    }
}

/// How long the manager may be silent before its limit counts no more: a dead one never stalls.
const HEARTBEAT_NS: u64 = 300_000_000;

/// Whether one more page may become resident now; takes it off the budget.
fn within_budget(k: &Keeper) -> bool {
    let t = k.table;
    if t.get(ctl::THROTTLE) == 0 {
        return true;
    }
    let budget = t.ctl(ctl::BUDGET);
    if budget
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |b| b.checked_sub(1))
        .is_ok()
    {
        return true;
    }
    t.count(ctl::THROTTLED, 1);
    sys::now_ns().saturating_sub(t.get(ctl::HEARTBEAT)) > HEARTBEAT_NS
}

/// Up to `want` pages more that may come with one that is answered: off the budget too, and never
/// more than a quarter of it, so that other threads find some.
fn spare(k: &Keeper, want: u64) -> u64 {
    if want == 0 || k.table.get(ctl::THROTTLE) == 0 {
        return want;
    }
    let take = |budget: u64| Some(budget - want.min(budget / 4));
    let budget = k.table.ctl(ctl::BUDGET);
    let before = budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    before.map_or(0, |budget| want.min(budget / 4))
}

/// The outcome of an install of `len` bytes at `addr`: what to do when not even the first page
/// could be installed.
fn refused(k: &Keeper, view: View, addr: u64, error: i64) -> Answer {
    match error {
        errno::EAGAIN => Answer::Again,
        errno::ESRCH | errno::ENOSPC => Answer::Gone,
        // There already (another thread's fault was answered first), or the VMA is no longer ours:
        // the thread looks again by itself.
        errno::EEXIST | errno::ENOENT => {
            wake(k.uffd_of(view), addr, PAGE);
            Answer::Done
        }
        errno::ENOMEM => Answer::Again,
        _ => {
            k.table.anomaly(16, error);
            wake(k.uffd_of(view), addr, PAGE);
            Answer::Done
        }
    }
}

fn journal(k: &Keeper, addr: u64, len: u64) {
    k.table.set(ctl::INSTALL_ADDR, addr);
    k.table.set(ctl::INSTALL_LEN, len);
    k.table.ctl(ctl::INSTALL_ON).store(1, Ordering::Release);
}

fn journal_done(k: &Keeper) {
    k.table.ctl(ctl::INSTALL_ON).store(0, Ordering::Release);
}

/// Makes the word of an installed page say so, and lets go of what it named before.
pub(super) fn now_mapped(k: &Keeper, table: Table, addr: u64, young: bool) {
    let Some(word) = table.word_at(addr) else {
        return;
    };
    let new = protocol::returned(young);
    let old = Word(word.swap(new.0, Ordering::AcqRel));
    if let Some(place) = protocol::let_go(old, new) {
        store::release(k, place);
    }
}

fn zero(k: &mut Keeper, view: View, addr: u64) -> Answer {
    if k.table.get(ctl::THROTTLE) != 0 {
        return zero_counted(k, view, addr);
    }
    let uffd = k.uffd_of(view);
    let table = k.table_of(view);
    let mut len = PAGE;
    if view == View::Own {
        k.zero_window = if addr == k.zero_next {
            (k.zero_window * 2).min(512)
        } else {
            8
        };
        let end = k.regs().around(addr).map_or(addr + PAGE, |(_, end)| end);
        let limit = end.min(addr + k.zero_window * PAGE);
        // Never over a page that has bytes elsewhere.
        while addr + len < limit && table.state_at(addr + len).state() == State::None {
            len += PAGE;
        }
    }
    let (mut done, mut error) = zeropage(uffd, addr, len);
    if done > 0 {
        k.zero_next = addr + done;
    } else if len > PAGE && error != errno::EAGAIN {
        (done, error) = zeropage(uffd, addr, PAGE);
    }
    if done == 0 {
        return refused(k, view, addr, error);
    }
    k.table.count(ctl::ZERO_FILLS, done / PAGE);
    Answer::Done
}

/// A first touch under a limit: pages of their own, so that the budget counts what is used. One,
/// or more and more while the program walks forward.
fn zero_counted(k: &mut Keeper, view: View, addr: u64) -> Answer {
    let mut n = 1;
    if view == View::Own {
        k.zero_window = if addr == k.zero_next {
            (k.zero_window * 2).clamp(2, READAHEAD_MAX as u64)
        } else {
            1
        };
        let end = k.regs().around(addr).map_or(addr + PAGE, |(_, end)| end);
        let next = |n: u64| addr + n * PAGE;
        let free = |at: u64| at < end && k.table.state_at(at).state() == State::None;
        while n < k.zero_window && free(next(n)) {
            n += 1;
        }
        n = 1 + spare(k, n - 1);
    }
    k.pages.0[..n as usize].fill([0; 4096]);
    let src = k.pages.0.as_ptr() as u64;
    let (done, error) = copy_pages(k.uffd_of(view), addr, src, n);
    if done == 0 {
        return refused(k, view, addr, error);
    }
    if view == View::Own {
        k.zero_next = addr + done;
    }
    k.table.count(ctl::ZERO_FILLS, done / PAGE);
    Answer::Done
}

/// Bytes copied, and the error number if there are none.
pub(super) fn copy(uffd: i32, dst: u64, src: u64, len: u64) -> (u64, i64) {
    let mut arg = UffdioCopy {
        dst,
        src,
        len,
        mode: 0,
        done: 0,
    };
    let r = sys::ioctl(uffd, UFFDIO_COPY, &mut arg);
    installed(r, arg.done, len)
}

/// Bytes of zeros installed, and the error number if there are none.
pub(super) fn zeropage(uffd: i32, start: u64, len: u64) -> (u64, i64) {
    let mut arg = UffdioZeropage {
        range: Range { start, len },
        mode: 0,
        done: 0,
    };
    let r = sys::ioctl(uffd, UFFDIO_ZEROPAGE, &mut arg);
    installed(r, arg.done, len)
}

/// What an install of `len` bytes came to, by its result and its structure's.
fn installed(r: i64, done: i64, len: u64) -> (u64, i64) {
    match (r, done) {
        (0, _) => (len, 0),
        (_, done) if done > 0 => (done as u64, 0),
        (r, done) => (0, if done < 0 { -done } else { -r }),
    }
}

/// Copies `n` pages, or only the first where they cannot all go at once: a copy may not span
/// mappings (ENOENT), and registered mappings may lie side by side.
fn copy_pages(uffd: i32, dst: u64, src: u64, n: u64) -> (u64, i64) {
    let (done, error) = copy(uffd, dst, src, n * PAGE);
    match error {
        errno::EAGAIN | errno::ESRCH => (done, error),
        _ if done == 0 && n > 1 => copy(uffd, dst, src, PAGE),
        _ => (done, error),
    }
}

/// The run of pages in limbo around `addr` that returns with it: the page alone, or its group.
fn limbo_run(k: &Keeper, c: usize, addr: u64) -> (u64, u64) {
    let word = |at: u64| Word(k.table.page(c, page_in_chunk(at)).load(Ordering::Relaxed));
    let (mut start, mut end) = (addr, addr + PAGE);
    let first = word(addr);
    if first.state() != State::Limbo || !first.group() {
        return (start, end);
    }
    let grouped = |at: u64| word(at) == first;
    let narrow = k.table.get(ctl::LIMBO_WINDOW).clamp(1, CHUNK_PAGES as u64) * PAGE;
    let window = if first.wide() { CHUNK } else { narrow };
    let (reg_start, reg_end) = k.regs().around(addr).unwrap_or((addr, addr + PAGE));
    let low = (addr / window * window).max(reg_start);
    let high = (addr / window * window + window).min(reg_end);
    while start > low && grouped(start - PAGE) {
        start -= PAGE;
    }
    while end < high && grouped(end) {
        end += PAGE;
    }
    (start, end)
}

fn from_limbo(k: &mut Keeper, addr: u64) -> Answer {
    let Some(c) = k.table.chunk(addr) else {
        return Answer::Again;
    };
    flush(k);
    let (start, end) = limbo_run(k, c, addr);
    let src = k.aside(c, addr);
    let run = src == k.limbo_of(c, addr);
    let (start, end) = if run {
        (start, end)
    } else {
        (addr, addr + PAGE)
    };
    journal(k, start, end - start);
    let moved = move_pages(fd::EVENTS, start, src - (addr - start), end - start, 0);
    let answer = if moved.bytes > addr - start {
        let mut at = start;
        while at < start + moved.bytes {
            now_mapped(k, k.table, at, true);
            at += PAGE;
        }
        k.table.count(ctl::LIMBO_RETURNS, moved.bytes / PAGE);
        k.table.log(log::LIMBO_RETURN, moved.bytes / PAGE, start);
        Answer::Done
    } else {
        if moved.error == errno::EAGAIN {
            Answer::Again
        } else {
            one_from_limbo(k, c, addr)
        }
    };
    if end - start > PAGE && moved.bytes < end - start {
        // Some of the group may have come back uncounted.
        super::recover::settle(k, start, end - start);
    }
    journal_done(k);
    answer
}

/// The slow way for one page: moved alone, else copied and the limbo copy dropped.
fn one_from_limbo(k: &mut Keeper, c: usize, addr: u64) -> Answer {
    let src = k.aside(c, addr);
    let moved = move_pages(fd::EVENTS, addr, src, PAGE, 0);
    match moved.error {
        0 => {}
        errno::EAGAIN => return Answer::Again,
        errno::ENOENT if !super::present::any(src) => return limbo_hole(k, c, addr),
        // Protection or locking differs (EINVAL), or the manager is reading it (EBUSY), or it is
        // there already (EEXIST).
        error => {
            let (done, copy_error) = copy(fd::EVENTS, addr, src, PAGE);
            if done == 0 && copy_error != errno::EEXIST {
                let code = if copy_error == errno::ENOENT {
                    error
                } else {
                    copy_error
                };
                return refused(k, View::Own, addr, code);
            }
            if done == 0 {
                wake(fd::EVENTS, addr, PAGE);
            }
            now_mapped(k, k.table, addr, true);
            k.drop_limbo(c, addr, addr + PAGE);
            k.table.count(ctl::LIMBO_RETURNS, 1);
            return Answer::Done;
        }
    }
    now_mapped(k, k.table, addr, true);
    k.table.count(ctl::LIMBO_RETURNS, 1);
    k.table.log(log::LIMBO_RETURN, 1, addr);
    Answer::Done
}

/// Limbo does not hold what the word says: it was dropped already (then the store has it).
fn limbo_hole(k: &mut Keeper, c: usize, addr: u64) -> Answer {
    let word = k.table.page(c, page_in_chunk(addr));
    let old = Word(word.load(Ordering::Acquire));
    if old.state() == State::Stored {
        word.store(old.limbo_dropped().0, Ordering::Release);
        return from_store(k, View::Own, addr);
    }
    k.table.anomaly(17, 0);
    word.store(Word::NONE.0, Ordering::Release);
    zero(k, View::Own, addr)
}

/// How many pages from `addr` on are stored and worth bringing back with it.
fn readahead(k: &mut Keeper, view: View, addr: u64) -> usize {
    if addr == k.refault_next {
        k.refault_window = (k.refault_window * 2).clamp(2, READAHEAD_MAX);
    } else {
        k.refault_window = (k.refault_window / 2).max(1);
    }
    let table = k.table_of(view);
    let end = match view {
        View::Own => k.regs().around(addr).map_or(addr + PAGE, |(_, end)| end),
        View::Child(_) => u64::MAX,
    };
    let end = end.min((addr / CHUNK + 1) * CHUNK);
    let mut n = 1;
    while n < k.refault_window && addr + n as u64 * PAGE < end {
        let w = table.state_at(addr + n as u64 * PAGE);
        if w.state() != State::Stored || w.in_limbo() {
            break;
        }
        n += 1;
    }
    match view {
        View::Own => 1 + spare(k, n as u64 - 1) as usize,
        // A child takes nothing off the budget, and nothing that it may not need.
        View::Child(_) if k.table.get(ctl::THROTTLE) != 0 => 1,
        View::Child(_) => n,
    }
}

fn from_store(k: &mut Keeper, view: View, addr: u64) -> Answer {
    let table = k.table_of(view);
    let uffd = k.uffd_of(view);
    let want = readahead(k, view, addr);
    let mut n = 0;
    while n < want {
        let Some(place) = table.state_at(addr + n as u64 * PAGE).place() else {
            break;
        };
        if !store::load(k, place, n) {
            break;
        }
        n += 1;
    }
    if n == 0 {
        // Waiting is better than wrong bytes; the manager sees the count and reports it.
        k.table.anomaly(18, 0);
        return Answer::Again;
    }
    if view == View::Own {
        journal(k, addr, n as u64 * PAGE);
    }
    let (done, error) = copy_pages(uffd, addr, k.pages.0.as_ptr() as u64, n as u64);
    let answer = if done == 0 {
        if error == errno::EEXIST {
            now_mapped(k, table, addr, true);
        }
        refused(k, view, addr, error)
    } else {
        let mut at = addr;
        while at < addr + done {
            now_mapped(k, table, at, at == addr);
            at += PAGE;
        }
        k.refault_next = addr + done;
        k.table.count(ctl::REFAULTS, 1);
        k.table.count(ctl::READAHEAD, done / PAGE - 1);
        if view == View::Own {
            k.table.log(log::REFAULT, done / PAGE, addr);
        }
        Answer::Done
    };
    journal_done(k);
    answer
}
