//! Answers to faults (`install.rs`).

use keeper::protocol::{self, Answer};
use keeper::word::{State, Word};

use super::bugs::Bug;
use super::keeper_model::{K, Next, No, again, goto, install, release_then};
use super::manager;
use super::search::Steps;
use super::world::{World, slot_of};

pub(crate) fn steps(w: &World, bug: Option<Bug>, out: &mut Steps) {
    match w.keeper {
        K::Answer(page) => out.add("keeper: looks at the word", page, w, |n| {
            n.keeper = match protocol::answer(n.shared.words[usize::from(page)], true) {
                Answer::Zeros => K::Zero(page),
                Answer::FromLimbo => K::LimboJournal(page),
                Answer::FromStore => K::StoreRead(page),
            };
        }),
        K::Zero(page) => out.add("keeper: installs zeros", page, w, |n| {
            match install(n, page, 0) {
                Err(No::Changing) => again(n, page),
                _ => finish(n, page),
            }
        }),
        K::LimboJournal(page) => out.add("keeper: install journal on", page, w, |n| {
            n.shared.install = Some(page);
            n.keeper = K::LimboMove(page);
        }),
        K::LimboMove(page) => out.add("keeper: moves back", page, w, |n| move_back(n, page)),
        K::LimboCopy(page) => out.add("keeper: copies back", page, w, |n| copy_back(n, page)),
        K::Hole(page) => out.add("keeper: limbo has it no more", page, w, |n| hole(n, page)),
        K::StoreRead(page) => out.add("keeper: reads the store", page, w, |n| {
            n.keeper = match slot_of(n.shared.words[usize::from(page)]) {
                Some(slot) => K::StoreJournal(page, n.store[usize::from(slot)].bytes),
                None => K::Answer(page),
            };
        }),
        K::StoreJournal(page, value) => out.add("keeper: install journal on", page, w, |n| {
            n.shared.install = Some(page);
            n.keeper = K::StoreCopy(page, value);
        }),
        K::StoreCopy(page, value) => out.add("keeper: copies in", page, w, |n| {
            match install(n, page, value) {
                Ok(()) => n.keeper = K::Returned(page, Next::JournalOff),
                Err(No::Present) => {
                    n.wake(page);
                    n.keeper = K::Returned(page, Next::JournalOff);
                }
                Err(No::Changing) => again(n, page),
                Err(No::Unregistered) => finish(n, page),
            }
        }),
        K::Returned(page, next) => returned(w, page, next, bug, out),
        K::ReturnedStore(page, old, next) => out.add("keeper: stores mapped", page, w, |n| {
            n.shared.words[usize::from(page)] = protocol::returned(true);
            release_then(n, old, Word::MAPPED, next);
        }),
        K::JournalOff => out.add("keeper: install journal off", 0, w, |n| {
            n.shared.install = None;
            n.keeper = K::Serve;
        }),
        _ => {}
    }
}

/// Nothing more to do for this fault: its thread looks again.
fn finish(w: &mut World, page: u8) {
    w.wake(page);
    w.shared.install = None;
    w.keeper = K::Serve;
}

fn move_back(w: &mut World, page: u8) {
    let at = usize::from(page);
    if w.kernel.changing > 0 {
        return again(w, page);
    }
    let Some(value) = w.kernel.limbo[at] else {
        w.keeper = K::Hole(page);
        return;
    };
    if manager::pins(w, page) {
        w.keeper = K::LimboCopy(page);
        return;
    }
    w.keeper = match install(w, page, value) {
        Ok(()) => {
            w.kernel.limbo[at] = None;
            K::Returned(page, Next::JournalOff)
        }
        Err(_) => K::LimboCopy(page),
    };
}

fn copy_back(w: &mut World, page: u8) {
    let value = w.kernel.limbo[usize::from(page)].unwrap_or(0);
    match install(w, page, value) {
        Ok(()) => w.keeper = K::Returned(page, Next::DropThenOff(page)),
        Err(No::Present) => {
            w.wake(page);
            w.keeper = K::Returned(page, Next::DropThenOff(page));
        }
        Err(No::Changing) => again(w, page),
        Err(No::Unregistered) => finish(w, page),
    }
}

fn hole(w: &mut World, page: u8) {
    let word = &mut w.shared.words[usize::from(page)];
    if word.state() == State::Stored {
        *word = word.limbo_dropped();
        w.keeper = K::StoreRead(page);
    } else {
        *word = Word::NONE;
        w.keeper = K::Zero(page);
    }
}

fn returned(w: &World, page: u8, next: Next, bug: Option<Bug>, out: &mut Steps) {
    let at = usize::from(page);
    let old = w.shared.words[at];
    match bug {
        Some(Bug::ReturnStores) => out.add("keeper: loads the word", page, w, |n| {
            n.keeper = K::ReturnedStore(page, old, next);
        }),
        Some(Bug::ReleasesFirst) if slot_of(old).is_some() => {
            out.add("keeper: releases first", page, w, |n| {
                n.release(slot_of(old).expect("it has one"));
                n.keeper = K::ReturnedStore(page, Word::NONE, next);
            });
        }
        _ => out.add("keeper: swaps to mapped", page, w, |n| {
            n.shared.words[at] = protocol::returned(true);
            match slot_of(old) {
                Some(_) => release_then(n, old, Word::MAPPED, next),
                None => goto(n, next),
            }
        }),
    }
}
