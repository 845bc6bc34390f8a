//! Events, applied to the table (`events.rs`).

use keeper::protocol;
use keeper::word::Word;

use super::bugs::Bug;
use super::keeper_model::{K, Next, Then, applied, done, event, goto, release_then};
use super::search::Steps;
use super::world::{Event, World};

/// The first step for an event.
pub(crate) fn begin(event: Event) -> K {
    match event {
        Event::Remove(page) => K::Forget(page, Then::Rest(page)),
        Event::Unmap(page) => K::Forget(page, Then::Unmapped),
        Event::Remap(_, to, 0) => K::Forget(to, Then::MoveBegins),
        Event::Remap(..) => K::MoveLoad,
    }
}

pub(crate) fn steps(w: &World, bug: Option<Bug>, out: &mut Steps) {
    let present = w.kernel.program[1].is_some();
    match w.keeper {
        K::Forget(page, then) => out.add("keeper: swaps to none", page, w, |n| {
            let old = n.shared.words[usize::from(page)];
            n.shared.words[usize::from(page)] = Word::NONE;
            release_then(
                n,
                old,
                Word::NONE,
                Next::Forgotten(page, old.in_limbo(), then),
            );
        }),
        K::Then(then) => out.add("keeper: has forgotten", 0, w, |n| forgotten(n, then)),
        K::MoveLoad => out.add("keeper: loads the moved word", 0, w, |n| {
            let old = n.shared.words[0];
            n.keeper = match old {
                Word::NONE => K::MoveDone,
                _ => K::MoveLimbo(old),
            };
        }),
        K::MoveLimbo(old) => out.add("keeper: moves in limbo", 0, w, |n| {
            if old.in_limbo() && n.kernel.limbo[0].is_some() {
                n.kernel.limbo[1] = n.kernel.limbo[0].take();
            }
            n.keeper = K::MoveStore(old);
        }),
        K::MoveStore(old) => out.add("keeper: swaps in the moved word", 1, w, |n| {
            let new = match bug {
                Some(Bug::MoveKeepsWriteback) => old,
                _ => protocol::moved(old, present && bug != Some(Bug::MoveBelievesWord)),
            };
            let there = n.shared.words[1];
            n.shared.words[1] = new;
            if !new.in_limbo() {
                n.kernel.limbo[1] = None;
            }
            if bug == Some(Bug::MoveStores) {
                goto(n, Next::Cleared(new));
            } else {
                release_then(n, there, new, Next::Cleared(new));
            }
        }),
        K::MoveClear(new) => out.add("keeper: swaps the old word", 0, w, |n| {
            let last = n.shared.words[0];
            n.shared.words[0] = Word::NONE;
            release_then(n, last, new, Next::MoveDone);
        }),
        K::MoveDone => out.add("keeper: the move is done", 0, w, |n| {
            n.shared.moved = true;
            applied(n);
        }),
        _ => {}
    }
}

fn forgotten(w: &mut World, then: Then) {
    match then {
        Then::Rest(page) => {
            w.shared.rests[usize::from(page)] = true;
            applied(w);
        }
        Then::Unmapped => applied(w),
        Then::MoveBegins => {
            if let Some(Event::Remap(from, to, _)) = event(w) {
                w.shared.queue[0] = Some(Event::Remap(from, to, 1));
            }
            w.keeper = K::MoveLoad;
        }
        Then::Registered => done(w),
    }
}
