//! What injection reads of a target: the tail of an executable mapping, and where there is room.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

fn mapping(start: u64, end: u64) -> Mapping {
    Mapping {
        start,
        end,
        prot: [true, true, false],
        private: true,
        inode: 0,
        name: String::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stub_is_found_where_it_is_and_nowhere_else(
        noise in prop::collection::vec(any::<u8>(), 0..800),
        change in any::<(Index, u8)>(),
    ) {
        let code = stub::bytes(&params(7, 9));
        let head = code.len() - size_of::<stub::Params>();
        let mut tail = noise.clone();
        tail.resize(tail.len().next_multiple_of(16), 0);
        tail.extend(&code);
        tail.resize(tail.len().next_multiple_of(16), 0);
        let found = find_stub(&tail).map(|at| usize::try_from(at).expect("small"));
        prop_assert!(found.is_some_and(|at| tail[at..].starts_with(&code[..head])));
        let at = tail.len() - code.len().next_multiple_of(16) + change.0.index(head);
        tail[at] ^= change.1;
        prop_assert_eq!(find_stub(&tail).is_some(), change.1 == 0);
        // Anything, of any length: no panic, and no stub but where the whole head is.
        prop_assert!(find_stub(&noise).is_none() || noise.windows(head).any(|w| w == &code[..head]));
    }

    #[test]
    fn room_is_found_between_mappings_or_not_at_all(
        mut edges in prop::collection::btree_set(0u64..1 << 35, 0..40),
        len in 1u64..1 << 30,
        high in any::<u64>(),
    ) {
        edges.insert(1 << 35);
        let edges: Vec<u64> = edges.into_iter().map(|page| page << 12).collect();
        let mut maps: Vec<Mapping> = edges.chunks_exact(2).map(|e| mapping(e[0], e[1])).collect();
        if high > 1 << 48 {
            maps.push(mapping(high & !0xfff, u64::MAX));
        }
        if let Some(at) = free_range(&maps, len) {
            prop_assert!(maps.iter().all(|m| m.end <= at || at + len <= m.start), "{at:x}");
        }
    }
}
