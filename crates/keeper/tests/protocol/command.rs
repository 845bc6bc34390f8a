//! The manager's commands (`command.rs`, `transit.rs`).

use keeper::protocol;
use keeper::word::Word;

use super::bugs::Bug;
use super::keeper_model::{K, Then, done, move_on, page_of};
use super::search::Steps;
use super::world::{Cmd, Vma, World};

pub(crate) fn steps(w: &World, bug: Option<Bug>, out: &mut Steps) {
    match w.keeper {
        K::Command => begin(w, bug, out),
        K::OutJournal(page) => out.add("keeper: transit journal on", page, w, |n| {
            if bug != Some(Bug::NoTransitJournal) {
                n.shared.transit = Some(page);
            }
            n.keeper = K::OutWord(page);
        }),
        K::OutWord(page) => out.add("keeper: stores limbo", page, w, |n| {
            n.shared.words[usize::from(page)] = Word::LIMBO;
            n.keeper = K::OutMove(page);
        }),
        K::OutMove(page) => out.add("keeper: moves to the window", page, w, |n| {
            let at = usize::from(page);
            let kernel = &mut n.kernel;
            n.keeper = if kernel.changing > 0 || kernel.vma[at] == Vma::Gone {
                K::OutShort(page, kernel.changing > 0)
            } else if kernel.program[at].is_none() {
                K::OutShort(page, false)
            } else {
                move_on(&mut kernel.program[at], &mut kernel.window[at]);
                K::OutOn(page)
            };
        }),
        K::OutOn(page) => out.add("keeper: moves on to limbo", page, w, |n| {
            let at = usize::from(page);
            let moved = move_on(&mut n.kernel.window[at], &mut n.kernel.limbo[at]);
            n.keeper = if moved {
                K::Flush(page, false)
            } else {
                K::OutOn(page)
            };
            if !moved {
                // A stale copy that was to be dropped: the window holds the good one.
                n.kernel.limbo[at] = None;
            }
        }),
        K::OutShort(page, blocked) => out.add("keeper: stores mapped again", page, w, |n| {
            n.shared.words[usize::from(page)] = Word::MAPPED;
            n.keeper = K::Flush(page, blocked);
        }),
        K::Flush(page, blocked) => out.add("keeper: transit journal off", page, w, |n| {
            n.shared.transit = None;
            if blocked {
                n.keeper = K::Serve;
            } else {
                done(n);
            }
        }),
        K::DropLimbo(page) => out.add("keeper: drops from limbo", page, w, |n| {
            n.kernel.limbo[usize::from(page)] = None;
            n.keeper = K::DropWord(page);
        }),
        K::DropWord(page) => out.add("keeper: takes the limbo bit off", page, w, |n| {
            let word = &mut n.shared.words[usize::from(page)];
            *word = protocol::dropped(*word).unwrap_or(*word);
            n.keeper = K::Done;
        }),
        K::Done => out.add("keeper: the command is done", 0, w, done),
        _ => {}
    }
}

fn begin(w: &World, bug: Option<Bug>, out: &mut Steps) {
    let Some(cmd) = w.shared.cmd else { return };
    let page = page_of(cmd);
    let at = usize::from(page);
    let word = w.shared.words[at];
    out.add("keeper: begins the command", page, w, |n| match cmd {
        Cmd::MoveOut(_) => {
            let rests = n.shared.rests[at] && bug != Some(Bug::NoRest);
            n.keeper = if rests || !protocol::movable(word) {
                K::Done
            } else if n.kernel.changing > 0 {
                K::Serve
            } else if n.kernel.vma[at] != Vma::Registered {
                K::Done
            } else {
                K::OutJournal(page)
            };
        }
        Cmd::Drop(_) => {
            n.keeper = match protocol::dropped(word) {
                Some(_) => K::DropLimbo(page),
                None => K::Done,
            };
        }
        Cmd::Register(_) => {
            if n.kernel.vma[at] == Vma::Plain {
                n.kernel.vma[at] = Vma::Registered;
                n.keeper = K::Forget(page, Then::Registered);
            } else {
                n.keeper = K::Done;
            }
        }
        Cmd::Barrier => n.keeper = K::Done,
    });
}
