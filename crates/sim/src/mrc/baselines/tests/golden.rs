//! Compares the policies with the misses that libCacheSim counted for three streams, which are
//! generated here again.
//!
//! The expected numbers are in golden.txt. This command makes the file, where PYTHON has the
//! package libcachesim 0.3.5: `PYTHON crates/sim/examples/libcachesim/golden.py >
//! crates/sim/src/mrc/baselines/tests/golden.txt`.

use crate::mrc::{Cache, CurvePolicy};
use crate::trace::Dense;

const LEN: u64 = 60_000;

/// A linear congruential generator (Knuth's MMIX) that returns 16 bits at a time, as in golden.py.
struct Draw(u64);

impl Draw {
    fn bits(&mut self) -> u64 {
        let (a, c) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(a).wrapping_add(c);
        self.0 >> 48
    }
}

/// Returns the page numbers of a stream.
fn stream(name: &str) -> Vec<u64> {
    let mut draw = Draw(name.bytes().map(u64::from).sum());
    let mut skewed = |pages: u64| {
        let bits = draw.bits();
        (((bits * bits) >> 16) * bits * pages) >> 32
    };
    let page = |n: u64| match name {
        "skewed" => skewed(4_000),
        // Page numbers that are scattered over 64 bits, like hashes of names.
        "scattered" => skewed(9_000).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        _ => match n / 3_000 % 4 {
            0 => skewed(2_000),
            1 => n % 700,
            2 => 10_000 + n,
            _ => skewed(2_000) + n / 100,
        },
    };
    (0..LEN).map(page).collect()
}

fn cache(policy: &str, size: u64) -> Box<dyn Cache> {
    let named = CurvePolicy::ALL.into_iter().find(|p| p.name() == policy);
    let memory = named.and_then(|policy| policy.memory(size, 1));
    memory.unwrap_or_else(|| panic!("{policy} is no policy"))
}

fn misses(policy: &str, size: u64, pages: &[u64]) -> u64 {
    let (mut cache, mut dense) = (cache(policy, size), Dense::default());
    let reference = |&page: &u64| {
        let (known, id) = (dense.len(), dense.id(page));
        if id == known {
            cache.introduce(&[page]);
        }
        u64::from(!cache.access(id))
    };
    pages.iter().map(reference).sum()
}

#[test]
fn misses_are_those_of_libcachesim() {
    let (mut compared, mut last) = (0, (String::new(), Vec::new()));
    for line in include_str!("golden.txt").lines() {
        let [name, policy, size, want] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("`{line}` has no four words");
        };
        if last.0 != name {
            last = (name.to_owned(), stream(name));
        }
        let size = size.parse().expect("pages");
        let ours = misses(policy, size, &last.1);
        assert_eq!(ours.to_string(), want, "{name}, {policy}, {size} pages");
        compared += 1;
    }
    assert!(compared > 100, "{compared} lines");
}
