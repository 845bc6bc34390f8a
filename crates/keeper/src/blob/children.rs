//! Forked children that have no keeper of their own: this one answers their faults from the store.
//!
//! Invariant: a child's table names, for each page that was out when it was forked, the bytes the
//! page had then. Pages that were stored are shared by reference count; pages that were in limbo
//! are copied to the snapshot file at once, because the parent may change them as soon as its own
//! faults are answered again (until the fork event is read, the kernel answers none).

use super::queue;
use super::registered;
use super::store;
use super::sys;
use super::table::{PAGE, Table};
use super::view::{CHILDREN_MAX, Child, Keeper, View};
use core::sync::atomic::Ordering;
use keeper::layout::{CHILD_WORDS, CHUNK, CHUNK_PAGES, ChildSlot, TABLE_BYTES, ctl, log};
use keeper::word::{State, Word};
use uffd::abi::event;

/// The snapshot file's place in the descriptor table.
pub(super) const SNAPSHOT_FD: i32 = 13;

/// The table of child `i`: below the image, each in a place of its own. Where the kernel would put it
/// there may be a place that the program has just moved from and will move to again, knowing that
/// nobody else maps anything there.
fn new_table(k: &Keeper, i: usize) -> Option<(i32, Table)> {
    const PLACE: u64 = (TABLE_BYTES as u64).next_multiple_of(CHUNK);
    let hint = k.image.saturating_sub((i as u64 + 1) * PLACE);
    let fd = sys::memfd(b"pagetide-child\0");
    if fd < 0 {
        return None;
    }
    let fd = fd as i32;
    if sys::ftruncate(fd, TABLE_BYTES as u64) < 0 {
        sys::close(fd);
        return None;
    }
    let base = sys::mmap(hint, TABLE_BYTES as u64, sys::MAP_SHARED_NORESERVE, fd);
    if base < 0 {
        sys::close(fd);
        return None;
    }
    for advice in [sys::MADV_DONTFORK, sys::MADV_DONTDUMP] {
        sys::madvise(base as u64, TABLE_BYTES as u64, advice);
    }
    // SAFETY: a whole table file, mapped read-write until the child is dropped, which is when its
    // entry in `children` is given up.
    Some((fd, unsafe { Table::at(base as u64) }))
}

/// Takes over a child that `view` has forked; `uffd` came with the event.
pub(super) fn add(k: &mut Keeper, view: View, uffd: i32) {
    if uffd < 0 {
        // Its keepers died before anybody else had its descriptor (`inherit`).
        k.table.anomaly(48, 0);
        return;
    }
    if let Some(i) = (0..CHILDREN_MAX).find(|i| k.children[*i].uffd == uffd) {
        // By a keeper that died before it said so.
        k.children_end = k.children_end.max(i + 1);
        count(k);
        return;
    }
    k.table.count(ctl::FORKS, 1);
    let free = (0..CHILDREN_MAX).find(|i| *i >= k.children_end || k.children[*i].uffd < 0);
    let made = free.and_then(|i| new_table(k, i).map(|made| (i, made)));
    let Some((i, (table_fd, table))) = made else {
        // Nothing can be kept for this child. Its descriptor stays open and unserved: a child that
        // touches a missing page waits, which the manager reports, and never reads wrong bytes.
        k.table.anomaly(48, 0);
        return;
    };
    snapshot_words(k, view, table);
    k.children[i] = Child {
        uffd,
        table_fd,
        table,
    };
    k.let_go[i].clear();
    k.children_end = k.children_end.max(i + 1);
    publish(k, i);
    count(k);
    k.table.log(log::FORK, 0, i as u64);
}

/// Tells the manager, and a keeper of another image, of child `i`, or that there is none.
fn publish(k: &Keeper, i: usize) {
    let child = k.children[i];
    let slot = ChildSlot {
        uffd: child.uffd,
        table_fd: child.table_fd,
        base: child.table.base(),
        serial: k.table.get(ctl::FORKS) % 4096,
    };
    let [numbers, base] = if child.uffd < 0 {
        [0; CHILD_WORDS]
    } else {
        slot.words()
    };
    let at = ChildSlot::at(i);
    k.table.set(at + 1, base);
    k.table.ctl(at).store(numbers, Ordering::Release);
}

/// In a new image: takes over the children whose descriptors the manager has kept and sends, in the
/// order of their slots. It has emptied the slots of the others.
pub(super) fn inherit(k: &mut Keeper) -> i64 {
    for i in 0..CHILDREN_MAX {
        let at = ChildSlot::at(i);
        let words = [k.table.get(at), k.table.get(at + 1)];
        let Some(slot) = ChildSlot::from_words(words) else {
            k.children[i].uffd = -1;
            continue;
        };
        for number in [slot.uffd, slot.table_fd] {
            let r = super::boot::receive(number);
            if r < 0 {
                return r;
            }
        }
        k.children[i] = Child {
            uffd: slot.uffd,
            table_fd: slot.table_fd,
            // SAFETY: a dead keeper of the same address space has mapped it there, and empties the
            // slot before it unmaps it.
            table: unsafe { Table::at(slot.base) },
        };
        k.children_end = i + 1;
    }
    // What is added comes behind what they use.
    k.snapshot_len = sys::length(SNAPSHOT_FD);
    count(k);
    0
}

/// After [`inherit`]: forks that were read, and whose descriptors died with their keepers.
pub(super) fn forget_lost_forks(k: &mut Keeper) {
    for n in 0..queue::len(k.table) {
        let mut m = queue::get(k.table, n);
        let known = |child: &Child| child.uffd >= 0 && child.uffd as u32 as u64 == m.arg0;
        if m.event == event::FORK && !k.children[..k.children_end].iter().any(known) {
            m.arg0 = u64::from(u32::MAX);
            queue::set(k.table, n, m);
        }
    }
}

fn count(k: &Keeper) {
    let n = k.children[..k.children_end]
        .iter()
        .filter(|c| c.uffd >= 0)
        .count();
    k.table.set(ctl::CHILDREN, n as u64);
}

fn snapshot_words(k: &mut Keeper, view: View, child: Table) {
    let parent = k.table_of(view);
    for c in 0..parent.chunks_used() {
        let addr = parent.chunk_addr(c);
        let mut to = None;
        for i in 0..CHUNK_PAGES {
            let word = Word(parent.page(c, i).load(Ordering::Acquire));
            let at = addr + i as u64 * PAGE;
            let place = match word.state() {
                State::None | State::Mapped => continue,
                State::Stored => word.place(),
                State::Limbo | State::Writeback => store::snapshot(k, k.aside(c, at)),
            };
            let Some(place) = place else {
                k.table.anomaly(49, 0);
                continue;
            };
            if word.state() == State::Stored {
                store::retain(k, place);
            }
            let d = match to {
                Some(d) => d,
                None => match child.chunk_or_new(at, usize::MAX) {
                    Some(d) => *to.insert(d),
                    None => continue,
                },
            };
            child
                .page(d, i)
                .store(Word::stored(place, false).0, Ordering::Release);
        }
    }
}

/// Lets go of child `i`.
pub(super) fn drop_child(k: &mut Keeper, i: usize) {
    let child = k.children[i];
    if child.uffd < 0 {
        return;
    }
    k.children[i].uffd = -1;
    publish(k, i);
    for c in 0..child.table.chunks_used() {
        for p in 0..CHUNK_PAGES {
            let old = Word(child.table.page(c, p).swap(Word::NONE.0, Ordering::AcqRel));
            if let Some(place) = old.place() {
                store::release(k, place);
            }
        }
    }
    sys::munmap(child.table.base(), TABLE_BYTES as u64);
    sys::close(child.table_fd);
    sys::close(child.uffd);
    while k.children_end > 0 && k.children[k.children_end - 1].uffd < 0 {
        k.children_end -= 1;
    }
    count(k);
    if k.children_end == 0 {
        k.snapshot_len = 0;
        sys::ftruncate(SNAPSHOT_FD, 0);
    }
}

/// Drops children whose address space is gone: installing anything says so.
pub(super) fn reap(k: &mut Keeper) {
    for i in 0..k.children_end {
        let open = k.children[i].uffd >= 0;
        if open && registered::gone(k, View::Child(i as u16)) {
            drop_child(k, i);
        }
    }
}

/// Installs everything that child `i` still misses; true when done and the child can be let go.
pub(super) fn restore(k: &mut Keeper, i: usize) -> bool {
    let child = k.children[i];
    let view = View::Child(i as u16);
    for c in 0..child.table.chunks_used() {
        for p in 0..CHUNK_PAGES {
            let word = Word(child.table.page(c, p).load(Ordering::Acquire));
            if word.state() != State::Stored {
                continue;
            }
            let addr = child.table.chunk_addr(c) + p as u64 * PAGE;
            let fault = super::view::Fault {
                view,
                addr,
                since: 0,
            };
            match super::install::answer(k, fault) {
                super::install::Answer::Done => {}
                super::install::Answer::Gone => return true,
                super::install::Answer::Again => return false,
            }
        }
    }
    true
}
