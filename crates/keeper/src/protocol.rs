//! The page-state protocol: what each change makes of a word, as pure functions.
//!
//! Invariant: whoever changes a word takes the new one from here, makes the change by swap or
//! compare-and-swap wherever the other party may change the word too, and gives back what
//! [`let_go`] says. `tests/protocol.rs` runs keeper, manager and program over these functions in
//! every order, with a death at every step.

use crate::word::{Place, State, Word};

/// How a fault on a missing page is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// With zeros.
    Zeros,
    /// By a move back from limbo.
    FromLimbo,
    /// By a copy out of the store.
    FromStore,
}

/// The answer to a fault; `own` is false for a forked child, which has no limbo.
#[must_use]
pub const fn answer(word: Word, own: bool) -> Answer {
    match word.state() {
        State::None | State::Mapped => Answer::Zeros,
        State::Limbo | State::Writeback => Answer::FromLimbo,
        State::Stored if own && word.in_limbo() => Answer::FromLimbo,
        State::Stored => Answer::FromStore,
    }
}

/// Keeper: the bytes are in the program's page table again; `young` if they were touched.
#[must_use]
pub const fn returned(young: bool) -> Word {
    if young {
        Word::MAPPED_YOUNG
    } else {
        Word::MAPPED
    }
}

/// Keeper: whether the page may be moved aside, for no other copy of it exists.
#[must_use]
pub const fn movable(word: Word) -> bool {
    matches!(word.state(), State::None | State::Mapped)
}

/// Manager: a page in limbo is going to be copied out.
#[must_use]
pub const fn begin_writeback(word: Word) -> Option<Word> {
    match word.state() {
        State::Limbo => Some(Word::WRITEBACK),
        _ => None,
    }
}

/// Manager: the bytes are safe at `place`. Replaces [`Word::WRITEBACK`] and nothing else: any other
/// word means that the page was touched, removed or moved meanwhile.
#[must_use]
pub const fn committed(place: Place) -> Word {
    Word::stored(place, true)
}

/// Manager: the page is not copied out after all.
#[must_use]
pub const fn cancel_writeback(word: Word) -> Option<Word> {
    match word.state() {
        State::Writeback => Some(Word::LIMBO),
        _ => None,
    }
}

/// Keeper: the limbo copy of a stored page is gone.
#[must_use]
pub const fn dropped(word: Word) -> Option<Word> {
    match word.state() {
        State::Stored if word.in_limbo() => Some(word.limbo_dropped()),
        _ => None,
    }
}

/// Keeper: the word of a page that mremap took elsewhere, where `present` says whether the program
/// has it there. If it has, a keeper died after it had brought the page back and before it said so.
/// A write-back is for the old place: its commit finds another word there and fails.
#[must_use]
pub const fn moved(word: Word, present: bool) -> Word {
    match word.state() {
        State::Limbo | State::Writeback | State::Stored if present => Word::MAPPED,
        State::Writeback => Word::LIMBO,
        _ => word,
    }
}

/// Where a page's bytes were found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    /// In the program's page table.
    pub in_program: bool,
    /// In limbo.
    pub in_limbo: bool,
}

/// Keeper: the word of a page that a keeper was working on when it died, and whether the limbo
/// copy is to be dropped.
#[must_use]
pub const fn settled(word: Word, seen: Seen) -> (Word, bool) {
    match word.state() {
        State::Mapped if seen.in_program => (word, true),
        // The program has it: whatever else there is, is older.
        _ if seen.in_program => (Word::MAPPED, true),
        State::None => (word, true),
        State::Stored => (word, false),
        State::Mapped | State::Limbo | State::Writeback if seen.in_limbo => (Word::LIMBO, false),
        State::Mapped | State::Limbo | State::Writeback => (Word::NONE, false),
    }
}

/// The place that loses a reference when `new` takes the place of `old`.
#[must_use]
pub fn let_go(old: Word, new: Word) -> Option<Place> {
    old.place().filter(|place| new.place() != Some(*place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> [Word; 10] {
        let place = Place::same(7);
        [
            Word::NONE,
            Word::MAPPED,
            Word::MAPPED_YOUNG,
            Word::LIMBO,
            Word::LIMBO_GROUP,
            Word::LIMBO_WIDE,
            Word::WRITEBACK,
            Word::stored(place, true),
            Word::stored(place, false),
            Word(0b111),
        ]
    }

    #[test]
    fn the_managers_changes_touch_limbo_and_writeback_only() {
        for word in words() {
            let begun = begin_writeback(word);
            assert_eq!(begun.is_some(), word.state() == State::Limbo, "{word:?}");
            let cancelled = cancel_writeback(word);
            assert_eq!(
                cancelled.is_some(),
                word.state() == State::Writeback,
                "{word:?}"
            );
        }
    }

    #[test]
    fn what_is_aside_is_never_answered_with_zeros_or_moved_again() {
        for word in words() {
            let elsewhere = word.in_limbo() || word.place().is_some();
            assert_eq!(answer(word, true) == Answer::Zeros, !elsewhere, "{word:?}");
            assert_eq!(movable(word), !elsewhere, "{word:?}");
            assert_eq!(
                dropped(word).is_some(),
                word.in_limbo() && word.place().is_some()
            );
        }
    }

    #[test]
    fn a_place_is_let_go_once() {
        let (a, b) = (Place::same(1), Place::same(2));
        let (stored, other) = (Word::stored(a, true), Word::stored(b, false));
        assert_eq!(let_go(stored, Word::MAPPED), Some(a));
        assert_eq!(let_go(stored, stored.limbo_dropped()), None);
        assert_eq!(let_go(stored, other), Some(a));
        assert_eq!(let_go(Word::MAPPED, stored), None);
    }

    #[test]
    fn settling_believes_the_program_first_and_the_store_last() {
        for word in words() {
            for in_limbo in [false, true] {
                let (new, drop) = settled(
                    word,
                    Seen {
                        in_program: true,
                        in_limbo,
                    },
                );
                assert!(new.state() == State::Mapped && drop, "{word:?}");
                let (new, drop) = settled(
                    word,
                    Seen {
                        in_program: false,
                        in_limbo,
                    },
                );
                assert_eq!(new.place(), word.place(), "{word:?}");
                assert!(new.place().is_some() || new.in_limbo() == (in_limbo && !drop));
            }
        }
    }
}
