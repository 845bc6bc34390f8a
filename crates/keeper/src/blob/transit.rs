//! Moving pages aside: from the program to the transit window, from there to limbo.
//!
//! Two steps, because only the event userfaultfd refuses to move (EAGAIN) while the address space
//! is changing, and only the other one lets limbo be dropped without an event to ourselves.
//!
//! Nothing is moved out of memory that is not registered now (`registered`): the table of registered
//! ranges may be behind, and a page taken from memory that would not fault comes back as zeros.
//!
//! Invariant: words say `Limbo` before the bytes leave the program; while bytes may be in the
//! window the transit journal names them, so a keeper that dies in between is followed by one that
//! finds them (`recover`).

use super::registered::{self, Registered};
use super::sys;
use super::table::{PAGE, page_in_chunk};
use super::view::{Keeper, View};
use core::sync::atomic::Ordering;
use keeper::layout::{CHUNK, ctl, fd};
use keeper::protocol;
use keeper::word::Word;
use uffd::abi::{UFFDIO_MOVE, UffdioCopy, errno};

/// Result of a move: bytes done, and the error number that ended it early (0 if none).
pub(super) struct Moved {
    pub(super) bytes: u64,
    pub(super) error: i64,
}

pub(super) fn move_pages(uffd: i32, dst: u64, src: u64, len: u64, mode: u64) -> Moved {
    let mut arg = UffdioCopy {
        dst,
        src,
        len,
        mode,
        done: 0,
    };
    let r = sys::ioctl(uffd, UFFDIO_MOVE, &mut arg);
    let bytes = if arg.done > 0 { arg.done as u64 } else { 0 };
    match r {
        0 => Moved {
            bytes: len,
            error: 0,
        },
        // A partial move returns EAGAIN with the bytes done.
        _ if arg.done > 0 => Moved { bytes, error: 0 },
        _ if arg.done < 0 => Moved {
            bytes: 0,
            error: -arg.done,
        },
        _ => Moved {
            bytes: 0,
            error: -r,
        },
    }
}

/// Moves what is in the window on to limbo. True when the window is empty.
pub(super) fn flush(k: &mut Keeper) -> bool {
    let t = k.table;
    if t.get(ctl::TRANSIT_ON) == 0 {
        return true;
    }
    let (addr, len) = (t.get(ctl::TRANSIT_ADDR), t.get(ctl::TRANSIT_LEN));
    let Some(c) = t.chunk(addr) else {
        t.anomaly(1, 0);
        return false;
    };
    let (window, limbo) = (k.transit + addr % CHUNK, k.limbo_of(c, addr));
    let mut error = 0;
    for _ in 0..200 {
        let mut left = false;
        super::present::runs(window, window + len, |start, end| {
            left = true;
            let at = start - window;
            let moved = move_pages(fd::LIMBO, limbo + at, start, end - start, 0);
            error = moved.error;
            if moved.error == errno::EEXIST && super::present::any(start) {
                // A stale copy that was to be dropped: the window holds the good one.
                sys::madvise(limbo + at, PAGE, sys::MADV_DONTNEED);
            }
        });
        if !left {
            t.set(ctl::TRANSIT_ON, 0);
            return true;
        }
        if error != 0 {
            sys::yield_now();
        }
    }
    t.anomaly(2, error);
    false
}

/// Moves one run of pages inside one chunk aside. All words of the run must be free of other
/// copies (`None` or `Mapped`). EAGAIN: events are to be read first.
fn move_run(k: &mut Keeper, c: usize, start: u64, end: u64, aside: Word) -> Moved {
    let t = k.table;
    if !flush(k) {
        return Moved {
            bytes: 0,
            error: errno::EBUSY,
        };
    }
    t.set(ctl::TRANSIT_ADDR, start);
    t.set(ctl::TRANSIT_LEN, end - start);
    t.ctl(ctl::TRANSIT_ON).store(1, Ordering::Release);
    for_words(k, c, start, end, |w| w.store(aside.0, Ordering::Release));
    let window = k.transit + start % CHUNK;
    let mut moved = move_pages(fd::EVENTS, window, start, end - start, 0);
    if moved.bytes == end - start {
        let limbo = k.limbo_of(c, start);
        let on = move_pages(fd::LIMBO, limbo, window, moved.bytes, 0);
        if on.bytes == moved.bytes {
            t.set(ctl::TRANSIT_ON, 0);
            return moved;
        }
    } else {
        // What came short may be more than it says (see `present`): look.
        moved.bytes = super::present::prefix(window, window + (end - start));
        for_words(k, c, start + moved.bytes, end, |w| {
            w.store(Word::MAPPED.0, Ordering::Release)
        });
    }
    flush(k);
    moved
}

fn for_words(
    k: &Keeper,
    c: usize,
    start: u64,
    end: u64,
    mut f: impl FnMut(&core::sync::atomic::AtomicU64),
) {
    let mut at = start;
    while at < end {
        f(k.table.page(c, page_in_chunk(at)));
        at += PAGE;
    }
}

/// Chunks that may be given away: a last eighth is kept for mremap, which cannot be refused.
pub(super) fn chunk_limit(k: &Keeper) -> usize {
    k.limbo_chunks / 8 * 7
}

/// What became of a request to move a part of a chunk out.
pub(super) struct Out {
    /// Where to go on; short of the end only with `again`.
    pub(super) at: u64,
    pub(super) moved: u64,
    /// Pages that stayed because they are shared with a child, or pinned.
    pub(super) busy: u64,
    /// The address space is changing: read events, then go on.
    pub(super) again: bool,
}

/// The first part of `start..end` that lies in one registered mapping; empty at the end if there is
/// none. `None` while events are outstanding.
fn first_registered(k: &Keeper, start: u64, end: u64) -> Option<(u64, u64)> {
    let mut at = start;
    while at < end {
        let mut len = end - at;
        loop {
            match registered::ask(k, View::Own, at, at + len) {
                Registered::Yes => return Some((at, at + len)),
                Registered::Changing => return None,
                Registered::No | Registered::Gone if len == PAGE => break,
                Registered::No | Registered::Gone => len = (len / PAGE / 2).max(1) * PAGE,
            }
        }
        at += PAGE;
    }
    Some((end, end))
}

/// Moves the mapped pages of `start..end`, inside one chunk and one registered range, to limbo;
/// their words become `aside`.
pub(super) fn move_out(k: &mut Keeper, start: u64, end: u64, aside: Word) -> Out {
    let mut out = Out {
        at: start,
        moved: 0,
        busy: 0,
        again: false,
    };
    if k.rests(start) {
        out.at = end;
        return out;
    }
    let limit = chunk_limit(k);
    let Some(c) = k.table.chunk_or_new(start, limit) else {
        out.at = end;
        return out;
    };
    let whole = registered::ask(k, View::Own, start, end);
    while out.at < end {
        let movable = |k: &Keeper, at: u64| {
            let w = Word(k.table.page(c, page_in_chunk(at)).load(Ordering::Acquire));
            protocol::movable(w)
        };
        if !movable(k, out.at) {
            out.at += PAGE;
            continue;
        }
        let mut stop = out.at + PAGE;
        while stop < end && movable(k, stop) {
            stop += PAGE;
        }
        if whole != Registered::Yes {
            match first_registered(k, out.at, stop) {
                None => {
                    out.again = true;
                    return out;
                }
                Some((from, to)) => (out.at, stop) = (from, to),
            }
            if out.at == stop {
                continue;
            }
        }
        let moved = move_run(k, c, out.at, stop, aside);
        out.moved += moved.bytes / PAGE;
        out.at += moved.bytes;
        match moved.error {
            0 => {}
            errno::EAGAIN => {
                out.again = true;
                return out;
            }
            errno::EBUSY => {
                out.busy += 1;
                out.at += PAGE;
            }
            // This mapping cannot be moved out of as it is now (protected, locked).
            errno::EINVAL => out.at = stop,
            // A hole (ENOENT).
            _ => out.at += PAGE,
        }
    }
    out
}
