//! The manager's wishes, carried out in slices so that faults never wait long for them.
//!
//! Invariant: a command is finished exactly once; its result is written before `DONE_SEQ`.

use super::install::{Answer, answer};
use super::registered::{self, Registered};
use super::sys;
use super::table::{PAGE, by_chunk, page_in_chunk};
use super::transit::{self, flush};
use super::view::{Fault, Keeper, View, page_of};
use super::{boot, children, events, present};
use core::sync::atomic::Ordering;
use keeper::layout::{CHUNK, CHUNK_PAGES, Op, RANGES_MAX, ctl, fd, log, watch};
use keeper::protocol;
use keeper::span;
use keeper::word::Word;
use uffd::abi::errno;

/// What a slice of a command came to.
#[derive(PartialEq, Eq, Clone, Copy)]
pub(super) enum Step {
    /// Nothing to do.
    Idle,
    /// More to do.
    More,
    /// Cannot go on before events are read.
    Blocked,
}

/// Runs one slice of the current command, if there is one.
pub(super) fn step(k: &mut Keeper) -> Step {
    let t = k.table;
    let seq = t.ctl(ctl::CMD_SEQ).load(Ordering::Acquire);
    if seq == t.get(ctl::DONE_SEQ) {
        return Step::Idle;
    }
    let op = t.get(ctl::CMD_OP);
    let ranges = (t.get(ctl::CMD_RANGES) as usize).min(RANGES_MAX);
    let again = match op {
        _ if op == Op::Register as u64 => each(k, ranges, register),
        _ if op == Op::MoveOut as u64 => each(k, ranges, move_out),
        _ if op == Op::Drop as u64 => each(k, ranges, drop_stored),
        _ if op == Op::Restore as u64 => each(k, ranges, restore),
        _ if op == Op::Claim as u64 => each(k, ranges, claim),
        _ if op == Op::RestoreChildren as u64 => restore_children(k),
        _ if op == Op::ReceiveFile as u64 => {
            let r = boot::receive(fd::FILE);
            t.set(ctl::CMD_RESULT, r.min(0) as u64);
            t.set(ctl::FILE_GIVEN, u64::from(r >= 0));
            Some(Step::Idle)
        }
        _ if op == Op::Leave as u64 => leave(k),
        _ => {
            t.set(ctl::CMD_RESULT, (-errno::EINVAL) as u64);
            Some(Step::Idle)
        }
    };
    match again {
        Some(Step::Idle) => {
            k.cmd_range = 0;
            k.cmd_at = 0;
            t.ctl(ctl::DONE_SEQ).store(seq, Ordering::Release);
            sys::futex_wake(t.done_futex());
            if op == Op::Leave as u64 && t.get(ctl::CMD_RESULT) == 0 {
                boot::leave_no_trace(k);
            }
            Step::More
        }
        Some(step) => step,
        None => Step::More,
    }
}

/// What one slice did to its range: the address to go on from, or that events come first.
enum Slice {
    Next(u64),
    Blocked,
}

/// Runs `f` on the rest of the current range; `Some(Idle)` after the last one.
fn each(
    k: &mut Keeper,
    ranges: usize,
    f: fn(&mut Keeper, usize, u64, u64) -> Slice,
) -> Option<Step> {
    if k.cmd_range >= ranges {
        return Some(Step::Idle);
    }
    let i = k.cmd_range;
    let flagged = k.table.range(i, 0).load(Ordering::Relaxed);
    let start = page_of(flagged);
    let end = k.table.range(i, 1).load(Ordering::Relaxed);
    if k.cmd_at == 0 {
        k.cmd_at = start;
        k.cmd_moved = 0;
        k.cmd_busy = 0;
        k.cmd_watch = flagged % PAGE;
    }
    match f(k, i, k.cmd_at, end) {
        Slice::Blocked => return Some(Step::Blocked),
        Slice::Next(at) => k.cmd_at = at,
    }
    if k.cmd_at >= end {
        k.table.range(i, 0).store(k.cmd_moved, Ordering::Relaxed);
        k.table
            .range(i, 1)
            .store(k.cmd_busy as u64, Ordering::Relaxed);
        k.cmd_range += 1;
        k.cmd_at = 0;
    }
    None
}

/// Registers a mapping. Ranges come in pairs: the mapping as the manager saw it, and the span of
/// addresses around it in which there was nothing but memory to register. The mapping may have
/// changed since, and registering a part of one would split it, which a later mremap of the whole
/// does not survive; so all that is in the span is registered. Only what the manager saw counts as
/// registered, and only if it is so in one piece.
fn register(k: &mut Keeper, i: usize, start: u64, end: u64) -> Slice {
    if i % 2 == 1 {
        return Slice::Next(end);
    }
    if !registered::quiet(k, View::Own) {
        // What is known of the place may be about memory that is gone, and a fork that is told of
        // before that would take it for this one's.
        return Slice::Blocked;
    }
    let low = page_of(k.table.range(i + 1, 0).load(Ordering::Relaxed));
    let high = k.table.range(i + 1, 1).load(Ordering::Relaxed);
    let Some((low, high)) = span::without((low, high), (start, end), k.child_tables()) else {
        k.cmd_busy = -errno::ENOENT;
        return Slice::Next(end);
    };
    let mut r = registered::register(fd::EVENTS, low, high);
    if -r == errno::EBUSY {
        // Of somebody else: is it this one?
        r = registered::register(fd::EVENTS, start, end);
    }
    if r == 0 {
        r = match registered::ask(k, View::Own, start, end) {
            Registered::Changing => return Slice::Blocked,
            Registered::No | Registered::Gone => -errno::ENOENT,
            Registered::Yes => 0,
        };
    }
    if r == 0 {
        let mut at = start;
        while at < end {
            let (s, e) = k.regs().next_gap(at, end);
            check_words(k, s, e);
            at = e.max(at + PAGE);
        }
        if !k.regs().add(start, end) {
            r = -errno::ENOSPC;
        }
    }
    k.cmd_busy = r;
    Slice::Next(end)
}

/// Looks at the words of memory that is not in the list of registered ranges. Pages that are out
/// were moved out of registered memory, and their unmapping would have emptied the words; so it is
/// the list that lacks something (a keeper was killed while it wrote it), and the words hold. But
/// for a page that is there.
fn check_words(k: &mut Keeper, start: u64, end: u64) {
    by_chunk(start, end, |s, e| {
        let Some(c) = k.table.chunk(s) else {
            return true;
        };
        let mut at = s;
        while at < e {
            let word = Word(k.table.page(c, page_in_chunk(at)).load(Ordering::Relaxed));
            if !protocol::movable(word) {
                k.table.anomaly(52, 0);
                if present::any(at) {
                    events::forget(k, View::Own, at, at + PAGE, log::REMOVED);
                }
            }
            at += PAGE;
        }
        true
    });
}

fn move_out(k: &mut Keeper, _: usize, start: u64, end: u64) -> Slice {
    // One chunk a slice, and only what is registered.
    let stop = ((start / CHUNK + 1) * CHUNK).min(end);
    let (from, to) = match k.regs().around(start) {
        Some((_, reg_end)) => (start, stop.min(reg_end)),
        None => return Slice::Next(k.regs().next_from(start).min(end).max(start + PAGE)),
    };
    let aside = match k.cmd_watch {
        watch::PAGES => Word::LIMBO,
        watch::CHUNKS => Word::LIMBO_WIDE,
        _ => Word::LIMBO_GROUP,
    };
    let out = transit::move_out(k, from, to, aside);
    k.cmd_moved += out.moved;
    k.cmd_busy += out.busy as i64;
    if out.again && out.at == start {
        return Slice::Blocked;
    }
    Slice::Next(out.at)
}

fn claim(k: &mut Keeper, _: usize, start: u64, end: u64) -> Slice {
    let limit = transit::chunk_limit(k);
    if k.table.chunk_or_new(start, limit).is_some() {
        k.cmd_moved += 1;
    }
    Slice::Next(((start / CHUNK + 1) * CHUNK).min(end))
}

fn drop_stored(k: &mut Keeper, _: usize, start: u64, end: u64) -> Slice {
    let stop = ((start / CHUNK + 1) * CHUNK).min(end);
    flush(k);
    let Some(c) = k.table.chunk(start) else {
        return Slice::Next(stop);
    };
    let droppable = |k: &Keeper, at: u64| {
        let w = Word(k.table.page(c, page_in_chunk(at)).load(Ordering::Acquire));
        protocol::dropped(w).is_some()
    };
    let mut at = start;
    while at < stop {
        if !droppable(k, at) {
            at += PAGE;
            continue;
        }
        let mut run = at + PAGE;
        while run < stop && droppable(k, run) {
            run += PAGE;
        }
        k.drop_limbo(c, at, run);
        let mut p = at;
        while p < run {
            let word = k.table.page(c, page_in_chunk(p));
            let old = Word(word.load(Ordering::Acquire));
            if let Some(new) = protocol::dropped(old) {
                word.store(new.0, Ordering::Release);
            }
            p += PAGE;
        }
        k.cmd_moved += (run - at) / PAGE;
        at = run;
    }
    Slice::Next(stop)
}

fn restore(k: &mut Keeper, _: usize, start: u64, end: u64) -> Slice {
    let mut at = start;
    let mut budget = 64;
    while at < end && budget > 0 {
        if k.table.chunk(at).is_none() {
            by_chunk(at, end, |_, e| {
                at = e;
                k.table.chunk(e).is_none()
            });
            continue;
        }
        let w = k.table.state_at(at);
        if protocol::movable(w) {
            at += PAGE;
            continue;
        }
        match answer(
            k,
            Fault {
                view: View::Own,
                addr: at,
                since: 0,
            },
        ) {
            Answer::Again => {
                return if at == start {
                    Slice::Blocked
                } else {
                    Slice::Next(at)
                };
            }
            Answer::Gone => return Slice::Next(end),
            Answer::Done => {
                // Not out any more, or (unmapped meanwhile) not there: either way go on.
                k.cmd_moved += 1;
                budget -= 1;
                at += PAGE;
            }
        }
    }
    Slice::Next(at)
}

fn restore_children(k: &mut Keeper) -> Option<Step> {
    for i in 0..k.children_end {
        if k.children[i].uffd >= 0 {
            if !children::restore(k, i) {
                return Some(Step::Blocked);
            }
            children::drop_child(k, i);
            return None;
        }
    }
    Some(Step::Idle)
}

/// Before leaving: nothing may be out, and no child may depend on this keeper. Only the keeper can
/// tell: a word that is moved while others read the table may be seen at neither place.
///
/// What is registered stays so until the last descriptor is closed. Then the kernel unregisters all
/// of it at once; one range after the other would leave seams that a mremap stumbles over.
fn leave(k: &mut Keeper) -> Option<Step> {
    if k.children_end > 0 || any_out(k) {
        k.table.set(ctl::CMD_RESULT, (-errno::EBUSY) as u64);
        return Some(Step::Idle);
    }
    k.table.set(ctl::REGS_USED, 0);
    Some(Step::Idle)
}

fn any_out(k: &mut Keeper) -> bool {
    flush(k);
    let t = k.table;
    (0..t.chunks_used()).any(|c| {
        (0..CHUNK_PAGES).any(|i| !protocol::movable(Word(t.page(c, i).load(Ordering::Acquire))))
    })
}
