//! The state of everything that a death may interrupt: kernel, shared table, store, and the four
//! actors. Two pages, two slots; a page's bytes are one number, 0 for zeros.

use keeper::word::{Bytes as PlaceBytes, Kind as Encoding, Place, Slot as PlaceSlot, Tier, Word};

use super::keeper_model::K;
use super::manager::M;

pub(crate) const PAGES: usize = 2;
pub(crate) const SLOTS: usize = 2;
/// The numbers of both pages, and of both slots.
pub(crate) const ALL: [u8; 2] = [0, 1];

/// Bytes of a page somewhere; `None` if it is not there.
pub(crate) type Bytes = Option<u8>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Vma {
    Gone,
    /// Mapped, not registered: the kernel fills it.
    Plain,
    Registered,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Event {
    Remove(u8),
    Unmap(u8),
    /// From, to, phase (0 not begun, 1 the new place is cleared).
    Remap(u8, u8, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Cmd {
    MoveOut(u8),
    Drop(u8),
    Register(u8),
    /// Nothing: when it is done, all that the keeper had begun before is done.
    Barrier,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Kernel {
    pub(crate) program: [Bytes; PAGES],
    pub(crate) window: [Bytes; PAGES],
    pub(crate) limbo: [Bytes; PAGES],
    pub(crate) vma: [Vma; PAGES],
    /// Threads in the middle of a change (`mmap_changing`).
    pub(crate) changing: u8,
    pub(crate) unread: Option<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Shared {
    pub(crate) words: [Word; PAGES],
    pub(crate) transit: Option<u8>,
    pub(crate) install: Option<u8>,
    pub(crate) inbox: Option<Event>,
    pub(crate) queue: [Option<Event>; 3],
    pub(crate) cmd: Option<Cmd>,
    pub(crate) rests: [bool; PAGES],
    /// The log tells of a move.
    pub(crate) moved: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) count: u8,
    pub(crate) bytes: u8,
    /// References that a death has lost, until the next count.
    pub(crate) lost: u8,
}

/// The thread that reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Accessor {
    Runs,
    /// Waits for a page; whether its fault was read.
    Waits(u8, bool),
}

/// The thread that removes, unmaps and moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Mutator {
    Runs,
    /// Its event waits to be read.
    Removing(u8),
    /// Read; not running again yet.
    Removed(u8),
    /// Running; the pages are still there.
    Zapping(u8),
    /// The address space is changed; events `0..` of the change are to be announced.
    Announces(Change, u8),
    /// Event `n` waits to be read.
    Waits(Change, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Change {
    Unmapped(u8),
    /// From page 0 to page 1; whether page 1 was registered and had to be unmapped.
    Moved(bool),
}

/// How often what may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Left {
    /// How many of the pages are used.
    pub(crate) pages: u8,
    /// Whether a page that is there and marked as aside counts as wrong.
    pub(crate) strict: bool,
    pub(crate) writes: u8,
    pub(crate) removes: u8,
    pub(crate) unmaps: u8,
    pub(crate) moves: u8,
    pub(crate) keeper_deaths: u8,
    pub(crate) manager_deaths: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) shared: Shared,
    pub(crate) store: [Slot; SLOTS],
    pub(crate) keeper: K,
    /// Faults that the keeper has read: a bit a page.
    pub(crate) pending: u8,
    pub(crate) manager: M,
    pub(crate) accessor: Accessor,
    pub(crate) mutator: Mutator,
    /// What a read of each page may give: a bit a value.
    pub(crate) allowed: [u8; PAGES],
    pub(crate) left: Left,
    pub(crate) wrong: Option<&'static str>,
}

impl World {
    pub(crate) fn new(left: Left) -> World {
        World {
            kernel: Kernel {
                program: [Some(1), None],
                window: [None; PAGES],
                limbo: [None; PAGES],
                vma: [Vma::Registered; PAGES],
                changing: 0,
                unread: None,
            },
            shared: Shared {
                words: [Word::NONE; PAGES],
                transit: None,
                install: None,
                inbox: None,
                queue: [None; 3],
                cmd: None,
                rests: [false; PAGES],
                moved: false,
            },
            store: [Slot::default(); SLOTS],
            keeper: K::Serve,
            pending: 0,
            manager: M::Idle,
            accessor: Accessor::Runs,
            mutator: Mutator::Runs,
            allowed: [1 << 1, 1],
            left,
            wrong: None,
        }
    }

    /// The threads that wait for the page look again.
    pub(crate) fn wake(&mut self, page: u8) {
        if matches!(self.accessor, Accessor::Waits(at, _) if at == page) {
            self.accessor = Accessor::Runs;
        }
    }

    /// A reference to the slot less.
    pub(crate) fn release(&mut self, slot: u8) {
        let slot = &mut self.store[usize::from(slot)];
        if slot.count == 0 {
            self.wrong = Some("a slot is freed twice");
        } else {
            slot.count -= 1;
        }
    }

    /// Words that name the slot; a page on its way from 0 to 1 counts once.
    pub(crate) fn named(&self, slot: u8) -> u8 {
        let names = |page: usize| slot_of(self.shared.words[page]) == Some(slot);
        let both = names(0) && names(1);
        let moving = matches!(self.shared.queue[0], Some(Event::Remap(_, _, 1)));
        if both && moving {
            1
        } else {
            u8::from(names(0)) + u8::from(names(1))
        }
    }

    /// Nobody is in the middle of anything.
    pub(crate) fn quiet(&self) -> bool {
        self.keeper == K::Serve
            && self.manager == M::Idle
            && self.mutator == Mutator::Runs
            && self.accessor == Accessor::Runs
            && self.pending == 0
            && self.shared.cmd.is_none()
            && self.shared.queue[0].is_none()
    }
}

pub(crate) fn place_of(slot: u8) -> Place {
    Place::slot(PlaceSlot {
        tier: Tier::Pool,
        kind: Encoding::Raw,
        offset: u64::from(slot) * 4096,
        len: 4096,
    })
    .expect("expressible")
}

pub(crate) fn slot_of(word: Word) -> Option<u8> {
    match word.place()?.bytes()? {
        PlaceBytes::Slot(slot) => u8::try_from(slot.offset / 4096).ok(),
        PlaceBytes::Same(_) => None,
    }
}
