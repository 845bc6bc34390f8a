//! The rules for one frame with one mapping.

use super::{FILE, HIDDEN, LEFT, OLD, Observation, Rounds, SLEPT, SPARED, YOUNG};

#[test]
fn a_fresh_frame_is_as_young_as_it_can_be_and_then_grows_old() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    rounds.round(&[
        (mm, 7, 1, OLD),
        (mm, 8, 1, YOUNG),
        (mm, 9, 1, LEFT),
        (mm, 10, 1, HIDDEN),
    ]);
    assert_eq!((rounds.ages(mm), rounds.unknown(mm)), (vec![(0, 3)], 1));
    for round in 1..5 {
        rounds.round(&[(mm, 7, 1, OLD), (mm, 8, 1, YOUNG)]);
        assert_eq!(rounds.ages(mm), [(round * 1000, 1), (0, 1)]);
        assert_eq!(rounds.reaccessed(), [(0, round)]);
    }
    assert_eq!(rounds.resident(mm), 2, "what nobody saw is forgotten");
}

#[test]
fn an_access_after_an_idle_time_is_counted_by_that_time() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    rounds.round(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    rounds.round(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    rounds.round(&[(mm, 1, 1, YOUNG), (mm, 2, 1, OLD)]);
    assert_eq!(rounds.reaccessed(), [(1000, 1)]);
    rounds.round(&[(mm, 1, 1, OLD), (mm, 2, 1, LEFT)]);
    assert_eq!(
        rounds.reaccessed(),
        [(1000, 1), (2000, 1)],
        "lower edges, to 1/128"
    );
}

/// A program whose bits were left set sleeps, and is read again now and then: nothing of it was used again, and a page whose age nobody
/// knew is known from then on.
#[test]
fn a_bit_that_was_set_before_its_process_slept_is_no_further_access() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    rounds.round(&[(mm, 1, 1, YOUNG), (mm, 2, 1, LEFT)]);
    rounds.round(&[(mm, 1, 1, YOUNG), (mm, 2, 1, LEFT)]);
    assert_eq!((rounds.ages(mm), rounds.unknown(mm)), (vec![(0, 1)], 1));
    let told = rounds.reaccessed();
    rounds.round_but(&[mm], &[]);
    rounds.round(&[(mm, 1, 1, SLEPT), (mm, 2, 1, SLEPT)]);
    assert_eq!(rounds.ages(mm), [(2000, 1), (0, 1)]);
    rounds.round(&[(mm, 1, 1, SLEPT), (mm, 2, 1, SLEPT)]);
    assert_eq!(rounds.ages(mm), [(3000, 1), (1000, 1)]);
    assert_eq!(rounds.books.again(mm).count(), 0);
    assert_eq!(rounds.reaccessed(), told);
    rounds.round(&[(mm, 1, 1, YOUNG), (mm, 2, 1, OLD)]);
    assert_eq!(rounds.ages(mm), [(2000, 1), (0, 1)]);
    assert_eq!(
        rounds
            .books
            .again(mm)
            .map(|(_, _, pages)| pages)
            .sum::<u64>(),
        1
    );
}

/// Looks between two intervals leave bits of files: such a page is young until it is cleared, and was used once.
#[test]
fn a_bit_that_was_left_is_no_further_access() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    rounds.round(&[(mm, 1, 1, OLD)]);
    rounds.round(&[(mm, 1, 1, YOUNG)]);
    let told = rounds.reaccessed();
    for _ in 0..3 {
        rounds.round(&[(mm, 1, 1, SPARED)]);
        assert_eq!(rounds.ages(mm), [(0, 1)]);
        assert_eq!(rounds.books.again(mm).count(), 0);
    }
    assert_eq!(rounds.reaccessed(), told);
    rounds.round(&[(mm, 1, 1, OLD)]);
    // Set for the first time at a look that leaves it.
    rounds.round(&[(mm, 1, 1, SPARED)]);
    assert_eq!(rounds.books.again(mm).count(), 1);
}

/// A policy of one tenant goes by what that tenant's processes access.
#[test]
fn what_is_accessed_again_is_told_by_owner_for_one_round() {
    let mut rounds = Rounds::new();
    let (one, two) = (rounds.owner(), rounds.owner());
    rounds.round(&[(one, 1, 1, OLD), (two, 1000, 1, OLD)]);
    rounds.round(&[(one, 1, 1, OLD), (one, 2, 1, OLD), (two, 1000, 1, YOUNG)]);
    rounds.round(&[(one, 1, 1, YOUNG), (one, 2, 1, YOUNG), (two, 1000, 1, OLD)]);
    let again = |rounds: &Rounds, owner| rounds.again(owner);
    assert_eq!(again(&rounds, one), [(1000, 1), (2000, 1)]);
    assert_eq!(again(&rounds, two), []);
    assert_eq!(rounds.books.round_before_ms(), 2000);
    // Whoever owns a frame has its accesses, whoever made them.
    rounds.round(&[(two, 1, 1, YOUNG), (one, 1, 1, OLD), (two, 1000, 1, YOUNG)]);
    assert_eq!(again(&rounds, one), [(3000, 1)]);
    assert_eq!(again(&rounds, two), [(2000, 1)]);
    rounds.round(&[]);
    assert_eq!(again(&rounds, one), []);
}

#[test]
fn a_bit_that_was_left_set_says_nothing_until_it_was_cleared() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    rounds.round(&[(mm, 1, 1, YOUNG)]);
    rounds.round(&[(mm, 1, 1, LEFT)]);
    assert_eq!((rounds.ages(mm), rounds.unknown(mm)), (vec![], 1));
    rounds.round(&[(mm, 1, 1, OLD)]);
    assert_eq!(
        rounds.ages(mm),
        [(1000, 1)],
        "as young as it can be: the round before"
    );
    rounds.round(&[(mm, 1, 1, LEFT)]);
    assert_eq!(
        rounds.ages(mm),
        [(0, 1)],
        "the bit was clear at the last look"
    );
    assert_eq!(rounds.reaccessed(), [(1000, 1)]);
    rounds.round(&[(mm, 1, 1, LEFT)]);
    rounds.round(&[(mm, 1, 1, YOUNG)]);
    assert_eq!(
        rounds.reaccessed(),
        [(1000, 1)],
        "an age that was unknown is none"
    );
}

#[test]
fn hidden_accesses_make_an_age_unknown_unless_the_bit_is_seen() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    let hidden_young = Observation {
        hidden: true,
        ..YOUNG
    };
    rounds.round(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    rounds.round(&[(mm, 1, 1, HIDDEN), (mm, 2, 1, hidden_young)]);
    assert_eq!((rounds.ages(mm), rounds.unknown(mm)), (vec![(0, 1)], 1));
    // Nobody knows when the last hidden access was: it may have been a moment ago.
    rounds.round(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    assert_eq!(
        (rounds.ages(mm), rounds.unknown(mm)),
        (vec![(1000, 1), (0, 1)], 0)
    );
}

#[test]
fn a_kept_owner_keeps_its_frames_for_any_number_of_rounds() {
    let mut rounds = Rounds::new();
    let (asleep, awake) = (rounds.owner(), rounds.owner());
    rounds.round(&[
        (asleep, 1, 1, OLD),
        (asleep, 1000, 1, LEFT),
        (awake, 2, 1, OLD),
    ]);
    for _ in 0..700 {
        rounds.round_but(&[asleep], &[(awake, 2, 1, YOUNG)]);
    }
    assert_eq!((rounds.resident(asleep), rounds.resident(awake)), (2, 1));
    let (age, pages) = rounds.ages(asleep)[0];
    assert!(
        pages == 2 && age <= 700_000 && age * 33 / 32 >= 700_000,
        "{age}"
    );
    rounds.round(&[(asleep, 1, 1, YOUNG), (awake, 2, 1, OLD)]);
    assert_eq!((rounds.resident(asleep), rounds.resident(awake)), (1, 1));
    assert_eq!(rounds.reaccessed().len(), 2);
}

#[test]
fn an_owner_that_neither_maps_anything_nor_sleeps_has_nothing() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    rounds.round(&[(mm, 1, 1, OLD), (mm, 4096, 512, OLD)]);
    let some = rounds.books.memory_bytes();
    rounds.round(&[]);
    assert_eq!((rounds.resident(mm), rounds.books.pages()), (0, 0));
    assert!(
        rounds.books.memory_bytes() + 4_000 < some,
        "what is empty is given back"
    );
}

#[test]
fn the_class_is_what_the_owner_saw_last() {
    let mut rounds = Rounds::new();
    let (mm, other) = (rounds.owner(), rounds.owner());
    rounds.round(&[(mm, 1, 1, OLD)]);
    rounds.books.begin_round(2000);
    rounds.books.see(other, FILE, 1, 1, OLD);
    rounds.books.see(mm, FILE, 1, 1, OLD);
    rounds.books.end_round();
    assert_eq!(
        (rounds.resident(mm), rounds.books.resident(mm, FILE)),
        (0, 1)
    );
    assert_eq!(rounds.books.ages(mm).collect::<Vec<_>>(), [(FILE, 1000, 1)]);
}

#[test]
fn rounds_beyond_65536_change_nothing() {
    let mut rounds = Rounds::new();
    let mm = rounds.owner();
    rounds.round(&[(mm, 1, 1, OLD)]);
    for _ in 0..70_000 {
        rounds.round(&[(mm, 1, 1, OLD), (mm, 2, 1, YOUNG)]);
    }
    let ages = rounds.ages(mm);
    assert_eq!(ages[1..], [(0, 1)]);
    assert!(ages[0].0 <= 70_000_000 && ages[0].0 * 33 / 32 >= 70_000_000);
    assert_eq!(rounds.reaccessed(), [(0, 69_999)]);
}

/// Regression: what a second report took over from a first one counted as used, and the number named for the program was nearly all of
/// its memory. A page that becomes known was not accessed by that.
#[test]
fn becoming_known_is_not_an_access() {
    let mut rounds = Rounds::new();
    let (mm, other) = (rounds.owner(), rounds.owner());
    let seen = |rounds: &Rounds, owner| -> (u64, u64) {
        let count = |is_seen: bool| {
            let seen = rounds.books.seen(owner);
            let some = seen.filter(|(_, last, _)| last.is_some() == is_seen);
            some.map(|(_, _, pages)| pages).sum()
        };
        (count(true), count(false))
    };
    let again = |rounds: &Rounds, owner| -> (u64, u64) {
        let again = rounds.books.seen_again(owner);
        again.fold((0, 0), |sum, (_, _, seen, first)| {
            (sum.0 + seen, sum.1 + first)
        })
    };
    // At the first reading bits are set from any time before.
    rounds.round(&[(mm, 1, 1, LEFT), (mm, 2, 1, LEFT), (mm, 3, 1, HIDDEN)]);
    assert_eq!(seen(&rounds, mm), (0, 2));
    // One is accessed, one is not, and one becomes known.
    rounds.round(&[(mm, 1, 1, YOUNG), (mm, 2, 1, OLD), (mm, 3, 1, OLD)]);
    assert_eq!((seen(&rounds, mm), again(&rounds, mm)), ((1, 2), (0, 1)));
    assert_eq!(rounds.unknown(mm), 0);
    // Both others are accessed for the first time that is seen; a fresh page is new, and one that another hand brought is not used.
    rounds.round(&[
        (mm, 1, 1, YOUNG),
        (mm, 2, 1, YOUNG),
        (mm, 3, 1, YOUNG),
        (mm, 4, 1, YOUNG),
        (mm, 5, 1, OLD),
    ]);
    assert_eq!((seen(&rounds, mm), again(&rounds, mm)), ((4, 1), (1, 2)));
    // A huge leaf that the kernel made of small ones looks accessed; its next access is one.
    rounds.round(&[(mm, 512, 512, YOUNG)]);
    assert_eq!(seen(&rounds, mm), (0, 512));
    rounds.round(&[(mm, 512, 512, YOUNG)]);
    assert_eq!(
        (seen(&rounds, mm), again(&rounds, mm)),
        ((512, 0), (0, 512))
    );
    // Split, its parts are as old as the whole.
    let parts: Vec<_> = (512..1024).map(|frame| (mm, frame, 1, OLD)).collect();
    rounds.round(&parts);
    assert_eq!((seen(&rounds, mm), again(&rounds, mm)), ((512, 0), (0, 0)));
    // Another process takes over frames of one that ended.
    rounds.books.remove_owner(mm);
    rounds.round(&[(other, 512, 1, LEFT)]);
    assert_eq!(
        (seen(&rounds, other), again(&rounds, other)),
        ((0, 1), (0, 0))
    );
    rounds.round(&[(other, 512, 1, YOUNG)]);
    assert_eq!(
        (seen(&rounds, other), again(&rounds, other)),
        ((1, 0), (0, 1))
    );
}
