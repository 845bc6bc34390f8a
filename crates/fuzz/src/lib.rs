//! Structured fuzzing for tests. Inputs come from a generator and from a corpus; some of them are
//! then changed at random.
//!
//! Invariant: an input depends only on its seed and the corpus, so `PAGETIDE_SEED=N` repeats a
//! failure. `PAGETIDE_FUZZ_SECONDS` sets how long a fuzzer runs (default: `IN_THE_CHECK`). If an
//! input fails, its seed and bytes are printed; add the bytes to `corpus/NAME` together with the
//! fix.
#![forbid(unsafe_code)]

mod chance;
mod mutate;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use chance::Chance;
pub use mutate::mutate;

/// How long a fuzzer runs in `cargo xtask test`.
const IN_THE_CHECK: Duration = Duration::from_millis(700);
/// Maximum processor time for the check of one input.
const CASE_TIME: Duration = Duration::from_secs(20);
/// Maximum elapsed time for the check of one input, long enough for a busy machine. This limit
/// finds a check that waits for something: waiting takes no processor time.
const CASE_REAL_TIME: Duration = Duration::from_secs(600);
/// Maximum growth of the process's peak memory while a fuzzer runs, bytes. It leaves space for
/// other tests of the crate, which run in the same process: the largest takes 0.8 GiB, and one
/// input may take as much.
const MEMORY_MAX: u64 = 2 << 30;
/// Number of inputs between two checks of the peak memory.
const MEMORY_EVERY: u64 = 64;

/// Runs the fuzzer `name`, whose corpus is in `corpus/NAME`. `make` makes an input; `check` panics
/// if the code under test handles the input wrongly.
///
/// # Panics
/// If `check` panics, or if an input takes too much time or memory.
pub fn run(name: &str, make: impl Fn(&mut Chance) -> Vec<u8>, check: impl Fn(&[u8])) {
    let corpus = corpus(name);
    let before = peak_bytes();
    for (file, bytes) in &corpus {
        check_input(&format!("{name}, corpus {file}"), bytes, &check);
    }
    let input = |seed| {
        let chance = &mut Chance::new(seed);
        let mut bytes = match corpus.is_empty() || !chance.one_in(4) {
            true => make(chance),
            false => corpus[chance.below(corpus.len())].1.clone(),
        };
        if chance.one_in(3) {
            mutate(&mut bytes, chance);
        }
        bytes
    };
    if let Some(seed) = number_of("PAGETIDE_SEED") {
        return check_input(&format!("{name}, seed {seed}"), &input(seed), &check);
    }
    let time = number_of("PAGETIDE_FUZZ_SECONDS").map_or(IN_THE_CHECK, Duration::from_secs);
    let (begin, first) = (Instant::now(), RandomState::new().hash_one(name));
    let mut tried = 0;
    // At least 128 inputs run, even if the machine is busy.
    while begin.elapsed() < time || tried < 2 * MEMORY_EVERY {
        let seed = first.wrapping_add(tried);
        check_input(&format!("{name}, seed {seed}"), &input(seed), &check);
        tried += 1;
        if tried.is_multiple_of(MEMORY_EVERY) {
            let taken = peak_bytes().saturating_sub(before);
            assert!(
                taken < MEMORY_MAX,
                "{name}, up to seed {seed}: {taken} bytes"
            );
        }
    }
    println!("fuzz {name}: {tried} inputs in {:?}", begin.elapsed());
}

/// Checks one input. If the check panics, prints `what` and the input; panics itself if the check
/// took too long.
fn check_input(what: &str, bytes: &[u8], check: &impl Fn(&[u8])) {
    let reported = PrintOnPanic { what, bytes };
    let (begin, before) = (Instant::now(), processor_time());
    check(bytes);
    let (waited, took) = (begin.elapsed(), processor_time().saturating_sub(before));
    assert!(
        took < CASE_TIME && waited < CASE_REAL_TIME,
        "{what}: it took {took:?} of processor time within {waited:?}"
    );
    drop(reported);
}

/// Returns the processor time of this thread since it began; 0 if the kernel does not report it.
fn processor_time() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = times.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Prints the input if the thread panics before this value is dropped.
struct PrintOnPanic<'a> {
    what: &'a str,
    bytes: &'a [u8],
}

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let shown = &self.bytes[..self.bytes.len().min(4096)];
            eprintln!("fuzz {}: {}", self.what, shown.escape_ascii());
        }
    }
}

/// Returns the inputs that once failed, from `corpus/NAME`: file name and content, sorted by name.
#[must_use]
pub fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let file = |entry: std::fs::DirEntry| {
        let bytes = std::fs::read(entry.path()).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), bytes))
    };
    let mut all: Vec<_> = entries.filter_map(file).collect();
    all.sort();
    all
}

/// The number in an environment variable; `None` if the variable is not set or is no number.
fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns the peak memory of the process, bytes; 0 if the kernel does not report it.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn inputs_of_one_seed_are_the_same_and_a_wrong_one_is_found() {
        let bytes = |seed| {
            let chance = &mut Chance::new(seed);
            let mut bytes = chance.bytes(40);
            mutate(&mut bytes, chance);
            bytes
        };
        assert!((0..50).all(|seed| bytes(seed) == bytes(seed)));
        let tried = Cell::new(0_u32);
        run(
            "none",
            |chance| chance.bytes(3),
            |_| tried.set(tried.get() + 1),
        );
        assert!(tried.get() >= 128);
        let found = std::panic::catch_unwind(|| {
            run(
                "none",
                |chance| chance.bytes(2),
                |bytes| assert!(bytes.len() < 2),
            );
        });
        assert!(found.is_err());
    }
}
