//! Tests of the rules for a frame that has one mapping.

use super::{FILE, HIDDEN, IDLE, KEPT_BITS, LEFT, OLD, Observation, Scans, YOUNG};

#[test]
fn a_fresh_frame_is_as_young_as_it_can_be_and_then_grows_old() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[
        (mm, 7, 1, OLD),
        (mm, 8, 1, YOUNG),
        (mm, 9, 1, LEFT),
        (mm, 10, 1, HIDDEN),
    ]);
    assert_eq!((scans.ages(mm), scans.unknown(mm)), (vec![(0, 3)], 1));
    for scan in 1..5 {
        scans.scan(&[(mm, 7, 1, OLD), (mm, 8, 1, YOUNG)]);
        assert_eq!(scans.ages(mm), [(scan * 1000, 1), (0, 1)]);
        assert_eq!(scans.reaccessed(), [(0, scan)]);
    }
    assert_eq!(scans.resident(mm), 2, "what nobody saw is forgotten");
}

#[test]
fn an_access_after_an_idle_time_is_counted_by_that_time() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    scans.scan(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    scans.scan(&[(mm, 1, 1, YOUNG), (mm, 2, 1, OLD)]);
    assert_eq!(scans.reaccessed(), [(1000, 1)]);
    scans.scan(&[(mm, 1, 1, OLD), (mm, 2, 1, LEFT)]);
    assert_eq!(
        scans.reaccessed(),
        [(1000, 1), (2000, 1)],
        "lower edges, to 1/128"
    );
}

/// The walks of a program do not clear its bits; then the program is idle, and is walked from time
/// to time. None of its pages counts as accessed again; a page of unknown age gets a known age.
#[test]
fn a_bit_set_before_its_process_became_idle_is_no_further_access() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1, 1, YOUNG), (mm, 2, 1, LEFT)]);
    scans.scan(&[(mm, 1, 1, YOUNG), (mm, 2, 1, LEFT)]);
    assert_eq!((scans.ages(mm), scans.unknown(mm)), (vec![(0, 1)], 1));
    let reported = scans.reaccessed();
    scans.scan_but(&[mm], &[]);
    scans.scan(&[(mm, 1, 1, IDLE), (mm, 2, 1, IDLE)]);
    assert_eq!(scans.ages(mm), [(2000, 1), (0, 1)]);
    scans.scan(&[(mm, 1, 1, IDLE), (mm, 2, 1, IDLE)]);
    assert_eq!(scans.ages(mm), [(3000, 1), (1000, 1)]);
    assert_eq!(scans.age_table.again(mm).count(), 0);
    assert_eq!(scans.reaccessed(), reported);
    scans.scan(&[(mm, 1, 1, YOUNG), (mm, 2, 1, OLD)]);
    assert_eq!(scans.ages(mm), [(2000, 1), (0, 1)]);
    assert_eq!(
        scans
            .age_table
            .again(mm)
            .map(|(_, _, pages)| pages)
            .sum::<u64>(),
        1
    );
}

/// An additional scan between two regular ones does not clear the bits of file pages. Such a page
/// is young until its bit is cleared, and counts as accessed once.
#[test]
fn a_bit_that_was_not_cleared_on_purpose_is_no_further_access() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1, 1, OLD)]);
    scans.scan(&[(mm, 1, 1, YOUNG)]);
    let reported = scans.reaccessed();
    for _ in 0..3 {
        scans.scan(&[(mm, 1, 1, KEPT_BITS)]);
        assert_eq!(scans.ages(mm), [(0, 1)]);
        assert_eq!(scans.age_table.again(mm).count(), 0);
    }
    assert_eq!(scans.reaccessed(), reported);
    scans.scan(&[(mm, 1, 1, OLD)]);
    // The bit is set for the first time at a scan that does not clear it.
    scans.scan(&[(mm, 1, 1, KEPT_BITS)]);
    assert_eq!(scans.age_table.again(mm).count(), 1);
}

/// Policies of a tenant use the accesses of that tenant's processes only.
#[test]
fn repeated_accesses_are_reported_by_owner_for_one_scan() {
    let mut scans = Scans::new();
    let (one, two) = (scans.owner(), scans.owner());
    scans.scan(&[(one, 1, 1, OLD), (two, 1000, 1, OLD)]);
    scans.scan(&[(one, 1, 1, OLD), (one, 2, 1, OLD), (two, 1000, 1, YOUNG)]);
    scans.scan(&[(one, 1, 1, YOUNG), (one, 2, 1, YOUNG), (two, 1000, 1, OLD)]);
    let again = |scans: &Scans, owner| scans.again(owner);
    assert_eq!(again(&scans, one), [(1000, 1), (2000, 1)]);
    assert_eq!(again(&scans, two), []);
    assert_eq!(scans.age_table.scan_before_ms(), 2000);
    // Accesses of a frame are counted for its owner, whichever process made them.
    scans.scan(&[(two, 1, 1, YOUNG), (one, 1, 1, OLD), (two, 1000, 1, YOUNG)]);
    assert_eq!(again(&scans, one), [(3000, 1)]);
    assert_eq!(again(&scans, two), [(2000, 1)]);
    scans.scan(&[]);
    assert_eq!(again(&scans, one), []);
}

#[test]
fn a_bit_that_was_not_cleared_says_nothing_until_it_is() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1, 1, YOUNG)]);
    scans.scan(&[(mm, 1, 1, LEFT)]);
    assert_eq!((scans.ages(mm), scans.unknown(mm)), (vec![], 1));
    scans.scan(&[(mm, 1, 1, OLD)]);
    assert_eq!(
        scans.ages(mm),
        [(1000, 1)],
        "as young as it can be: the scan before"
    );
    scans.scan(&[(mm, 1, 1, LEFT)]);
    assert_eq!(
        scans.ages(mm),
        [(0, 1)],
        "the bit was clear at the last look"
    );
    assert_eq!(scans.reaccessed(), [(1000, 1)]);
    scans.scan(&[(mm, 1, 1, LEFT)]);
    scans.scan(&[(mm, 1, 1, YOUNG)]);
    assert_eq!(
        scans.reaccessed(),
        [(1000, 1)],
        "an age that was unknown is none"
    );
}

#[test]
fn hidden_accesses_make_an_age_unknown_unless_the_bit_is_seen() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    let hidden_young = Observation {
        hidden: true,
        ..YOUNG
    };
    scans.scan(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    scans.scan(&[(mm, 1, 1, HIDDEN), (mm, 2, 1, hidden_young)]);
    assert_eq!((scans.ages(mm), scans.unknown(mm)), (vec![(0, 1)], 1));
    // The time of the last hidden access is unknown, so the age is the youngest possible.
    scans.scan(&[(mm, 1, 1, OLD), (mm, 2, 1, OLD)]);
    assert_eq!(
        (scans.ages(mm), scans.unknown(mm)),
        (vec![(1000, 1), (0, 1)], 0)
    );
}

#[test]
fn a_skipped_owner_keeps_its_frames_for_any_number_of_scans() {
    let mut scans = Scans::new();
    let (asleep, awake) = (scans.owner(), scans.owner());
    scans.scan(&[
        (asleep, 1, 1, OLD),
        (asleep, 1000, 1, LEFT),
        (awake, 2, 1, OLD),
    ]);
    for _ in 0..700 {
        scans.scan_but(&[asleep], &[(awake, 2, 1, YOUNG)]);
    }
    assert_eq!((scans.resident(asleep), scans.resident(awake)), (2, 1));
    let (age, pages) = scans.ages(asleep)[0];
    assert!(
        pages == 2 && age <= 700_000 && age * 33 / 32 >= 700_000,
        "{age}"
    );
    scans.scan(&[(asleep, 1, 1, YOUNG), (awake, 2, 1, OLD)]);
    assert_eq!((scans.resident(asleep), scans.resident(awake)), (1, 1));
    assert_eq!(scans.reaccessed().len(), 2);
}

#[test]
fn an_owner_that_maps_nothing_and_is_not_skipped_owns_nothing() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1, 1, OLD), (mm, 4096, 512, OLD)]);
    let some = scans.age_table.memory_bytes();
    scans.scan(&[]);
    assert_eq!((scans.resident(mm), scans.age_table.pages()), (0, 0));
    assert!(
        scans.age_table.memory_bytes() + 4_000 < some,
        "what is empty is given back"
    );
}

#[test]
fn the_class_is_what_the_owner_saw_last() {
    let mut scans = Scans::new();
    let (mm, other) = (scans.owner(), scans.owner());
    scans.scan(&[(mm, 1, 1, OLD)]);
    scans.age_table.begin_scan(2000);
    scans.age_table.see(other, FILE, 1, 1, OLD);
    scans.age_table.see(mm, FILE, 1, 1, OLD);
    scans.age_table.end_scan();
    assert_eq!(
        (scans.resident(mm), scans.age_table.resident(mm, FILE)),
        (0, 1)
    );
    assert_eq!(
        scans.age_table.ages(mm).collect::<Vec<_>>(),
        [(FILE, 1000, 1)]
    );
}

#[test]
fn scans_beyond_65536_change_nothing() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1, 1, OLD)]);
    for _ in 0..70_000 {
        scans.scan(&[(mm, 1, 1, OLD), (mm, 2, 1, YOUNG)]);
    }
    let ages = scans.ages(mm);
    assert_eq!(ages[1..], [(0, 1)]);
    assert!(ages[0].0 <= 70_000_000 && ages[0].0 * 33 / 32 >= 70_000_000);
    assert_eq!(scans.reaccessed(), [(0, 69_999)]);
}

/// Regression: pages that were walked first by one report and then by a second counted as used, so
/// nearly all of the program's memory was reported as needed. An age that becomes known is not an
/// access.
#[test]
fn becoming_known_is_not_an_access() {
    let mut scans = Scans::new();
    let (mm, other) = (scans.owner(), scans.owner());
    let seen = |scans: &Scans, owner| -> (u64, u64) {
        let count = |is_seen: bool| {
            let seen = scans.age_table.seen(owner);
            let some = seen.filter(|(_, last, _)| last.is_some() == is_seen);
            some.map(|(_, _, pages)| pages).sum()
        };
        (count(true), count(false))
    };
    let again = |scans: &Scans, owner| -> (u64, u64) {
        let again = scans.age_table.seen_again(owner);
        again.fold((0, 0), |sum, (_, _, seen, first)| {
            (sum.0 + seen, sum.1 + first)
        })
    };
    // At the first walk, set bits may be of any earlier time.
    scans.scan(&[(mm, 1, 1, LEFT), (mm, 2, 1, LEFT), (mm, 3, 1, HIDDEN)]);
    assert_eq!(seen(&scans, mm), (0, 2));
    // Page 1 is accessed, page 2 is not, and the age of page 3 becomes known.
    scans.scan(&[(mm, 1, 1, YOUNG), (mm, 2, 1, OLD), (mm, 3, 1, OLD)]);
    assert_eq!((seen(&scans, mm), again(&scans, mm)), ((1, 2), (0, 1)));
    assert_eq!(scans.unknown(mm), 0);
    // Two other pages have their first seen access; page 4 is fresh and accessed; page 5 is fresh
    // and not accessed (another process brought it in).
    scans.scan(&[
        (mm, 1, 1, YOUNG),
        (mm, 2, 1, YOUNG),
        (mm, 3, 1, YOUNG),
        (mm, 4, 1, YOUNG),
        (mm, 5, 1, OLD),
    ]);
    assert_eq!((seen(&scans, mm), again(&scans, mm)), ((4, 1), (1, 2)));
    // A huge leaf that the kernel made of small ones has its bit set; only its next access counts.
    scans.scan(&[(mm, 512, 512, YOUNG)]);
    assert_eq!(seen(&scans, mm), (0, 512));
    scans.scan(&[(mm, 512, 512, YOUNG)]);
    assert_eq!((seen(&scans, mm), again(&scans, mm)), ((512, 0), (0, 512)));
    // After a split the parts are as old as the whole.
    let parts: Vec<_> = (512..1024).map(|frame| (mm, frame, 1, OLD)).collect();
    scans.scan(&parts);
    assert_eq!((seen(&scans, mm), again(&scans, mm)), ((512, 0), (0, 0)));
    // Another process takes over frames of one that ended.
    scans.age_table.remove_owner(mm);
    scans.scan(&[(other, 512, 1, LEFT)]);
    assert_eq!(
        (seen(&scans, other), again(&scans, other)),
        ((0, 1), (0, 0))
    );
    scans.scan(&[(other, 512, 1, YOUNG)]);
    assert_eq!(
        (seen(&scans, other), again(&scans, other)),
        ((1, 0), (0, 1))
    );
}
