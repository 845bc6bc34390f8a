//! The manager: has pages moved aside, copies them out, commits, dies, is followed by another.

use keeper::protocol;
use keeper::word::Word;

use super::adopt::{self, A};
use super::bugs::Bug;
use super::search::Steps;
use super::world::{ALL, Cmd, Vma, World, place_of};

/// Where the manager is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum M {
    Idle,
    /// Waits for its command.
    Asks,
    Copy(u8),
    /// Reads the page: its frame is pinned.
    Pins(u8, u8),
    Put(u8, u8),
    Commit(u8, u8, u8),
    Free(u8),
    Cancel(u8),
    Dead,
    /// Another one adopts.
    Adopt(A),
}

/// Whether the manager is reading the page's frame, so that it cannot be moved.
pub(crate) fn pins(w: &World, page: u8) -> bool {
    matches!(w.manager, M::Pins(at, _) if at == page)
}

pub(crate) fn steps(w: &World, bug: Option<Bug>, out: &mut Steps) {
    if w.manager != M::Dead && w.left.manager_deaths > 0 {
        out.add("manager dies", 0, w, die);
    }
    match w.manager {
        M::Idle => (0..w.left.pages).for_each(|page| choose(w, page, out)),
        M::Asks if w.shared.cmd.is_none() => {
            out.add("manager: has its answer", 0, w, |n| n.manager = M::Idle);
        }
        M::Copy(page) => out.add("manager: reads limbo", page, w, |n| {
            n.manager = match n.kernel.limbo[usize::from(page)] {
                Some(value) => M::Pins(page, value),
                None => M::Cancel(page),
            };
        }),
        M::Pins(page, value) => out.add("manager: has read", page, w, |n| {
            n.manager = M::Put(page, value);
        }),
        M::Put(page, value) => out.add("manager: writes to the store", page, w, |n| {
            put(n, page, value, bug);
        }),
        M::Commit(page, slot, value) => out.add("manager: commits", page, w, |n| {
            commit(n, page, slot, value, bug);
        }),
        M::Free(slot) => out.add("manager: frees its slot", 0, w, |n| {
            n.release(slot);
            n.manager = M::Idle;
        }),
        M::Cancel(page) => out.add("manager: cancels", page, w, |n| {
            cancel(&mut n.shared.words[usize::from(page)]);
            n.manager = M::Idle;
        }),
        M::Dead => out.add("another manager comes", 0, w, |n| {
            n.manager = M::Adopt(A::Waits)
        }),
        M::Adopt(at) => adopt::steps(w, at, bug, out),
        M::Asks => {}
    }
}

fn die(w: &mut World) {
    w.left.manager_deaths -= 1;
    match w.manager {
        M::Commit(_, slot, _) | M::Free(slot) => w.store[usize::from(slot)].lost += 1,
        _ => {}
    }
    w.manager = M::Dead;
}

fn ask(w: &mut World, cmd: Cmd) {
    w.shared.cmd = Some(cmd);
    w.manager = M::Asks;
}

fn choose(w: &World, page: u8, out: &mut Steps) {
    let at = usize::from(page);
    let word = w.shared.words[at];
    if w.kernel.vma[at] == Vma::Plain {
        out.add("manager: register", page, w, |n| {
            ask(n, Cmd::Register(page))
        });
    }
    if protocol::movable(word) {
        out.add("manager: move out", page, w, |n| ask(n, Cmd::MoveOut(page)));
    }
    if let Some(begun) = protocol::begin_writeback(word) {
        out.add("manager: begins write-back", page, w, |n| {
            n.shared.words[at] = begun;
            n.manager = M::Copy(page);
        });
    }
    if protocol::dropped(word).is_some() {
        out.add("manager: drop", page, w, |n| ask(n, Cmd::Drop(page)));
    }
}

fn put(w: &mut World, page: u8, value: u8, bug: Option<Bug>) {
    let free = ALL
        .into_iter()
        .find(|slot| w.store[usize::from(*slot)].count == 0);
    let Some(slot) = free else {
        w.manager = M::Cancel(page);
        return;
    };
    w.store[usize::from(slot)].count = 1;
    if bug == Some(Bug::CommitsFirst) {
        w.store[usize::from(slot)].bytes = 7;
    } else {
        w.store[usize::from(slot)].bytes = value;
    }
    w.manager = M::Commit(page, slot, value);
}

fn commit(w: &mut World, page: u8, slot: u8, value: u8, bug: Option<Bug>) {
    let word = &mut w.shared.words[usize::from(page)];
    if *word == Word::WRITEBACK || bug == Some(Bug::CommitStores) {
        *word = protocol::committed(place_of(slot));
        w.manager = M::Idle;
    } else {
        w.manager = M::Free(slot);
    }
    if bug == Some(Bug::CommitsFirst) && w.manager == M::Idle && w.left.manager_deaths > 0 {
        // The bytes are written next, if it lives.
        return;
    }
    w.store[usize::from(slot)].bytes = value;
}

/// Takes a write-back back.
pub(crate) fn cancel(word: &mut Word) {
    *word = protocol::cancel_writeback(*word).unwrap_or(*word);
}
