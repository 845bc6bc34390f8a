//! Compares the LRU curve with simulations, and these with naive implementations.

use super::*;
use crate::memory_bound::MemoryBound;
use engine::Policy;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

/// Makes traces; some have many repetitions, others hardly any.
fn traces() -> impl Strategy<Value = Vec<u32>> {
    let reference = prop_oneof![3 => 0u32..6, 3 => 0u32..40, 1 => 0u32..400];
    prop::collection::vec(reference, 1..600)
}

/// Makes a longer trace from a seed: a skewed mix, a loop and a scan.
fn long_trace(seed: u64, len: u32, pages: u32) -> Vec<u32> {
    let mut x = seed | 1;
    let draw = |n: u32| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let below = |bound: u32| u32::try_from(x >> 33).expect("31 bits") % bound;
        match n / 5000 % 3 {
            0 => below(pages).min(below(pages)) / (1 + below(9)),
            1 => n % (pages / 3),
            _ => n % pages,
        }
    };
    (0..len).map(draw).collect()
}

fn misses(mut cache: impl Cache, ids: &[u32]) -> u64 {
    cache.misses(ids)
}

fn curve(ids: &[u32]) -> Curve {
    let (mut stack, mut curve) = (Stack::default(), Curve::default());
    ids.iter().for_each(|&id| curve.count(stack.access(id)));
    curve
}

/// LRU in the simplest form: a queue, the latest page first. Returns the misses.
fn naive_lru(ids: &[u32], size: usize) -> u64 {
    let (mut queue, mut misses) = (VecDeque::new(), 0);
    for &id in ids {
        match queue.iter().position(|&held| held == id) {
            Some(at) => drop(queue.remove(at)),
            None => misses += 1,
        }
        queue.push_front(id);
        queue.truncate(size);
    }
    misses
}

/// CLOCK as a queue, in which a referenced page goes to the end once more. Returns the misses.
fn naive_clock(ids: &[u32], size: usize) -> u64 {
    let (mut queue, mut misses) = (VecDeque::<(u32, bool)>::new(), 0);
    for &id in ids {
        if let Some(held) = queue.iter_mut().find(|held| held.0 == id) {
            held.1 = true;
            continue;
        }
        misses += 1;
        while queue.len() == size {
            match queue.pop_front() {
                Some((again, true)) => queue.push_back((again, false)),
                _ => break,
            }
        }
        if size > 0 {
            queue.push_back((id, false));
        }
    }
    misses
}

/// OPT that searches for the next use of every page. Returns the misses.
fn naive_opt(ids: &[u32], size: usize) -> u64 {
    let (mut held, mut misses) = (BTreeMap::new(), 0);
    for (at, &id) in ids.iter().enumerate() {
        if held.contains_key(&id) {
            continue;
        }
        misses += 1;
        if held.len() == size {
            let next = |page: u32| ids[at..].iter().position(|&i| i == page);
            let last = held
                .keys()
                .copied()
                .max_by_key(|&p| next(p).unwrap_or(usize::MAX));
            last.map(|page| held.remove(&page));
        }
        if size > 0 {
            held.insert(id, ());
        }
    }
    misses
}

proptest! {
    #[test]
    fn simulations_equal_naive_ones(ids in traces(), size in 0usize..60) {
        let n = size as u64;
        prop_assert_eq!(misses(Lru::new(n), &ids), naive_lru(&ids, size));
        prop_assert_eq!(misses(Clock::new(n), &ids), naive_clock(&ids, size));
        prop_assert_eq!(opt_misses(&NextUses::new(ids.clone()), n), naive_opt(&ids, size));
    }

    #[test]
    fn the_curve_is_lru_at_every_size(ids in traces()) {
        let curve = curve(&ids);
        let sizes: Vec<u64> = (0..=curve.pages() + 1).collect();
        let want: Vec<u64> = sizes.iter().map(|&n| misses(Lru::new(n), &ids)).collect();
        prop_assert_eq!(curve.misses(&sizes), want);
    }

    #[test]
    fn no_policy_beats_opt_or_exceeds_its_size(ids in traces(), size in 1u64..60) {
        let floor = opt_misses(&NextUses::new(ids.clone()), size);
        prop_assert!(misses(Lru::new(size), &ids) >= floor);
        prop_assert!(misses(Clock::new(size), &ids) >= floor);
        let mut run = EngineRun::new(Policy::default(), size);
        let mut missed = 0;
        for &id in &ids {
            missed += u64::from(!run.access(id));
            prop_assert!(run.held() <= size);
        }
        run.machine().check_invariants();
        prop_assert!(missed >= floor);
    }
}

#[test]
fn the_curve_stays_exact_when_positions_are_compacted() {
    // There are far more references than positions, so all pages are moved many times.
    for (pages, len) in [(300, 100_000), (9_000, 150_000), (40_000, 200_000)] {
        let ids = long_trace(7, len, pages);
        let curve = curve(&ids);
        for percent in [1, 5, 20, 50, 90, 100] {
            let size = u64::from(pages) * percent / 100;
            let want = misses(Lru::new(size), &ids);
            assert_eq!(curve.misses(&[size]), [want], "{pages} pages, {percent} %");
        }
    }
}

#[test]
fn sizes_come_in_any_order_and_may_repeat() {
    let curve = curve(&long_trace(3, 20_000, 500));
    let (up, down) = ([0, 10, 10, 100, 9999], [9999, 100, 10, 10, 0]);
    let mut misses = curve.misses(&down);
    misses.reverse();
    assert_eq!(curve.misses(&up), misses);
    assert_eq!((misses[0], misses[4]), (20_000, curve.pages()));
}

#[test]
fn a_sample_of_all_pages_is_exact() {
    let ids = long_trace(11, 60_000, 2_000);
    let exact = curve(&ids);
    let mut shards = Shards::new(1.0);
    ids.iter().for_each(|&id| shards.access(u64::from(id)));
    assert_eq!(shards.pages(), exact.pages());
    for size in [0, 1, 50, 500, 1999, 2000] {
        assert!((shards.miss_ratio(size) - exact.miss_ratio(size)).abs() < 1e-12);
    }
}

#[test]
fn sampled_curves_are_near_the_exact_one() {
    let ids = long_trace(13, 300_000, 60_000);
    let exact = curve(&ids);
    let mut shards = Shards::new(0.2);
    ids.iter().for_each(|&id| shards.access(u64::from(id)));
    let pages = shards.sampled_pages().abs_diff(exact.pages() / 5);
    assert!(
        pages < 500,
        "{} of {}",
        shards.sampled_pages(),
        exact.pages()
    );
    let sizes = (1..=20).map(|n| n * 3000);
    let errors = sizes.map(|n| (shards.miss_ratio(n) - exact.miss_ratio(n)).abs());
    let mean = errors.sum::<f64>() / 20.0;
    assert!(mean < 0.01, "mean error {mean}");
}

#[test]
fn miniature_engines_are_near_full_ones() {
    // Loops and scans of exactly one length are the worst case: in a sample, the cliff is at
    // another size.
    let loops = long_trace(17, 150_000, 40_000);
    for (ids, bound) in [(drifting_trace(150_000), 0.01), (loops, 0.02)] {
        for policy in [Policy::default(), classic()] {
            hold_miniatures_against(&ids, policy, bound);
        }
    }
}

/// Makes a trace in which a hot set moves through 40,000 pages; a page is the rarer the further it
/// is from the hot set.
fn drifting_trace(len: u32) -> Vec<u32> {
    let mut x = 88_172_645_463_325_252u64;
    let draw = |n: u32| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        let bits = u32::try_from(x >> 60).expect("4 bits");
        let offset = u32::try_from(x >> 20 & 0xffff).expect("16 bits") >> (bits.min(12) / 2 * 2);
        (n / 10 + offset.wrapping_mul(7919)) % 40_000
    };
    (0..len).map(draw).collect()
}

fn hold_miniatures_against(ids: &[u32], policy: Policy, at_a_fifth: f64) {
    let exact = curve(ids);
    let limits: Vec<u64> = (1..=20).map(|n| exact.pages() * n / 20).collect();
    let full = |&limit: &u64| ratio(misses(EngineRun::new(policy, limit), ids), ids.len() as u64);
    let full: Vec<f64> = limits.iter().map(full).collect();
    for (rate, bound) in [(1.0, 1e-12), (0.2, at_a_fifth)] {
        let mut mini = Miniature::new(&limits, rate);
        mini.add(|size, batch| Box::new(EngineRun::with_batch(policy, size, batch)));
        ids.chunks(999)
            .for_each(|ids| mini.replay(ids.iter().map(|&id| u64::from(id))));
        let mean = |ratios: Vec<f64>| {
            let pairs = ratios.into_iter().zip(&full);
            pairs.map(|(a, b)| (a - b).abs()).sum::<f64>() / 20.0
        };
        let (raw, corrected) = (mean(mini.miss_ratios(0)), mean(mini.corrected(0, &exact)));
        assert!(
            corrected <= bound,
            "{policy:?} rate {rate}: mean error {corrected}"
        );
        assert!(
            raw <= 3.0 * bound,
            "{policy:?} rate {rate}: uncorrected {raw}"
        );
    }
}

fn classic() -> Policy {
    use engine::active_inactive::Stage;
    Policy::ActiveInactive(Stage::Detection, engine::Pages(1 << 20))
}

#[test]
fn strange_rates_are_clamped() {
    for (rate, all) in [(f64::NAN, true), (7.0, true), (-1.0, false), (0.0, false)] {
        let sampler = Sampler::new(rate);
        assert_eq!((0..1000).all(|page| sampler.takes(page)), all, "{rate}");
    }
}

fn job(policies: &[CurvePolicy], sampled: Option<f64>) -> Job {
    Job {
        policies: policies.to_vec(),
        sizes: Vec::new(),
        sampled,
    }
}

#[test]
fn a_job_has_every_policy_at_every_size() {
    let ids = drifting_trace(20_000);
    let file = std::env::temp_dir().join(format!("pagetide-job-{}.csv", std::process::id()));
    let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
    std::fs::write(&file, lines).expect("a temporary file");
    let run = |job: &Job| {
        job.run(
            (&file, &Default::default()),
            MemoryBound::NONE,
            &mut |_, _, _| {},
        )
        .expect("sound")
    };
    let all = run(&job(&CurvePolicy::ALL, None));
    let again = run(&job(&CurvePolicy::ALL, None));
    let sampled = run(&job(&CurvePolicy::ALL, Some(0.3)));
    let lru = run(&job(&[CurvePolicy::Lru], Some(0.3)));
    std::fs::remove_file(&file).expect("still there");
    assert_eq!(all, again);
    assert_eq!(
        (all.references, all.sizes.len(), all.sampled_pages),
        (20_000, 20, None)
    );
    let (exact, uses) = (curve(&ids), NextUses::new(ids.clone()));
    for (n, &size) in all.sizes.iter().enumerate() {
        let want = [
            exact.misses(&[size])[0],
            misses(Clock::new(size), &ids),
            opt_misses(&uses, size),
            misses(EngineRun::new(Policy::default(), size), &ids),
        ];
        for (want, (policy, ratios)) in want.into_iter().zip(&all.curves) {
            let error = (ratios[n] - ratio(want, 20_000)).abs();
            assert!(error < 1e-9, "{policy:?} at {size}: {error}");
        }
    }
    // A memory uses the id of a page as its number if the page was not introduced; in this file ids
    // are page numbers.
    for (policy, ratios) in all.curves.iter().skip(4) {
        for (&size, estimated) in all.sizes.iter().zip(ratios) {
            let mut memory = policy
                .memory(size, RECLAIM_BATCH)
                .expect("none of them is OPT");
            let error = (estimated - ratio(memory.misses(&ids), 20_000)).abs();
            assert!(error < 1e-9, "{policy:?} at {size}: {error}");
        }
    }
    // If other policies are computed, the LRU curve is exact in any case. If LRU is the only
    // policy, it is sampled.
    assert_eq!(sampled.curves[0], all.curves[0]);
    assert!(sampled.sampled_pages.is_some() && sampled.curves[3] != all.curves[3]);
    assert!(lru.sampled_pages.is_some() && lru.curves[0] != all.curves[0]);
}

#[test]
fn jobs_that_cannot_be_done_say_why() {
    let run = |file: &str, job: &Job| {
        let error = job.run(
            (Path::new(file), &Default::default()),
            MemoryBound::NONE,
            &mut |_, _, _| {},
        );
        error.expect_err("impossible").to_string()
    };
    let reported = run("/dev/null", &job(&[CurvePolicy::Opt], None));
    assert!(reported.contains("no regular file"), "{reported}");
    let reported = run("/nonexistent.csv", &job(&[CurvePolicy::Lru], None));
    assert!(reported.contains("cannot open"), "{reported}");
    // Regression: an empty sample, corrected by the exact curve, equalled LRU.
    let folder = std::env::temp_dir().join(format!("pagetide-mrc-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("ten.csv");
    std::fs::write(&file, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n").expect("a file");
    let reported = run(
        &file.to_string_lossy(),
        &job(&[CurvePolicy::Opt], Some(1e-9)),
    );
    let _ = std::fs::remove_dir_all(&folder);
    assert!(
        reported.contains("no page fell into the sample"),
        "{reported}"
    );
}

/// Regression: a `.lis` file of 937 bytes had 671 million different pages, and its tables took 6
/// GiB until the process was aborted. Now the bound is checked before tables grow.
#[test]
fn a_small_file_of_many_pages_is_refused_within_the_bound() {
    let name = format!("pagetide-bomb-{}.lis", std::process::id());
    let file = std::env::temp_dir().join(name);
    let lines: String = (0..40)
        .map(|n: u64| format!("{} 16777216 0 {n}\n", n << 24))
        .collect();
    std::fs::write(&file, lines).expect("a temporary file");
    let bound = MemoryBound::of(96 << 20, resident);
    let every = &job(&CurvePolicy::ALL, None);
    let sampled = &job(&[CurvePolicy::Lru], Some(0.5));
    for job in [every, sampled] {
        let error = job.run((&file, &Default::default()), bound, &mut |_, _, _| {});
        let error = error.expect_err("more than 96 MiB of tables");
        assert!(error.what.contains("bound"), "{error}");
        assert!(error.remedy.contains("--memory-max"), "{}", error.remedy);
    }
    std::fs::remove_file(&file).expect("still there");
}

/// The second pass has a table for each policy and size: a line of 15 bytes made them take 90 GiB.
#[test]
fn the_memories_of_all_policies_count_and_a_size_makes_no_table() {
    let name = format!("pagetide-bomb-second-{}.lis", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, "0 2000000 0 0\n").expect("a temporary file");
    let bound = MemoryBound::of(192 << 20, resident);
    let mut job = job(&CurvePolicy::ALL, None);
    let run = |job: &Job| job.run((&file, &Default::default()), bound, &mut |_, _, _| {});
    let error = run(&job).expect_err("a hundred tables");
    assert!(error.what.contains("bound"), "{error}");
    std::fs::write(&file, "0 2000 0 0\n").expect("a temporary file");
    job.sizes = vec![Size::Pages(u64::MAX)];
    let curves = run(&job).expect("as much as all of it");
    std::fs::remove_file(&file).expect("still there");
    assert!(curves.curves.iter().all(|(_, ratios)| ratios == &[1.0]));
}

/// Returns the resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number");
    pages * 4096
}
