//! Compares the baseline policies with naive implementations, and checks properties that hold for
//! any memory.

mod golden;
mod naive;

use super::*;
use crate::mrc::{Cache, NextUses, opt_misses};
use naive::{NaiveLirs, NaiveTinyLfu};
use proptest::prelude::*;

/// Makes traces; some have many repetitions, others hardly any.
fn traces() -> impl Strategy<Value = Vec<u32>> {
    let reference = prop_oneof![3 => 0u32..6, 3 => 0u32..40, 1 => 0u32..400];
    prop::collection::vec(reference, 1..1500)
}

/// Makes sizes; among them are those at which a hundredth of the size changes from no page to one,
/// or from one page to two.
fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0usize..40, 1 => 95usize..110, 1 => 195usize..210]
}

fn misses(mut cache: impl Cache, ids: &[u32]) -> u64 {
    cache.misses(ids)
}

proptest! {
    #[test]
    fn baseline_policies_equal_naive_ones(ids in traces(), size in sizes()) {
        let n = size as u64;
        prop_assert_eq!(misses(Sieve::new(n), &ids), naive::sieve(&ids, size));
        prop_assert_eq!(misses(ArcCache::new(n), &ids), naive::arc(&ids, size));
        prop_assert_eq!(misses(S3Fifo::new(n), &ids), naive::s3_fifo(&ids, size));
        let mut tiny_lfu = (WTinyLfu::new(n), NaiveTinyLfu::new(size));
        for &id in &ids {
            prop_assert_eq!(tiny_lfu.0.access(id), tiny_lfu.1.access(id));
        }
        if size >= 3 {
            let mut lirs = (Lirs::new(n), NaiveLirs::new(size));
            for &id in &ids {
                prop_assert_eq!(lirs.0.access(id), lirs.1.access(id));
            }
        }
    }

    #[test]
    fn no_baseline_policy_exceeds_its_size(ids in traces(), size in sizes()) {
        let n = size as u64;
        let mut caches: Vec<Box<dyn Cache>> = vec![
            Box::new(Sieve::new(n)),
            Box::new(ArcCache::new(n)),
            Box::new(S3Fifo::new(n)),
            Box::new(WTinyLfu::new(n)),
            Box::new(Lirs::new(n)),
        ];
        for &id in &ids {
            for cache in &mut caches {
                cache.access(id);
                prop_assert!(cache.held() <= n);
            }
        }
    }

    #[test]
    fn no_baseline_policy_beats_opt(ids in traces(), size in sizes()) {
        let n = size as u64;
        let floor = opt_misses(&NextUses::new(ids.clone()), n);
        prop_assert!(misses(Sieve::new(n), &ids) >= floor);
        prop_assert!(misses(ArcCache::new(n), &ids) >= floor);
        prop_assert!(misses(S3Fifo::new(n), &ids) >= floor);
        prop_assert!(misses(WTinyLfu::new(n), &ids) >= floor);
        // Below 200 pages libCacheSim's LIRS holds more than its size.
        if !(3..200).contains(&size) {
            prop_assert!(misses(Lirs::new(n), &ids) >= floor);
        }
    }
}

/// First references miss. In a memory for all pages, no other reference does.
#[test]
fn memory_for_all_pages_misses_once_per_page() {
    let ids: Vec<u32> = (0..20_000u32).map(|n| n * n % 997 % 500).collect();
    let pages = ids.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
    assert_eq!(misses(Sieve::new(500), &ids), pages);
    assert_eq!(misses(ArcCache::new(500), &ids), pages);
    assert_eq!(misses(S3Fifo::new(500), &ids), pages);
    assert_eq!(misses(Lirs::new(500), &ids), pages);
    assert_eq!(misses(WTinyLfu::new(500), &ids), pages);
}

/// Counts depend on the page number, so it does not matter which ids the pages get.
#[test]
fn introduced_pages_are_counted_by_their_numbers() {
    let ids: Vec<u32> = (0..30_000u32).map(|n| n * (n >> 4) % 991 % 700).collect();
    let mut dense = crate::trace::Dense::default();
    let (mut by_number, mut by_id) = (WTinyLfu::new(150), WTinyLfu::new(150));
    for &page in &ids {
        let (known, id) = (dense.len(), dense.id(u64::from(page)));
        if id == known {
            by_id.introduce(&[u64::from(page)]);
        }
        assert_eq!(by_number.access(page), by_id.access(id));
    }
}
