//! Waits with a time limit, and random numbers.

use std::time::{Duration, Instant};

/// Calls `ready` every 5 ms; returns its value, or `None` if it has returned none within `limit`.
pub fn poll<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = ready() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `ready` returns true.
///
/// # Panics
/// If `limit` passes first; the message names `what`.
pub fn until(what: &str, limit: Duration, mut ready: impl FnMut() -> bool) {
    let came = poll(limit, || ready().then_some(()));
    assert!(came.is_some(), "{what}: did not come within {limit:?}");
}

/// Generator of pseudo-random numbers. A test prints its seed, so that a failure can be repeated.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// A generator; the same seed produces the same numbers.
    #[must_use]
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A generator with the seed in `PAGETIDE_SEED`, or else one from the clock. Prints the seed
    /// with the name of the test.
    #[must_use]
    pub fn from_env(test: &str) -> Chance {
        let given = std::env::var("PAGETIDE_SEED")
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |time| u64::from(time.subsec_nanos()))
        });
        eprintln!("{test}: seed {seed} (again with PAGETIDE_SEED={seed})");
        Chance(seed)
    }

    /// The next number: at least 0, less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end.max(1)
    }

    /// A random duration of at least `from` and less than `to` milliseconds.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}
