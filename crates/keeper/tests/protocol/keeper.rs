//! The keeper: reads messages, applies events, answers faults, carries out commands; each of its
//! steps is one access to shared memory or one system call (`crates/keeper/src/blob`).

use keeper::protocol::{self, Seen};
use keeper::word::Word;

use super::bugs::Bug;
use super::program::event_was_read;
use super::search::Steps;
use super::world::{ALL, Accessor, Bytes, Cmd, Event, Vma, World};
use super::{answer, apply, command, recover};

/// Where the keeper is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum K {
    Serve,
    Push,
    ClearInbox,
    // `install.rs`
    Answer(u8),
    Zero(u8),
    LimboJournal(u8),
    LimboMove(u8),
    LimboCopy(u8),
    Hole(u8),
    StoreRead(u8),
    StoreJournal(u8, u8),
    StoreCopy(u8, u8),
    /// Notes that the page returned.
    Returned(u8, Next),
    /// The same by load and store (a planted bug): what was loaded.
    ReturnedStore(u8, Word, Next),
    JournalOff,
    /// Gives the slot back, then goes on.
    Release(Option<u8>, Next),
    // `events.rs`
    Forget(u8, Then),
    Then(Then),
    MoveLoad,
    MoveLimbo(Word),
    MoveStore(Word),
    MoveClear(Word),
    MoveDone,
    // `command.rs`, `transit.rs`
    Command,
    OutJournal(u8),
    OutWord(u8),
    OutMove(u8),
    OutOn(u8),
    OutShort(u8, bool),
    Flush(u8, bool),
    DropLimbo(u8),
    DropWord(u8),
    Done,
    // `recover.rs`
    Dead,
    RecInbox,
    RecClear,
    RecHandOver,
    RecFlush,
    RecTransit(u8),
    RecInstall,
    RecInstallOff,
    RecWake,
    SettleLoad(u8, bool),
    Settle(u8, Word, Seen, bool),
}

/// What follows the release of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Next {
    JournalOff,
    /// The limbo copy goes, then the journal is closed.
    DropThenOff(u8),
    /// A removed page: whether its limbo copy goes, and why it was forgotten.
    Forgotten(u8, bool, Then),
    /// A page that was moved: its word at the new place.
    Cleared(Word),
    MoveDone,
    /// A settled page: whether its limbo copy goes, and of which journal it was.
    Settled(u8, bool, bool),
}

/// Why a page was forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Then {
    Rest(u8),
    Unmapped,
    MoveBegins,
    Registered,
}

/// Why the kernel installed nothing.
pub(crate) enum No {
    Changing,
    Present,
    Unregistered,
}

/// UFFDIO_COPY, UFFDIO_ZEROPAGE, the way back of UFFDIO_MOVE: wakes who waits.
pub(crate) fn install(w: &mut World, page: u8, value: u8) -> Result<(), No> {
    let at = usize::from(page);
    if w.kernel.changing > 0 {
        Err(No::Changing)
    } else if w.kernel.vma[at] != Vma::Registered {
        Err(No::Unregistered)
    } else if w.kernel.program[at].is_some() {
        Err(No::Present)
    } else {
        w.kernel.program[at] = Some(value);
        w.wake(page);
        Ok(())
    }
}

/// The address space is changing: the fault waits, events come first.
pub(crate) fn again(w: &mut World, page: u8) {
    w.pending |= 1 << page;
    w.shared.install = None;
    w.keeper = K::Serve;
}

/// Moves what is in `from` to `to`; false if something is there.
pub(crate) fn move_on(from: &mut Bytes, to: &mut Bytes) -> bool {
    if to.is_some() {
        return false;
    }
    *to = from.take();
    true
}

pub(crate) fn steps(w: &World, bug: Option<Bug>, out: &mut Steps) {
    if w.keeper != K::Dead && w.left.keeper_deaths > 0 {
        out.add("keeper dies", 0, w, die);
    }
    match w.keeper {
        K::Serve => serve(w, bug, out),
        K::Push => out.add("keeper: queues the event", 0, w, |n| {
            queue(n);
            n.keeper = K::ClearInbox;
        }),
        K::ClearInbox => out.add("keeper: clears the inbox", 0, w, |n| {
            n.shared.inbox = None;
            n.keeper = K::Serve;
        }),
        K::Release(slot, next) => out.add("keeper: releases", 0, w, |n| {
            if let Some(slot) = slot {
                n.release(slot);
            }
            goto(n, next);
        }),
        _ => {
            answer::steps(w, bug, out);
            apply::steps(w, bug, out);
            command::steps(w, bug, out);
            recover::steps(w, bug, out);
        }
    }
}

fn die(w: &mut World) {
    w.left.keeper_deaths -= 1;
    w.pending = 0;
    if let K::Release(Some(slot), _) = w.keeper {
        w.store[usize::from(slot)].lost += 1;
    }
    w.keeper = K::Dead;
}

/// Queues the message in the inbox.
pub(crate) fn queue(w: &mut World) {
    let free = w.shared.queue.iter_mut().find(|place| place.is_none());
    *free.expect("room for the events of one call") = w.shared.inbox;
}

fn serve(w: &World, bug: Option<Bug>, out: &mut Steps) {
    if w.kernel.unread.is_some() {
        out.add("keeper: reads an event", 0, w, |n| {
            n.shared.inbox = n.kernel.unread.take();
            event_was_read(n);
            n.keeper = K::Push;
        });
    }
    if let Accessor::Waits(page, false) = w.accessor {
        out.add("keeper: reads a fault", page, w, |n| {
            n.accessor = Accessor::Waits(page, true);
            n.pending |= 1 << page;
        });
    }
    let events = w.shared.queue[0];
    if let Some(event) = events
        && w.kernel.changing == 0
    {
        out.add("keeper: applies an event", 0, w, |n| {
            n.keeper = apply::begin(event)
        });
    }
    if events.is_some() && bug != Some(Bug::AnswersBeforeEvents) {
        return;
    }
    for page in ALL.into_iter().filter(|page| w.pending & 1 << page != 0) {
        out.add("keeper: takes a fault", page, w, |n| {
            n.pending &= !(1 << page);
            n.keeper = K::Answer(page);
        });
    }
    if events.is_none() && w.shared.cmd.is_some() {
        out.add("keeper: takes the command", 0, w, |n| n.keeper = K::Command);
    }
}

/// Takes the first event out of the queue.
pub(crate) fn applied(w: &mut World) {
    w.shared.queue.rotate_left(1);
    w.shared.queue[2] = None;
    w.keeper = K::Serve;
}

/// Goes on after a release.
pub(crate) fn goto(w: &mut World, next: Next) {
    match next {
        Next::JournalOff => w.keeper = K::JournalOff,
        Next::DropThenOff(page) => {
            w.kernel.limbo[usize::from(page)] = None;
            w.keeper = K::JournalOff;
        }
        Next::Forgotten(page, in_limbo, then) => {
            if in_limbo {
                w.kernel.limbo[usize::from(page)] = None;
            }
            w.keeper = K::Then(then);
        }
        Next::Cleared(old) => w.keeper = K::MoveClear(old),
        Next::MoveDone => w.keeper = K::MoveDone,
        Next::Settled(page, drop, transit) => {
            if drop {
                w.kernel.limbo[usize::from(page)] = None;
            }
            w.keeper = if transit {
                K::RecInstall
            } else {
                K::RecInstallOff
            };
        }
    }
}

/// Gives back what `old` named and `new` does not, then goes on.
pub(crate) fn release_then(w: &mut World, old: Word, new: Word, next: Next) {
    let slot = protocol::let_go(old, new).and_then(|_| super::world::slot_of(old));
    w.keeper = K::Release(slot, next);
}

/// The command is done.
pub(crate) fn done(w: &mut World) {
    w.shared.cmd = None;
    w.keeper = K::Serve;
}

/// The page of a command, if it has one.
pub(crate) fn page_of(cmd: Cmd) -> u8 {
    match cmd {
        Cmd::MoveOut(page) | Cmd::Drop(page) | Cmd::Register(page) => page,
        Cmd::Barrier => 0,
    }
}

/// The event that is being applied.
pub(crate) fn event(w: &World) -> Option<Event> {
    w.shared.queue[0]
}
