//! What a set of events did to an address space, worked out and carried out step by step.
//!
//! Events wait until none is outstanding; then they are a set, and [`set::apply_all`] applies it to
//! what is known of each place, [`set::settle_doubts`] asks the kernel what the set does not tell.
//! Nothing here knows a system call or where anything is kept: that is behind [`Memory`], so that
//! `tests/order.rs` runs the very same code over a kernel of its own, with a death at every step.
//!
//! Invariant: each effect that is asked of [`Memory`] may be asked twice, and a message says in its
//! own fields how far it got, so that whoever follows a keeper that died starts over with the queue.

pub mod ledger;
pub mod plan;
pub mod set;

use ledger::Ledger;
use plan::Plan;
use uffd::abi::UffdMsg;

/// What the kernel says of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registered {
    /// All of it, in one mapping.
    Yes,
    /// Not all of it, or in several mappings.
    No,
    /// Events are outstanding.
    Changing,
    /// The address space is gone.
    Gone,
}

/// Why nothing is known of a range any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It was unmapped: it is not registered any more, either.
    Unmapped,
    /// Something else is moved to there: the same.
    Replaced,
    /// Its bytes were removed; it stays as it is.
    Removed,
}

/// A queue of events and the address spaces that they are of. `of` is the `source` of messages.
pub trait Memory {
    /// Messages in the queue.
    fn queued(&self) -> usize;
    /// Message `i`.
    fn get(&self, i: usize) -> UffdMsg;
    /// Replaces message `i`; one whose event is 0 is done with.
    fn set(&mut self, i: usize, msg: UffdMsg);
    /// All messages of a set are done with; so many were applied.
    fn done(&mut self, of: u32, messages: u64);
    /// What is noted of the set that is being applied.
    fn ledger(&self) -> &Ledger;
    /// The same, to be changed.
    fn ledger_mut(&mut self) -> &mut Ledger;
    /// There was no room for a note in the ledger: of an arrival, or of a doubt.
    fn no_room(&mut self, doubt: bool);

    /// Forgets what is known of a range.
    fn forget(&mut self, of: u32, start: u64, end: u64, why: Why);
    /// Takes what is known of a range to where it was moved; whether the old place stays registered.
    fn carry(&mut self, of: u32, from: u64, to: u64, len: u64, stays: bool);
    /// A child was forked; `event` says how to speak to it.
    fn forked(&mut self, of: u32, event: UffdMsg);
    /// Where the order of a set is worked out.
    fn plan(&mut self) -> &mut Plan;
    /// Works it out, with what is known besides the events ([`plan::Ground`]).
    fn work_out(&mut self, of: u32);
    /// Turns that were given; those of messages beyond it do not count.
    fn planned(&self) -> u16;
    /// Sets it.
    fn set_planned(&mut self, turns: u16);
    /// Asks the kernel about a range.
    fn ask(&self, of: u32, start: u64, end: u64) -> Registered;
    /// Whether there is still an address space to ask about.
    fn open(&self, of: u32) -> bool;
}
