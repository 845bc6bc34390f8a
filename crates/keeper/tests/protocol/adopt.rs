//! Adoption: another manager takes stock of the words while keeper and program go on.
//! The code (`target/adopt.rs`) makes the keeper stand still for it, which leaves some of these
//! orders and adds none.

use keeper::protocol;
use keeper::word::State;

use super::bugs::Bug;
use super::manager::{M, cancel};
use super::search::Steps;
use super::world::{ALL, Cmd, PAGES, World, slot_of};

/// Where an adopting manager is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum A {
    /// Waits for the command of the dead one.
    Waits,
    Before(Round),
    /// Reads the words: the next page, what was found.
    Reads(u8, Round, Stock),
    Cancels(u8, Round, Stock),
    After(Round, Stock),
    /// All words were read; whether as one is asked now.
    Read(Round, Stock),
    /// Has stale limbo copies dropped: a bit a page.
    Drops(u8),
}

/// The words are read twice: to count, and to find what was given back before the count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Round {
    First,
    Second(Stock),
}

/// What was read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stock {
    slots: [Option<u8>; PAGES],
    /// Pages whose limbo copy is to be dropped: a bit a page.
    stale: u8,
}

const NOTHING: Stock = Stock {
    slots: [None; PAGES],
    stale: 0,
};

impl Stock {
    fn count(self, slot: u8) -> u8 {
        u8::try_from(
            self.slots
                .iter()
                .filter(|found| **found == Some(slot))
                .count(),
        )
        .unwrap_or(0)
    }
}

pub(crate) fn steps(w: &World, at: A, bug: Option<Bug>, out: &mut Steps) {
    if w.shared.cmd.is_some() {
        return;
    }
    let barrier = (bug != Some(Bug::AdoptWithoutBarrier)).then_some(Cmd::Barrier);
    match at {
        A::Waits => out.add("adopt: nothing is asked", 0, w, |n| {
            n.manager = M::Adopt(A::Before(Round::First));
        }),
        A::Before(round) => out.add("adopt: barrier", 0, w, |n| {
            n.shared.cmd = barrier;
            n.manager = M::Adopt(A::Reads(0, round, NOTHING));
        }),
        A::Reads(page, round, stock) => out.add("adopt: reads a word", page, w, |n| {
            read(n, page, round, stock, bug);
        }),
        A::Cancels(page, round, stock) => out.add("adopt: cancels", page, w, |n| {
            cancel(&mut n.shared.words[usize::from(page)]);
            n.manager = M::Adopt(after(page, round, stock));
        }),
        A::After(round, stock) => out.add("adopt: barrier after", 0, w, |n| {
            n.shared.cmd = barrier;
            n.manager = M::Adopt(A::Read(round, stock));
        }),
        A::Read(round, stock) => out.add("adopt: has read all", 0, w, |n| {
            n.manager = M::Adopt(if n.shared.moved && bug != Some(Bug::AdoptIgnoresMoves) {
                A::Before(round)
            } else {
                take_stock(n, round, stock, bug)
            });
        }),
        A::Drops(stale) => out.add("adopt: drops", 0, w, |n| {
            let page = ALL.into_iter().find(|page| stale & 1 << page != 0);
            n.shared.cmd = page.map(Cmd::Drop);
            n.manager = match page {
                Some(page) => M::Adopt(A::Drops(stale & !(1 << page))),
                None => M::Idle,
            };
        }),
    }
}

fn read(w: &mut World, page: u8, round: Round, mut stock: Stock, bug: Option<Bug>) {
    if page == 0 {
        w.shared.moved = false;
    }
    let word = w.shared.words[usize::from(page)];
    stock.slots[usize::from(page)] = slot_of(word);
    stock.stale |= u8::from(protocol::dropped(word).is_some()) << page;
    let cancels = word.state() == State::Writeback && bug != Some(Bug::AdoptKeepsWriteback);
    w.manager = M::Adopt(if cancels {
        A::Cancels(page, round, stock)
    } else {
        after(page, round, stock)
    });
}

fn after(page: u8, round: Round, stock: Stock) -> A {
    if usize::from(page) + 1 < PAGES {
        A::Reads(page + 1, round, stock)
    } else {
        A::After(round, stock)
    }
}

/// Makes the counts anew, then takes off what was given back before that.
fn take_stock(w: &mut World, round: Round, stock: Stock, bug: Option<Bug>) -> A {
    match round {
        Round::First => {
            for (slot, number) in w.store.iter_mut().zip(0u8..) {
                slot.count = stock.count(number);
                slot.lost = 0;
            }
            match bug {
                Some(Bug::AdoptCountsOnce) => A::Drops(stock.stale),
                _ => A::Before(Round::Second(stock)),
            }
        }
        Round::Second(first) => {
            for (slot, number) in w.store.iter_mut().zip(0u8..) {
                if first.count(number) > stock.count(number) {
                    slot.count = slot.count.saturating_sub(1);
                    slot.lost = 0;
                }
            }
            A::Drops(first.stale)
        }
    }
}
