//! What went wrong once, as short as it can be told.

use super::PAGES;
use super::kernel::Call::{Fork, Move, MoveOver, Remove, Unmap};
use super::run::Step::{Apply, Call, Read, Write};
use super::run::{Step, World, follow, possible, start};

/// Places: 0 is free, 1 has a page that is out.
fn holds(at: [u8; PAGES], steps: &[Step]) {
    assert!(possible(at, steps), "a story that no program can tell");
    let mut keeper = start(at, None, World::default());
    if let Err(wrong) = follow(&mut keeper, steps) {
        panic!("{wrong}");
    }
}

/// Two pages moved to where one had been unmapped and the other moved away, all by different
/// threads, and the move was read first. That there was an unmapping of its own was counted for both
/// pages together, so the page that had been moved away was not moved first: its bytes were lost.
#[test]
fn a_place_of_two_pages_that_were_left_in_different_ways() {
    holds(
        [1, 1, 1, 1, 0, 0],
        &[
            Call(1, Unmap(0), 1),
            Call(2, Move(1, 4, false), 1),
            Call(0, Move(2, 0, false), 2),
            Read(0),
            Read(1),
            Read(2),
        ],
    );
}

/// Three moves, each to where the one before had come from. The last was read first, the first
/// second: the second was made first for the last one's sake, and what was read before *it* was not
/// looked at again. It was moved on with the bytes of another.
#[test]
fn a_chain_of_moves_that_was_read_from_both_ends() {
    holds(
        [1, 1, 0, 0, 1, 0],
        &[
            Call(1, Move(0, 2, false), 1),
            Call(2, Move(4, 0, false), 1),
            Call(0, Move(1, 4, false), 1),
            Read(0),
            Read(1),
            Read(2),
        ],
    );
}

/// A move that leaves the old place mapped brings no unmapping, and was taken for one that does: a
/// later move from a place was made before the one that had come there.
#[test]
fn a_move_without_an_unmapping_of_its_own() {
    holds(
        [1, 1, 0, 0, 0, 0],
        &[
            Call(1, Unmap(0), 1),
            Call(0, Move(1, 0, false), 1),
            Read(0),
            Read(0),
            Read(1),
            Call(0, Move(0, 3, true), 1),
            Read(0),
        ],
    );
}

/// A place left mapped by a move is registered, and the keeper does not know: what it does not know
/// was taken for free, and a move to it that was read before the move from it lost its bytes.
#[test]
fn a_place_that_is_registered_unknown_to_the_keeper() {
    holds(
        [1, 1, 0, 0, 0, 0],
        &[
            Call(0, Move(0, 2, true), 1),
            Read(0),
            Apply(None),
            Call(0, Move(0, 3, false), 1),
            Call(1, Move(1, 0, false), 1),
            Read(1),
            Read(0),
        ],
    );
}

/// A set was applied, its doubts were settled, and the keeper died while it took the set out of the
/// queue: the move was out, the unmapping was not. Without the move there was no doubt, and the
/// next keeper emptied the place that the move had come to.
#[test]
fn a_death_while_a_set_is_taken_out_of_the_queue() {
    for steps in 0..60 {
        holds(
            [0, 1, 0, 0, 0, 1],
            &[
                Call(2, Unmap(5), 1),
                Call(3, Move(1, 5, true), 1),
                Read(3),
                Read(2),
                Apply(Some(steps)),
            ],
        );
    }
}

/// Two moves that were read in the wrong order. The second was made first, and when its turn in the
/// queue came it was noted a second time: what the first had brought there was taken for gone, and
/// the unmapping of the second emptied its words.
#[test]
fn a_move_is_noted_once() {
    holds(
        [0, 0, 1, 1, 0, 1],
        &[
            Call(0, MoveOver(2, 3, false), 1),
            Call(1, Move(5, 2, false), 1),
            Read(1),
            Read(0),
            Read(0),
            Read(1),
            Read(0),
        ],
    );
}

/// Two pages moved over two, one of which the keeper knew nothing of: it was not registered. Another
/// thread's move to where they had come from was read first. The unmapping of the two was owed for the
/// known one alone, and took away what had come to the other; so an order that lost it looked better.
/// One run of 600,000 random programs in some twenty found it.
#[test]
fn an_unmapping_over_known_and_unknown_memory() {
    holds(
        [1, 1, 1, 4, 1, 1],
        &[
            Call(1, MoveOver(3, 0, true), 1),
            Read(1),
            Call(1, MoveOver(4, 0, false), 2),
            Call(0, Move(2, 4, true), 1),
        ],
    );
}

/// Memory that was not registered was unmapped together with some that was, and a move to its place
/// was read before that. Nothing was known there that could owe the unmapping, so it was taken to be of
/// what had come; the next move from there was of nothing, and its bytes stayed where they were not.
#[test]
fn an_unmapping_of_unknown_memory_alone() {
    holds(
        [4, 1, 1, 0, 0, 0],
        &[
            Call(3, Unmap(0), 2),
            Call(2, Move(2, 0, false), 1),
            Read(2),
            Read(3),
            Read(2),
            Call(0, Move(0, 1, true), 1),
        ],
    );
}

/// A page was moved, removed, written anew and moved on. That it was present where the moves had brought
/// it spoke against them, as if its bytes were still with the keeper; the second was taken to be
/// before the first, and before a fork that it came after.
#[test]
fn a_page_that_was_removed_between_two_moves() {
    holds(
        [0, 4, 1, 1, 1, 0],
        &[
            Call(2, MoveOver(2, 1, true), 1),
            Read(2),
            Call(3, Remove(1), 1),
            Call(2, Fork, 1),
            Read(3),
            Read(2),
            Write(1),
            Call(0, MoveOver(1, 3, true), 1),
        ],
    );
}
