//! Tests of the index alone, without `Ids`: entries are added in any order.

use super::*;
use crate::age_table::AgeTable;

/// Entries are found in the order of their addresses, in whatever order they were added, and each
/// leaf keeps its size within bounds.
#[test]
fn entries_are_found_in_order_of_address() {
    let owner = AgeTable::new(0).add_owner().expect("the first");
    let (mut groups, mut index) = (Groups::new(), Index::default());
    let mut all = Vec::new();
    for n in 0_u64..3000 {
        // Addresses in scattered order; each occurs once.
        let address = n * 7919 % 3001 * 4096;
        let group = match n % 64 {
            0 => groups.add_singles(owner, address),
            _ => u32::try_from(n / 64).ok(),
        };
        let id = groups.take_single(group.expect("room"), address);
        index.insert(&groups, Entry::single(id));
        all.push((address, Entry::single(id)));
    }
    all.sort_unstable_by_key(|(address, _)| *address);
    for at in [0, 1, 500, 2999] {
        let want: Vec<Entry> = all[at..].iter().map(|(_, entry)| *entry).collect();
        let found: Vec<Entry> = index.from(&groups, all[at].0).collect();
        assert_eq!(found, want);
        assert_eq!(
            index.next_from(&groups, all[at].0).next(),
            want.first().copied()
        );
    }
    for (_, entry) in all.iter().step_by(2) {
        index.remove(&groups, *entry);
    }
    let left: Vec<Entry> = all
        .iter()
        .skip(1)
        .step_by(2)
        .map(|(_, entry)| *entry)
        .collect();
    assert_eq!(index.from(&groups, 0).collect::<Vec<_>>(), left);
    for leaf in &index.leaves {
        assert!((1..=LEAF_MAX).contains(&leaf.entries.len()));
        assert_eq!(leaf.first, groups.address(leaf.entries[0]));
    }
    assert_eq!(index.into_entries().collect::<Vec<_>>(), left);
}

/// If entries are added in ascending order, the leaves are full.
#[test]
fn entries_in_order_cost_little_more_than_4_bytes() {
    let owner = AgeTable::new(0).add_owner().expect("the first");
    let (mut groups, mut index) = (Groups::new(), Index::default());
    for n in 0..10_000 {
        let first = groups.add_block(owner, n << 18).expect("room");
        index.insert(&groups, Entry::block(first));
    }
    assert!(index.memory_bytes() < 45_000, "{}", index.memory_bytes());
}
