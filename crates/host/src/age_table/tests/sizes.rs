//! Tests of huge pages that are split and joined.

use super::{HIDDEN, LEFT, OLD, Scans, YOUNG};

/// Returns observations, by one owner, of all 4 KiB frames of a huge page.
fn parts(
    owner: super::Owner,
    head: u64,
    observation: super::Observation,
) -> Vec<(super::Owner, u64, u32, super::Observation)> {
    (head..head + 512)
        .map(|frame| (owner, frame, 1, observation))
        .collect()
}

#[test]
fn a_huge_page_counts_all_its_small_pages() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1024, 512, OLD), (mm, 1 << 30, 262_144, OLD)]);
    scans.scan(&[(mm, 1024, 512, YOUNG), (mm, 1 << 30, 262_144, OLD)]);
    assert_eq!(scans.ages(mm), [(1000, 262_144), (0, 512)]);
    assert_eq!(scans.reaccessed(), [(0, 512)]);
}

#[test]
fn small_pages_inherit_the_age_of_a_split_huge_page() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 1024, 512, OLD)]);
    let mut observations = parts(mm, 1024, OLD);
    observations[3].3 = YOUNG;
    // A part of the huge page is unmapped, and its other frames are seen in descending order.
    observations.truncate(500);
    observations.reverse();
    scans.scan(&observations);
    assert_eq!(scans.ages(mm), [(1000, 499), (0, 1)]);
    assert_eq!(scans.reaccessed(), [(0, 1)]);
    assert_eq!(scans.age_table.pages(), 500);
}

#[test]
fn small_pages_inherit_an_unknown_age_and_its_reason() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 0, 512, YOUNG), (mm, 512, 512, HIDDEN)]);
    scans.scan(&[(mm, 0, 512, LEFT), (mm, 512, 512, HIDDEN)]);
    assert_eq!(scans.unknown(mm), 1024);
    scans.scan(&[parts(mm, 0, OLD), parts(mm, 512, OLD)].concat());
    assert_eq!(scans.ages(mm), [(1000, 512), (0, 512)]);
}

#[test]
fn joined_small_pages_are_a_huge_page_as_young_as_the_youngest() {
    let mut scans = Scans::new();
    let (mm, other) = (scans.owner(), scans.owner());
    scans.scan(&parts(other, 512, OLD));
    scans.scan(&[parts(other, 512, OLD), vec![(other, 600, 1, YOUNG)]].concat());
    scans.scan(&[(mm, 512, 512, OLD)]);
    assert_eq!(
        (scans.ages(mm), scans.resident(other)),
        (vec![(1000, 512)], 0)
    );
    scans.scan(&[(mm, 512, 512, YOUNG)]);
    assert_eq!(scans.reaccessed(), [(0, 1), (1000, 512)]);
}

#[test]
fn a_leaf_with_a_part_that_was_not_there_is_fresh() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&parts(mm, 512, OLD)[1..]);
    scans.scan(&[(mm, 512, 512, OLD)]);
    assert_eq!(scans.ages(mm), [(0, 512)]);
}

#[test]
fn one_maps_the_whole_and_another_its_parts() {
    let mut scans = Scans::new();
    let (whole, part) = (scans.owner(), scans.owner());
    scans.scan(&[(whole, 512, 512, OLD), (part, 515, 1, OLD)]);
    assert_eq!((scans.resident(whole), scans.resident(part)), (512, 0));
    scans.scan(&[(part, 515, 1, YOUNG), (whole, 512, 512, OLD)]);
    assert_eq!(scans.ages(whole), [(1000, 511), (0, 1)]);
    // The huge page is seen first: one bit for all, as young as its youngest part; then the small
    // part.
    scans.scan(&[(whole, 512, 512, OLD), (part, 515, 1, YOUNG)]);
    assert_eq!(scans.ages(whole), [(1000, 511), (0, 1)]);
    assert_eq!(scans.age_table.pages(), 512);
}

#[test]
fn a_giant_leaf_is_split_only_where_its_parts_are_seen() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    let (head, parts) = (3 << 18, 512_u64);
    scans.scan(&[(mm, head, 262_144, OLD)]);
    let one = scans.age_table.memory_bytes();
    let mut observations: Vec<_> = (1..parts)
        .map(|part| (mm, head + part * 512, 512, OLD))
        .collect();
    observations.extend((head..head + 512).map(|frame| (mm, frame, 1, OLD)));
    scans.scan(&observations);
    assert_eq!(scans.ages(mm), [(1000, 262_144)]);
    assert!(scans.age_table.memory_bytes() < one + 600_000);
    scans.scan(&[(mm, head, 262_144, YOUNG)]);
    assert_eq!(
        (scans.ages(mm), scans.reaccessed()),
        (vec![(0, 262_144)], vec![(1000, 262_144)])
    );
    scans.scan(&[(mm, head + 512, 512, OLD), (mm, head, 262_144, YOUNG)]);
    assert_eq!(scans.age_table.pages(), 262_144);
}

#[test]
#[should_panic(expected = "aligned")]
fn a_huge_leaf_that_is_not_aligned_is_refused() {
    let mut scans = Scans::new();
    let mm = scans.owner();
    scans.scan(&[(mm, 100, 512, OLD)]);
}
