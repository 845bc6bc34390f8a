//! Frames with several mappings: how old they are, and whose.

use super::{ANON, HIDDEN, LEFT, OLD, Rounds, YOUNG};
use crate::books::{Books, Owner};

/// Three rounds of a shared frame: the first old, then `looks` in one round. Known ages, unknown.
fn after(looks: [super::Observation; 2]) -> (Vec<(u64, u64)>, u64) {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    rounds.round(&[(a, 1, 1, OLD), (b, 1, 1, OLD)]);
    rounds.round(&[(a, 1, 1, OLD), (b, 1, 1, YOUNG)]);
    rounds.round(&[(a, 1, 1, looks[0]), (b, 1, 1, looks[1])]);
    assert_eq!(
        (rounds.resident(a), rounds.resident(b)),
        (1, 0),
        "a frame counts once"
    );
    (rounds.ages(a), rounds.unknown(a))
}

#[test]
fn young_wins_over_unknown_wins_over_old_in_any_order() {
    let (young, unknown, old) = ((vec![(0, 1)], 0), (vec![], 1), (vec![(1000, 1)], 0));
    for (looks, expected) in [
        ([OLD, OLD], &old),
        ([OLD, YOUNG], &young),
        ([OLD, HIDDEN], &unknown),
        ([OLD, LEFT], &unknown),
        ([HIDDEN, YOUNG], &young),
        ([LEFT, YOUNG], &young),
        ([LEFT, HIDDEN], &unknown),
    ] {
        assert_eq!(&after(looks), expected, "{looks:?}");
        assert_eq!(
            &after([looks[1], looks[0]]),
            expected,
            "{looks:?}, the other way round"
        );
    }
}

#[test]
fn a_shared_frame_that_is_accessed_by_all_is_reaccessed_once() {
    let mut rounds = Rounds::new();
    let owners = [rounds.owner(), rounds.owner(), rounds.owner()];
    for _ in 0..2 {
        rounds.round(&owners.map(|owner| (owner, 1, 1, YOUNG)));
    }
    assert_eq!(rounds.reaccessed(), [(0, 1)]);
}

#[test]
fn what_is_accessed_again_is_its_owners_until_the_next_round() {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    rounds.round(&[(a, 1, 1, YOUNG), (b, 1, 1, OLD), (b, 512, 512, YOUNG)]);
    rounds.round(&[
        (a, 1, 1, OLD),
        (b, 1, 1, OLD),
        (b, 512, 512, OLD),
        (a, 2, 1, YOUNG),
    ]);
    let again = |rounds: &Rounds, owner| rounds.again(owner);
    assert!(
        again(&rounds, a).is_empty(),
        "what is fresh was not there before"
    );
    // The shared frame through the mapping of who does not own it.
    rounds.round(&[
        (a, 1, 1, OLD),
        (b, 1, 1, YOUNG),
        (b, 512, 512, YOUNG),
        (a, 2, 1, YOUNG),
    ]);
    assert_eq!(again(&rounds, a), [(1000, 1), (2000, 1)]);
    assert_eq!(again(&rounds, b), [(1000, 512)]);
    rounds.round_but(&[a, b], &[]);
    assert!(again(&rounds, a).is_empty() && again(&rounds, b).is_empty());
}

#[test]
fn who_no_longer_maps_a_frame_loses_it_to_who_does() {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    rounds.round(&[(b, 1, 1, OLD), (a, 1, 1, OLD), (a, 2, 1, OLD)]);
    assert_eq!(
        (rounds.resident(a), rounds.resident(b)),
        (1, 1),
        "the first to see it owns it"
    );
    // Read after a: known at once. Read before it: known one round later.
    rounds.round(&[(b, 2, 1, OLD), (a, 1, 1, OLD), (a, 2, 1, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(b)), (2, 0));
    rounds.round(&[(b, 1, 1, OLD), (b, 2, 1, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(b)), (2, 0));
    rounds.round(&[(b, 1, 1, OLD), (b, 2, 1, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(b)), (0, 2));
    assert_eq!(rounds.ages(b), [(3000, 2)], "the age stays");
}

/// (The story: what a program had from its parent, 64 MiB, was forgotten for as long as it slept when its parent ended.)
#[test]
fn what_a_sleeper_has_from_one_that_ends_becomes_its_own() {
    for in_round in [false, true] {
        let mut rounds = Rounds::new();
        let (parent, child, other) = (rounds.owner(), rounds.owner(), rounds.owner());
        rounds.round(&[(parent, 1, 1, OLD), (parent, 2, 1, OLD), (child, 1, 1, OLD)]);
        rounds.round_but(&[parent, child, other], &[]);
        assert!(![parent, child].iter().any(|one| rounds.books.is_due(*one)));
        if in_round {
            rounds.books.begin_round(3000);
            for one in [child, other] {
                rounds.books.skip(one);
            }
            rounds.books.remove_owner(parent);
            rounds.books.end_round();
        } else {
            rounds.books.remove_owner(parent);
        }
        assert!(rounds.books.is_due(child), "it is read at once");
        assert!(
            !rounds.books.is_due(other),
            "nothing of it was the parent's"
        );
        rounds.round_but(&[other], &[(child, 1, 1, OLD)]);
        assert_eq!((rounds.resident(child), rounds.books.pages()), (1, 1));
        assert_eq!(rounds.ages(child).len(), 1);
        assert!(rounds.ages(child)[0].0 >= 2000, "the age stays");
        assert!(!rounds.books.is_due(child));
        rounds.round_but(&[child, other], &[]);
        assert_eq!((rounds.resident(child), rounds.books.pages()), (1, 1));
    }
}

/// What a program has of its parent stays as old as it is when the parent writes it and so gets another frame for it.
#[test]
fn what_an_owner_lets_go_of_waits_for_who_sleeps() {
    let mut rounds = Rounds::new();
    let (parent, child) = (rounds.owner(), rounds.owner());
    rounds.round(&[(parent, 1, 1, OLD), (parent, 2, 1, OLD), (child, 1, 1, OLD)]);
    rounds.round_but(&[child], &[(parent, 3, 1, YOUNG)]);
    // Frame 2 was the parent's alone.
    assert_eq!(rounds.books.pages(), 2);
    assert!(rounds.books.is_due(child) && !rounds.books.is_due(parent));
    rounds.round(&[(parent, 3, 1, OLD), (child, 1, 1, OLD)]);
    assert_eq!(rounds.ages(child), [(2000, 1)]);
    rounds.round_but(&[child, parent], &[]);
    assert_eq!((rounds.resident(parent), rounds.resident(child)), (1, 1));
    assert!(!rounds.books.is_due(child));
    // Nobody maps it any more: it does not wait for those who are awake.
    rounds.round(&[(parent, 3, 1, OLD)]);
    assert_eq!(rounds.books.pages(), 1);
}

/// (The story: frames that had been one tenant's, left for swap and came to another's were told to be the first one's for as long as
/// both slept, 1.6 of 6.4 MB: the second one had been read before the first.)
#[test]
fn a_frame_that_goes_to_one_that_was_read_before_becomes_its_own() {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    rounds.round(&[(b, 1, 1, OLD), (b, 2, 1, OLD), (a, 65, 1, OLD)]);
    rounds.round(&[(a, 65, 1, OLD), (a, 1, 1, YOUNG), (b, 2, 1, OLD)]);
    assert!(rounds.books.is_due(a) && !rounds.books.is_due(b));
    rounds.round_but(&[b], &[(a, 65, 1, OLD), (a, 1, 1, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(b)), (2, 1));
    rounds.round_but(&[a, b], &[]);
    assert!(![a, b].iter().any(|one| rounds.books.is_due(*one)));
}

/// Whoever maps 512 frames as one page, while another, who sleeps, maps them one by one: they do not become the first one's alone.
#[test]
fn what_is_joined_while_its_owner_sleeps_is_told_of_both() {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    let parts = |of| (512..1024).map(move |frame| (of, frame, 1, OLD));
    rounds.round(&parts(a).collect::<Vec<_>>());
    rounds.round_but(&[a], &[(b, 512, 512, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(b)), (0, 512));
    assert!(rounds.books.is_due(a));
    // It reads, and sees that they are the other's.
    let all: Vec<_> = parts(a).chain([(b, 512, 512, OLD)]).collect();
    rounds.round(&all);
    rounds.round_but(&[a, b], &[]);
    assert!(![a, b].iter().any(|one| rounds.books.is_due(*one)));
    rounds.books.remove_owner(b);
    assert!(rounds.books.is_due(a));
    rounds.round(&parts(a).collect::<Vec<_>>());
    assert_eq!((rounds.resident(a), rounds.books.pages()), (512, 512));
}

/// Two of those who have frames of one are read for what it has lost; if they do not have it, all.
#[test]
fn what_few_have_is_found_all_the_same() {
    let mut rounds = Rounds::new();
    let parent = rounds.owner();
    let children = [rounds.owner(), rounds.owner(), rounds.owner()];
    let mut looks = vec![(parent, 1, 1, OLD), (parent, 2, 1, OLD)];
    looks.extend(children.map(|one| (one, 1, 1, OLD)));
    looks.push((children[0], 2, 1, OLD));
    rounds.round(&looks);
    let due = |rounds: &Rounds| children.map(|one| rounds.books.is_due(one));
    rounds.round_but(&children, &[(parent, 1, 1, OLD)]);
    assert_eq!(due(&rounds), [false, true, true]);
    let looks = [
        (parent, 1, 1, OLD),
        (children[1], 1, 1, OLD),
        (children[2], 1, 1, OLD),
    ];
    rounds.round_but(&children[..1], &looks);
    assert_eq!(due(&rounds), [true, false, false]);
    let looks = [
        (parent, 1, 1, OLD),
        (children[0], 1, 1, OLD),
        (children[0], 2, 1, OLD),
    ];
    rounds.round_but(&children[1..], &looks);
    assert_eq!(due(&rounds), [false; 3]);
    assert_eq!(
        (rounds.resident(children[0]), rounds.ages(children[0])),
        (1, vec![(3000, 1)])
    );
    // Nobody has it any more: it waits for two looks.
    rounds.round_but(
        &children[1..],
        &[(parent, 1, 1, OLD), (children[0], 1, 1, OLD)],
    );
    assert_eq!(rounds.books.pages(), 1);
}

/// Many sleep beside one that is busy: what it frees of its own, what it takes from others, and huge pages that one of them has split
/// have nobody read.
#[test]
fn sleepers_are_read_for_what_they_may_map_alone() {
    let mut rounds = Rounds::new();
    let (busy, other) = (rounds.owner(), rounds.owner());
    let sleepers = [rounds.owner(), rounds.owner(), rounds.owner()];
    let whole = |of| (of, 512, 512, OLD);
    let mut looks = vec![whole(busy), (busy, 1, 1, OLD), (busy, 2, 1, OLD)];
    looks.extend([(other, 3, 1, OLD)]);
    looks.extend(sleepers.map(|one| (one, 1, 1, OLD)));
    looks.extend((512..1024).map(|frame| (sleepers[0], frame, 1, OLD)));
    rounds.round(&looks);
    // Frame 2 is gone, 3 is another's now.
    for _ in 0..4 {
        let looks = [(busy, 3, 1, OLD), (busy, 1, 1, OLD), whole(busy)];
        rounds.round_but(&sleepers, &[&looks[..], &[(other, 4, 1, OLD)]].concat());
        assert!(!sleepers.iter().any(|one| rounds.books.is_due(*one)));
    }
}

/// One that was read because it was due sees a frame early that its owner has given back: it is due once more, and has it then.
#[test]
fn who_is_read_again_and_sees_a_frame_early_has_it_in_the_end() {
    let mut rounds = Rounds::new();
    let (a, parent) = (rounds.owner(), rounds.owner());
    rounds.round(&[
        (parent, 1, 1, OLD),
        (parent, 2, 1, OLD),
        (parent, 70, 1, OLD),
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
    ]);
    rounds.round_but(&[a], &[(parent, 2, 1, OLD), (parent, 70, 1, OLD)]);
    assert!(rounds.books.is_due(a), "for frame 1");
    rounds.round(&[
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
        (a, 70, 1, YOUNG),
        (parent, 2, 1, OLD),
    ]);
    assert!(rounds.books.is_due(a), "for frame 70");
    rounds.round(&[
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
        (a, 70, 1, OLD),
        (parent, 2, 1, OLD),
    ]);
    assert!(!rounds.books.is_due(a));
    rounds.round_but(&[a], &[(parent, 2, 1, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(parent)), (2, 1));
}

/// What is private of one goes to another at each look, and is seen early there: those who sleep and have other frames of both are not
/// read for it, but for the first time.
#[test]
fn frames_that_wander_have_nobody_read() {
    let mut rounds = Rounds::new();
    let (other, busy) = (rounds.owner(), rounds.owner());
    let sleepers = [rounds.owner(), rounds.owner(), rounds.owner()];
    let mut looks = vec![(busy, 1, 1, OLD), (other, 2, 1, OLD)];
    for one in sleepers {
        looks.extend([(one, 1, 1, OLD), (one, 2, 1, OLD)]);
    }
    rounds.round(&looks);
    for frame in 10..30 {
        let looks = [
            (other, frame, 1, YOUNG),
            (other, 2, 1, OLD),
            (busy, 1, 1, OLD),
            (busy, frame + 1, 1, YOUNG),
        ];
        rounds.round_but(&sleepers, &looks);
        assert!(
            !sleepers.iter().any(|one| rounds.books.is_due(*one)),
            "{frame}"
        );
    }
}

#[test]
fn a_sleeper_stays_the_owner() {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    rounds.round(&[(a, 1, 1, OLD), (b, 1, 1, OLD)]);
    for _ in 0..300 {
        rounds.round_but(&[a], &[(b, 1, 1, YOUNG)]);
        assert_eq!((rounds.resident(a), rounds.resident(b)), (1, 0));
    }
    rounds.round(&[(b, 1, 1, OLD)]);
    rounds.round(&[(b, 1, 1, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(b)), (0, 1));
}

#[test]
fn the_frames_of_a_removed_owner_go_unless_others_see_them() {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    rounds.round(&[
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
        (a, 512, 512, OLD),
        (b, 1, 1, OLD),
    ]);
    rounds.books.remove_owner(a);
    assert_ne!(
        rounds.books.add_owner(),
        Some(a),
        "its number is still in use"
    );
    rounds.round(&[(b, 1, 1, OLD)]);
    assert_eq!(
        (rounds.resident(a), rounds.resident(b), rounds.books.pages()),
        (0, 1, 1)
    );
    assert_eq!(rounds.ages(b), [(1000, 1)]);
    assert_eq!(rounds.books.add_owner(), Some(a), "its number is free");
}

#[test]
fn an_owner_removed_within_a_round_has_what_it_saw_until_the_next() {
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.owner(), rounds.owner());
    rounds.books.begin_round(1000);
    rounds.books.see(a, ANON, 1, 1, OLD);
    rounds.books.see(a, ANON, 2, 1, OLD);
    rounds.books.remove_owner(a);
    rounds.books.see(b, ANON, 2, 1, OLD);
    rounds.books.end_round();
    assert_eq!((rounds.resident(a), rounds.resident(b)), (1, 1));
    rounds.round(&[(b, 2, 1, OLD)]);
    assert_eq!((rounds.resident(a), rounds.resident(b)), (0, 1));
}

#[test]
fn there_are_65536_owners() {
    let mut rounds = Rounds::new();
    rounds.round(&[]);
    let owners: Vec<Owner> = (0..65_536).map(|_| rounds.owner()).collect();
    assert!(
        owners
            .iter()
            .enumerate()
            .all(|(at, owner)| owner.index() == at)
    );
    assert_eq!(rounds.books.add_owner(), None);
}

/// Regression: what a tenant that is not scanned has let go of was told to be its own for as long as that lasted, and
/// the tenant that has it now seemed to have less.
#[test]
fn what_a_postponed_owner_had_is_of_whoever_sees_it() {
    let mut books = Books::new(0);
    let (late, other) = (
        books.add_owner().expect("one"),
        books.add_owner().expect("two"),
    );
    books.begin_round(1000);
    books.see(late, ANON, 5, 1, YOUNG);
    books.see(late, ANON, 6, 1, YOUNG);
    books.skip(other);
    books.end_round();
    for round in 2..5 {
        books.begin_round(round * 1000);
        books.postpone(late);
        books.see(other, ANON, 5, 1, YOUNG);
        books.end_round();
        assert_eq!(
            (books.resident(late, ANON), books.resident(other, ANON)),
            (1, 1)
        );
        assert_eq!(books.look_up(5), Some((other, Some(round * 1000))));
        assert_eq!(books.look_up(6), Some((late, Some(1000))));
    }
    // It has one of them still, and another one.
    books.begin_round(5000);
    books.see(other, ANON, 5, 1, OLD);
    books.see(late, ANON, 7, 1, YOUNG);
    books.see(late, ANON, 6, 1, OLD);
    books.end_round();
    assert_eq!(
        (books.resident(late, ANON), books.resident(other, ANON)),
        (2, 1)
    );
    assert_eq!(books.look_up(6), Some((late, Some(1000))));
}
