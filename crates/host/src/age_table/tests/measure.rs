//! Costs of the age table: memory use is asserted; times are only printed (`--release`,
//! `--nocapture`).

use std::time::Instant;

use super::{ANON, LEFT, OLD, YOUNG};
use crate::age_table::{AgeTable, Observation, Owner};

/// Number of pages measured. In release builds their records exceed the processor's caches; memory
/// per page does not depend on the number.
const PAGES: u64 = if cfg!(debug_assertions) {
    250_000
} else {
    2_000_000
};

/// Returns one run of frames: its first frame, and its length.
fn contiguous() -> Vec<(u64, u64)> {
    vec![(123_456, PAGES)]
}

/// Returns runs of 64 to 512 frames, with gaps of up to `gap` between them.
fn scattered(gap: u64) -> Vec<(u64, u64)> {
    let (mut runs, mut frame, mut left, mut dice) =
        (Vec::new(), 1000, PAGES, 88_172_645_463_325_252);
    while left > 0 {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let pages = (64 + (dice >> 20) % 449).min(left);
        runs.push((frame, pages));
        frame += pages + 1 + (dice >> 40) % gap;
        left -= pages;
    }
    runs
}

/// Does one scan in which all owners see all runs. Returns the time of one observation
/// (nanoseconds), then the time of the scan's end (milliseconds).
fn scan(
    age_table: &mut AgeTable,
    owners: &[Owner],
    runs: &[(u64, u64)],
    observation: impl Fn(u64) -> Observation,
) -> (f64, f64) {
    age_table.begin_scan(age_table.time.now_ms() + 1000);
    let begun = Instant::now();
    for owner in owners {
        for &(from, pages) in runs {
            for frame in from..from + pages {
                age_table.see(*owner, ANON, frame, 1, observation(frame));
            }
        }
    }
    let observations = PAGES * owners.len() as u64;
    let nanos = begun.elapsed().as_secs_f64() * 1e9 / observations as f64;
    let begun = Instant::now();
    age_table.end_scan();
    (nanos, begun.elapsed().as_secs_f64() * 1e3)
}

/// Prints the shortest times of several scans, as other tests run at the same time.
fn best(name: &str, mut scan: impl FnMut(u64) -> (f64, f64)) {
    let times: Vec<(f64, f64)> = (0..9).map(&mut scan).collect();
    let nanos = times
        .iter()
        .map(|time| time.0)
        .fold(f64::INFINITY, f64::min);
    let end = times
        .iter()
        .map(|time| time.1)
        .fold(f64::INFINITY, f64::min);
    println!("  {name}: {nanos:.2} (+{end:.1} ms)");
}

fn measure(name: &str, runs: &[(u64, u64)]) {
    let mut age_table = AgeTable::new(0);
    let mut owners = vec![age_table.add_owner().unwrap()];
    let mixed = |frame: u64| {
        if (frame * 0x9E37_79B9) >> 7 & 3 == 0 {
            YOUNG
        } else {
            OLD
        }
    };
    println!("{name}: ns an observation (+ the end of the scan)");
    let (fresh, _) = scan(&mut age_table, &owners, runs, |_| OLD);
    println!("  fresh: {fresh:.2}");
    for (what, observation) in [("old", OLD), ("young", YOUNG), ("left set", LEFT)] {
        best(what, |_| {
            scan(&mut age_table, &owners, runs, |_| observation)
        });
    }
    best("a quarter of 8 young", |salt| {
        scan(&mut age_table, &owners, runs, |frame| {
            mixed(frame / 8 + salt)
        })
    });
    best("a quarter young", |salt| {
        scan(&mut age_table, &owners, runs, |frame| mixed(frame + salt))
    });
    owners.extend((0..3).map(|_| age_table.add_owner().unwrap()));
    best("four mappings", |_| {
        scan(&mut age_table, &owners, runs, |_| OLD)
    });
    best("four mappings, young", |_| {
        scan(&mut age_table, &owners, runs, |_| YOUNG)
    });
    let (_, end_ms) = scan(&mut age_table, &[], runs, |_| OLD);
    println!(
        "  all go: {end_ms:.1} ms; {} bytes are left",
        age_table.memory_bytes()
    );
}

fn bytes_a_page(runs: &[(u64, u64)]) -> f64 {
    let mut age_table = AgeTable::new(0);
    let owners = [age_table.add_owner().unwrap()];
    for step in 1..200 {
        scan(&mut age_table, &owners, runs, |frame| {
            if frame / 64 % step == 0 { YOUNG } else { OLD }
        });
    }
    assert_eq!(age_table.pages(), PAGES);
    age_table.memory_bytes() as f64 / PAGES as f64
}

#[test]
fn cost_of_observations() {
    measure("contiguous", &contiguous());
    measure("scattered", &scattered(500));
}

#[test]
fn the_age_table_takes_at_most_nine_bytes_a_page() {
    for (name, runs) in [
        ("contiguous", contiguous()),
        ("scattered among others", scattered(500)),
        ("scattered over 64 GiB", scattered(4000)),
        ("scattered over 1 TiB", scattered(75_000)),
    ] {
        let bytes = bytes_a_page(&runs);
        println!(
            "\n{name} (up to frame {}): {bytes:.2} bytes a page",
            runs[runs.len() - 1].0
        );
        // If frames are far apart, the index takes 4 bytes for each 2 MiB, whether watched or not.
        let index = (runs[runs.len() - 1].0 / 512 * 4) as f64 / PAGES as f64;
        assert!(bytes <= 9.0 || bytes - index <= 8.5, "{name}: {bytes}");
    }
}

#[test]
fn a_small_process_on_a_large_host_costs_little() {
    let mut age_table = AgeTable::new(0);
    let owner = age_table.add_owner().unwrap();
    age_table.begin_scan(1000);
    // 64 MiB, in runs of 64 frames, spread over 1 TiB.
    for run in 0..256_u64 {
        (0..64).for_each(|frame| age_table.see(owner, ANON, (run << 20) + frame, 1, OLD));
    }
    age_table.end_scan();
    assert!(
        age_table.memory_bytes() < 3 << 20,
        "{}",
        age_table.memory_bytes()
    );
}
