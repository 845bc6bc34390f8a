//! Tests of frames with several mappings: their ages, and their owners.

use super::{ANON, HIDDEN, LEFT, OLD, Scans, YOUNG};
use crate::age_table::{AgeTable, Owner};

/// Does three scans of a frame with two mappings. `observations`: those of both mappings in the
/// last scan. Returns the known ages with their numbers of pages, then the number of pages of
/// unknown age.
fn after(observations: [super::Observation; 2]) -> (Vec<(u64, u64)>, u64) {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    scans.scan(&[(a, 1, 1, OLD), (b, 1, 1, OLD)]);
    scans.scan(&[(a, 1, 1, OLD), (b, 1, 1, YOUNG)]);
    scans.scan(&[(a, 1, 1, observations[0]), (b, 1, 1, observations[1])]);
    assert_eq!(
        (scans.resident(a), scans.resident(b)),
        (1, 0),
        "a frame counts once"
    );
    (scans.ages(a), scans.unknown(a))
}

#[test]
fn young_wins_over_unknown_wins_over_old_in_any_order() {
    let (young, unknown, old) = ((vec![(0, 1)], 0), (vec![], 1), (vec![(1000, 1)], 0));
    for (observations, expected) in [
        ([OLD, OLD], &old),
        ([OLD, YOUNG], &young),
        ([OLD, HIDDEN], &unknown),
        ([OLD, LEFT], &unknown),
        ([HIDDEN, YOUNG], &young),
        ([LEFT, YOUNG], &young),
        ([LEFT, HIDDEN], &unknown),
    ] {
        assert_eq!(&after(observations), expected, "{observations:?}");
        assert_eq!(
            &after([observations[1], observations[0]]),
            expected,
            "{observations:?}, the other way round"
        );
    }
}

#[test]
fn a_shared_frame_that_is_accessed_by_all_is_reaccessed_once() {
    let mut scans = Scans::new();
    let owners = [scans.owner(), scans.owner(), scans.owner()];
    for _ in 0..2 {
        scans.scan(&owners.map(|owner| (owner, 1, 1, YOUNG)));
    }
    assert_eq!(scans.reaccessed(), [(0, 1)]);
}

#[test]
fn repeated_accesses_count_to_the_owner_until_the_next_scan() {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    scans.scan(&[(a, 1, 1, YOUNG), (b, 1, 1, OLD), (b, 512, 512, YOUNG)]);
    scans.scan(&[
        (a, 1, 1, OLD),
        (b, 1, 1, OLD),
        (b, 512, 512, OLD),
        (a, 2, 1, YOUNG),
    ]);
    let again = |scans: &Scans, owner| scans.again(owner);
    assert!(
        again(&scans, a).is_empty(),
        "what is fresh was not there before"
    );
    // The shared frame is accessed through a mapping of an address space that is not its owner.
    scans.scan(&[
        (a, 1, 1, OLD),
        (b, 1, 1, YOUNG),
        (b, 512, 512, YOUNG),
        (a, 2, 1, YOUNG),
    ]);
    assert_eq!(again(&scans, a), [(1000, 1), (2000, 1)]);
    assert_eq!(again(&scans, b), [(1000, 512)]);
    scans.scan_but(&[a, b], &[]);
    assert!(again(&scans, a).is_empty() && again(&scans, b).is_empty());
}

#[test]
fn an_owner_that_unmaps_a_frame_loses_it_to_one_that_maps_it() {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    scans.scan(&[(b, 1, 1, OLD), (a, 1, 1, OLD), (a, 2, 1, OLD)]);
    assert_eq!(
        (scans.resident(a), scans.resident(b)),
        (1, 1),
        "the first to see it owns it"
    );
    // If b is walked after a, the change of owner is known at once; if before a, one scan later.
    scans.scan(&[(b, 2, 1, OLD), (a, 1, 1, OLD), (a, 2, 1, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(b)), (2, 0));
    scans.scan(&[(b, 1, 1, OLD), (b, 2, 1, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(b)), (2, 0));
    scans.scan(&[(b, 1, 1, OLD), (b, 2, 1, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(b)), (0, 2));
    assert_eq!(scans.ages(b), [(3000, 2)], "the age stays");
}

/// Regression: a program had inherited 64 MiB from its parent. When the parent ended while the
/// program was idle, the ages of these pages were forgotten.
#[test]
fn an_idle_child_inherits_frames_of_a_parent_that_ends() {
    for in_round in [false, true] {
        let mut scans = Scans::new();
        let (parent, child, other) = (scans.owner(), scans.owner(), scans.owner());
        scans.scan(&[(parent, 1, 1, OLD), (parent, 2, 1, OLD), (child, 1, 1, OLD)]);
        scans.scan_but(&[parent, child, other], &[]);
        assert!(
            ![parent, child]
                .iter()
                .any(|one| scans.age_table.is_due(*one))
        );
        if in_round {
            scans.age_table.begin_scan(3000);
            for one in [child, other] {
                scans.age_table.skip(one);
            }
            scans.age_table.remove_owner(parent);
            scans.age_table.end_scan();
        } else {
            scans.age_table.remove_owner(parent);
        }
        assert!(scans.age_table.is_due(child), "it is read at once");
        assert!(
            !scans.age_table.is_due(other),
            "nothing of it was the parent's"
        );
        scans.scan_but(&[other], &[(child, 1, 1, OLD)]);
        assert_eq!((scans.resident(child), scans.age_table.pages()), (1, 1));
        assert_eq!(scans.ages(child).len(), 1);
        assert!(scans.ages(child)[0].0 >= 2000, "the age stays");
        assert!(!scans.age_table.is_due(child));
        scans.scan_but(&[child, other], &[]);
        assert_eq!((scans.resident(child), scans.age_table.pages()), (1, 1));
    }
}

/// If a parent writes a page that it shares with its child, the parent gets another frame. The
/// child's page keeps its age.
#[test]
fn a_freed_shared_frame_waits_for_idle_owners() {
    let mut scans = Scans::new();
    let (parent, child) = (scans.owner(), scans.owner());
    scans.scan(&[(parent, 1, 1, OLD), (parent, 2, 1, OLD), (child, 1, 1, OLD)]);
    scans.scan_but(&[child], &[(parent, 3, 1, YOUNG)]);
    // Only the parent mapped frame 2.
    assert_eq!(scans.age_table.pages(), 2);
    assert!(scans.age_table.is_due(child) && !scans.age_table.is_due(parent));
    scans.scan(&[(parent, 3, 1, OLD), (child, 1, 1, OLD)]);
    assert_eq!(scans.ages(child), [(2000, 1)]);
    scans.scan_but(&[child, parent], &[]);
    assert_eq!((scans.resident(parent), scans.resident(child)), (1, 1));
    assert!(!scans.age_table.is_due(child));
    // No process maps the frame any more: it does not wait for owners that are not skipped.
    scans.scan(&[(parent, 3, 1, OLD)]);
    assert_eq!(scans.age_table.pages(), 1);
}

/// Regression: frames of one tenant were swapped out, and then swapped in by another tenant. As the
/// second tenant had been walked before the first, 1.6 of 6.4 MB counted to the first tenant as
/// long as both were idle.
#[test]
fn a_frame_that_moves_to_an_owner_walked_before_becomes_its_own() {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    scans.scan(&[(b, 1, 1, OLD), (b, 2, 1, OLD), (a, 65, 1, OLD)]);
    scans.scan(&[(a, 65, 1, OLD), (a, 1, 1, YOUNG), (b, 2, 1, OLD)]);
    assert!(scans.age_table.is_due(a) && !scans.age_table.is_due(b));
    scans.scan_but(&[b], &[(a, 65, 1, OLD), (a, 1, 1, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(b)), (2, 1));
    scans.scan_but(&[a, b], &[]);
    assert!(![a, b].iter().any(|one| scans.age_table.is_due(*one)));
}

/// If one process maps 512 frames as a huge page, and an idle process maps the same frames as small
/// pages, the frames stay shared.
#[test]
fn a_leaf_joined_while_its_owner_is_idle_stays_shared() {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    let parts = |of| (512..1024).map(move |frame| (of, frame, 1, OLD));
    scans.scan(&parts(a).collect::<Vec<_>>());
    scans.scan_but(&[a], &[(b, 512, 512, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(b)), (0, 512));
    assert!(scans.age_table.is_due(a));
    // The idle process is walked: its frames now belong to the other process.
    let all: Vec<_> = parts(a).chain([(b, 512, 512, OLD)]).collect();
    scans.scan(&all);
    scans.scan_but(&[a, b], &[]);
    assert!(![a, b].iter().any(|one| scans.age_table.is_due(*one)));
    scans.age_table.remove_owner(b);
    assert!(scans.age_table.is_due(a));
    scans.scan(&parts(a).collect::<Vec<_>>());
    assert_eq!((scans.resident(a), scans.age_table.pages()), (512, 512));
}

/// If an owner loses a shared frame, two of its sharers are walked. If they do not map the frame,
/// all sharers are walked.
#[test]
fn a_frame_with_few_sharers_is_found() {
    let mut scans = Scans::new();
    let parent = scans.owner();
    let children = [scans.owner(), scans.owner(), scans.owner()];
    let mut observations = vec![(parent, 1, 1, OLD), (parent, 2, 1, OLD)];
    observations.extend(children.map(|one| (one, 1, 1, OLD)));
    observations.push((children[0], 2, 1, OLD));
    scans.scan(&observations);
    let due = |scans: &Scans| children.map(|one| scans.age_table.is_due(one));
    scans.scan_but(&children, &[(parent, 1, 1, OLD)]);
    assert_eq!(due(&scans), [false, true, true]);
    let observations = [
        (parent, 1, 1, OLD),
        (children[1], 1, 1, OLD),
        (children[2], 1, 1, OLD),
    ];
    scans.scan_but(&children[..1], &observations);
    assert_eq!(due(&scans), [true, false, false]);
    let observations = [
        (parent, 1, 1, OLD),
        (children[0], 1, 1, OLD),
        (children[0], 2, 1, OLD),
    ];
    scans.scan_but(&children[1..], &observations);
    assert_eq!(due(&scans), [false; 3]);
    assert_eq!(
        (scans.resident(children[0]), scans.ages(children[0])),
        (1, vec![(3000, 1)])
    );
    // No process maps the frame any more, so it is dropped.
    scans.scan_but(
        &children[1..],
        &[(parent, 1, 1, OLD), (children[0], 1, 1, OLD)],
    );
    assert_eq!(scans.age_table.pages(), 1);
}

/// Idle processes are not walked because a busy process frees frames of its own or gets frames from
/// others, nor because an idle process has split a huge page.
#[test]
fn idle_owners_are_walked_only_for_frames_that_they_may_map() {
    let mut scans = Scans::new();
    let (busy, other) = (scans.owner(), scans.owner());
    let idle_owners = [scans.owner(), scans.owner(), scans.owner()];
    let whole = |of| (of, 512, 512, OLD);
    let mut observations = vec![whole(busy), (busy, 1, 1, OLD), (busy, 2, 1, OLD)];
    observations.extend([(other, 3, 1, OLD)]);
    observations.extend(idle_owners.map(|one| (one, 1, 1, OLD)));
    observations.extend((512..1024).map(|frame| (idle_owners[0], frame, 1, OLD)));
    scans.scan(&observations);
    // Frame 2 is freed; frame 3 belongs to another process now.
    for _ in 0..4 {
        let observations = [(busy, 3, 1, OLD), (busy, 1, 1, OLD), whole(busy)];
        scans.scan_but(
            &idle_owners,
            &[&observations[..], &[(other, 4, 1, OLD)]].concat(),
        );
        assert!(!idle_owners.iter().any(|one| scans.age_table.is_due(*one)));
    }
}

/// A pending process is walked before the owner of a frame that the owner has freed. The process
/// becomes pending once more, and then owns the frame.
#[test]
fn an_owner_that_sees_a_freed_frame_early_gets_it() {
    let mut scans = Scans::new();
    let (a, parent) = (scans.owner(), scans.owner());
    scans.scan(&[
        (parent, 1, 1, OLD),
        (parent, 2, 1, OLD),
        (parent, 70, 1, OLD),
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
    ]);
    scans.scan_but(&[a], &[(parent, 2, 1, OLD), (parent, 70, 1, OLD)]);
    assert!(scans.age_table.is_due(a), "for frame 1");
    scans.scan(&[
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
        (a, 70, 1, YOUNG),
        (parent, 2, 1, OLD),
    ]);
    assert!(scans.age_table.is_due(a), "for frame 70");
    scans.scan(&[
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
        (a, 70, 1, OLD),
        (parent, 2, 1, OLD),
    ]);
    assert!(!scans.age_table.is_due(a));
    scans.scan_but(&[a], &[(parent, 2, 1, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(parent)), (2, 1));
}

/// Private frames of one process move to another in each scan, which walks the new process first.
/// Idle processes that share other frames with both are not walked for that.
#[test]
fn frames_that_move_at_each_scan_cause_no_walks() {
    let mut scans = Scans::new();
    let (other, busy) = (scans.owner(), scans.owner());
    let idle_owners = [scans.owner(), scans.owner(), scans.owner()];
    let mut observations = vec![(busy, 1, 1, OLD), (other, 2, 1, OLD)];
    for one in idle_owners {
        observations.extend([(one, 1, 1, OLD), (one, 2, 1, OLD)]);
    }
    scans.scan(&observations);
    for frame in 10..30 {
        let observations = [
            (other, frame, 1, YOUNG),
            (other, 2, 1, OLD),
            (busy, 1, 1, OLD),
            (busy, frame + 1, 1, YOUNG),
        ];
        scans.scan_but(&idle_owners, &observations);
        assert!(
            !idle_owners.iter().any(|one| scans.age_table.is_due(*one)),
            "{frame}"
        );
    }
}

#[test]
fn an_idle_owner_keeps_its_frames() {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    scans.scan(&[(a, 1, 1, OLD), (b, 1, 1, OLD)]);
    for _ in 0..300 {
        scans.scan_but(&[a], &[(b, 1, 1, YOUNG)]);
        assert_eq!((scans.resident(a), scans.resident(b)), (1, 0));
    }
    scans.scan(&[(b, 1, 1, OLD)]);
    scans.scan(&[(b, 1, 1, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(b)), (0, 1));
}

#[test]
fn the_frames_of_a_removed_owner_go_unless_others_see_them() {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    scans.scan(&[
        (a, 1, 1, OLD),
        (a, 2, 1, OLD),
        (a, 512, 512, OLD),
        (b, 1, 1, OLD),
    ]);
    scans.age_table.remove_owner(a);
    assert_ne!(
        scans.age_table.add_owner(),
        Some(a),
        "its number is still in use"
    );
    scans.scan(&[(b, 1, 1, OLD)]);
    assert_eq!(
        (
            scans.resident(a),
            scans.resident(b),
            scans.age_table.pages()
        ),
        (0, 1, 1)
    );
    assert_eq!(scans.ages(b), [(1000, 1)]);
    assert_eq!(scans.age_table.add_owner(), Some(a), "its number is free");
}

#[test]
fn an_owner_removed_within_a_scan_keeps_its_frames_until_the_next() {
    let mut scans = Scans::new();
    let (a, b) = (scans.owner(), scans.owner());
    scans.age_table.begin_scan(1000);
    scans.age_table.see(a, ANON, 1, 1, OLD);
    scans.age_table.see(a, ANON, 2, 1, OLD);
    scans.age_table.remove_owner(a);
    scans.age_table.see(b, ANON, 2, 1, OLD);
    scans.age_table.end_scan();
    assert_eq!((scans.resident(a), scans.resident(b)), (1, 1));
    scans.scan(&[(b, 2, 1, OLD)]);
    assert_eq!((scans.resident(a), scans.resident(b)), (0, 1));
}

#[test]
fn there_are_65536_owners() {
    let mut scans = Scans::new();
    scans.scan(&[]);
    let owners: Vec<Owner> = (0..65_536).map(|_| scans.owner()).collect();
    assert!(
        owners
            .iter()
            .enumerate()
            .all(|(at, owner)| owner.index() == at)
    );
    assert_eq!(scans.age_table.add_owner(), None);
}

/// Regression: frames that a postponed tenant had freed were counted to that tenant as long as it
/// was postponed, and not to the tenant that mapped them now.
#[test]
fn frames_of_a_postponed_owner_belong_to_the_owner_that_sees_them() {
    let mut age_table = AgeTable::new(0);
    let (late, other) = (
        age_table.add_owner().expect("one"),
        age_table.add_owner().expect("two"),
    );
    age_table.begin_scan(1000);
    age_table.see(late, ANON, 5, 1, YOUNG);
    age_table.see(late, ANON, 6, 1, YOUNG);
    age_table.skip(other);
    age_table.end_scan();
    for scan in 2..5 {
        age_table.begin_scan(scan * 1000);
        age_table.postpone(late);
        age_table.see(other, ANON, 5, 1, YOUNG);
        age_table.end_scan();
        assert_eq!(
            (
                age_table.resident(late, ANON),
                age_table.resident(other, ANON)
            ),
            (1, 1)
        );
        assert_eq!(age_table.look_up(5), Some((other, Some(scan * 1000))));
        assert_eq!(age_table.look_up(6), Some((late, Some(1000))));
    }
    // The postponed owner is walked: it still maps one of the frames, and a new one.
    age_table.begin_scan(5000);
    age_table.see(other, ANON, 5, 1, OLD);
    age_table.see(late, ANON, 7, 1, YOUNG);
    age_table.see(late, ANON, 6, 1, OLD);
    age_table.end_scan();
    assert_eq!(
        (
            age_table.resident(late, ANON),
            age_table.resident(other, ANON)
        ),
        (2, 1)
    );
    assert_eq!(age_table.look_up(6), Some((late, Some(1000))));
}
