//! The page-state protocol, checked in every order: a thread that reads and writes, one that
//! removes, unmaps and moves, the keeper, the manager, and their deaths between any two steps.
//!
//! Must hold in every state that can be reached: a read gives what was written last, or zeros after
//! a removal; no slot is freed twice, free while named, or lost (but by a death, until the next
//! adoption counts anew); everybody comes to rest if nobody dies any more. Then the same with rules
//! of the protocol broken, one at a time: each must be found.

#[path = "protocol/adopt.rs"]
mod adopt;
#[path = "protocol/answer.rs"]
mod answer;
#[path = "protocol/apply.rs"]
mod apply;
#[path = "protocol/bugs.rs"]
mod bugs;
#[path = "protocol/command.rs"]
mod command;
#[path = "protocol/keeper.rs"]
mod keeper_model;
#[path = "protocol/manager.rs"]
mod manager;
#[path = "protocol/program.rs"]
mod program;
#[path = "protocol/recover.rs"]
mod recover;
#[path = "protocol/search.rs"]
mod search;
#[path = "protocol/world.rs"]
mod world;

use bugs::Bug;
use world::Left;

const NOTHING: Left = Left {
    pages: 1,
    strict: true,
    writes: 0,
    removes: 0,
    unmaps: 0,
    moves: 0,
    keeper_deaths: 0,
    manager_deaths: 0,
};

fn check(what: &str, left: Left) {
    let begin = std::time::Instant::now();
    let found = search::search(left, None);
    eprintln!("{what}: {} states in {:.1?}", found.states, begin.elapsed());
    if let Some((wrong, way)) = found.wrong {
        let way: Vec<String> = way
            .iter()
            .map(|(what, page)| format!("  {what} ({page})"))
            .collect();
        panic!("{what}: {wrong}\n{}", way.join("\n"));
    }
}

#[test]
fn deaths() {
    check(
        "two deaths each",
        Left {
            writes: 2,
            keeper_deaths: 2,
            manager_deaths: 2,
            ..NOTHING
        },
    );
}

#[test]
fn removals() {
    let left = Left {
        writes: 1,
        removes: 1,
        keeper_deaths: 1,
        manager_deaths: 1,
        ..NOTHING
    };
    check("a removal", left);
    let left = Left {
        writes: 1,
        removes: 2,
        keeper_deaths: 1,
        ..NOTHING
    };
    check("two removals", left);
}

#[test]
fn unmappings() {
    let left = Left {
        writes: 1,
        unmaps: 1,
        keeper_deaths: 1,
        manager_deaths: 1,
        ..NOTHING
    };
    check("an unmapping", left);
}

#[test]
fn moves() {
    let moves = Left {
        pages: 2,
        moves: 1,
        ..NOTHING
    };
    check("a move and a write", Left { writes: 1, ..moves });
    check(
        "a move, the manager dies",
        Left {
            manager_deaths: 1,
            ..moves
        },
    );
}

#[test]
fn moves_while_the_keeper_dies() {
    let moves = Left {
        pages: 2,
        moves: 1,
        ..NOTHING
    };
    check(
        "a move, the keeper dies",
        Left {
            keeper_deaths: 1,
            ..moves
        },
    );
}

/// The least that must be possible for each bug to show itself.
fn planted() -> [(Bug, Left); 18] {
    let one = Left {
        writes: 1,
        ..NOTHING
    };
    let removal = Left { removes: 1, ..one };
    let moved = Left {
        pages: 2,
        moves: 1,
        ..one
    };
    let moved_and_dead = Left {
        writes: 0,
        keeper_deaths: 1,
        ..moved
    };
    let keeper = Left {
        keeper_deaths: 1,
        ..one
    };
    let keepers = Left {
        keeper_deaths: 2,
        ..one
    };
    let manager = Left {
        manager_deaths: 1,
        ..one
    };
    [
        (Bug::AnswersBeforeEvents, removal),
        (Bug::ReturnStores, NOTHING),
        (Bug::ReleasesFirst, keeper),
        (Bug::NoTransitJournal, keeper),
        (Bug::NoRest, removal),
        (Bug::CommitsFirst, manager),
        (Bug::CommitStores, removal),
        (Bug::SettleStores, keeper),
        (Bug::WakesNobody, keeper),
        (Bug::SettlesNothing, keeper),
        (Bug::NoHandOver, keepers),
        (Bug::MoveKeepsWriteback, moved),
        (Bug::MoveBelievesWord, moved_and_dead),
        (Bug::MoveStores, moved_and_dead),
        (Bug::AdoptKeepsWriteback, manager),
        (Bug::AdoptWithoutBarrier, manager),
        (
            Bug::AdoptIgnoresMoves,
            Left {
                writes: 0,
                manager_deaths: 1,
                ..moved
            },
        ),
        (Bug::AdoptCountsOnce, manager),
    ]
}

#[test]
fn every_planted_bug_is_found() {
    for (bug, left) in planted() {
        let found = search::search(left, Some(bug));
        let Some((wrong, way)) = found.wrong else {
            panic!("{bug:?} is not found in {} states", found.states);
        };
        eprintln!(
            "{bug:?}: {wrong} after {} steps ({} states)",
            way.len(),
            found.states
        );
    }
}
