//! Replays recordings that the tests make.

use event_log::{Encoder, Header, Pages};

use super::*;

/// A temporary file, removed when dropped.
pub(in crate::scenario) struct Scratch(pub(in crate::scenario) PathBuf);

impl Scratch {
    fn new(bytes: &[u8]) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("recorded-{}-{number}.rec", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).expect("a temporary file");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes a recording with one scan per second. Each element of `scans` is the number of present
/// pages (numbered from 0), and the range of pages that were accessed.
pub(in crate::scenario) fn recording(scans: &[(u64, std::ops::Range<u64>)]) -> Scratch {
    let header = Header {
        page_bytes: 4096,
        interval_ms: 1000,
        ..Header::default()
    };
    let (mut encoder, mut before) = (Encoder::new(&header), Pages::default());
    for (number, (there, accessed)) in (1..).zip(scans) {
        let mut after = Pages::default();
        for page in 0..*there {
            let planes = after.chunk_mut(page / 512);
            let (at, bit) = ((page % 512 / 64) as usize, 1 << (page % 64));
            planes.present[at] |= bit;
            planes.accessed[at] |= if accessed.contains(&page) { bit } else { 0 };
        }
        encoder.space(0, &before, &after);
        encoder.scan(number * 1000, 0);
        before = after;
    }
    let mut bytes = encoder.take();
    bytes.extend(Encoder::end_of(scans.len() as u64));
    Scratch::new(&bytes)
}

fn read(scratch: &Scratch) -> Result<Arc<Recorded>, String> {
    let name = scratch.0.file_name().expect("a name").to_string_lossy();
    Recordings::within(&std::env::temp_dir()).get(&name)
}

#[test]
fn accesses_are_spread_over_the_time_between_scans() {
    let scratch = recording(&[(100, 0..100), (100, 0..10), (90, 0..0)]);
    let recorded = read(&scratch).expect("sound");
    assert_eq!((recorded.pages(), recorded.accesses()), (100, 110));
    let mut at = Replay::default();
    let mut until = |now| std::iter::from_fn(|| recorded.next(&mut at, now)).collect::<Vec<_>>();
    assert_eq!(until(500).len(), 50);
    assert_eq!(until(1000).len(), 50);
    assert_eq!(until(1500).len(), 5, "the second look's");
    assert!(
        until(2000)
            .iter()
            .all(|event| matches!(event, Event::Access(_)))
    );
    assert_eq!(until(2999), []);
    let gone = until(10_000);
    assert_eq!(gone.len(), 10, "ten pages were given back");
    assert!(gone.iter().all(|event| matches!(event, Event::Unmap(_))));
    assert_eq!(until(u64::MAX), []);
}

#[test]
fn a_file_that_is_no_recording_is_an_error() {
    let empty = recording(&[]);
    let reported = read(&empty).expect_err("nothing in it");
    assert!(reported.contains("nothing is recorded"), "{reported}");
    let other = Scratch::new(b"[run]");
    let reported = read(&other).expect_err("no recording");
    assert!(
        reported.contains("does not begin as a recording"),
        "{reported}"
    );
    let missing = Recordings::within(Path::new("/nowhere")).get("x.rec");
    assert!(missing.expect_err("no file").contains("/nowhere/x.rec"));
}

/// Returns the counts of tenants that replay a recording, by name, at the end of the run.
fn replayed(run: &str, tenant: &str) -> Vec<crate::scenario::world::Counts> {
    // First, 200 pages are accessed. Half of them stay in use; at the end the other half is freed.
    let all = (200, 0..200);
    let half = (200, 0..100);
    let scratch = recording(&[all, half.clone(), half.clone(), half, (100, 0..100)]);
    let name = scratch.0.to_string_lossy().into_owned();
    let text = format!(
        "[run]\nduration = \"6s\"\n{run}\n[[tenant]]\nname = \"x\"\n{tenant}\n\
         work = [{{ pattern = \"recording\", file = \"{name}\" }}]"
    );
    let plans = crate::scenario::parse("x.toml", &text, &[]).expect("a good file");
    let mut world = crate::scenario::world::World::new(&plans.runs[0]);
    while !world.is_over() {
        world.step();
    }
    world.guests.iter().map(|guest| guest.counts).collect()
}

#[test]
fn a_replay_repeats_the_recording() {
    for bits in ["engine", "page-tables"] {
        let run = format!("accessed-bits = \"{bits}\"");
        let counts = replayed(&run, "")[0];
        assert_eq!((counts.touches, counts.misses), (600, 200), "{bits}");
        assert_eq!((counts.unmapped, counts.resident), (100, 100), "{bits}");
    }
}

#[test]
fn a_replay_may_have_another_size_policy_and_neighbours() {
    for policy in ["multi-gen", "active-inactive", "arc"] {
        let run = format!("policy = \"{policy}\"");
        let all = replayed(&run, "count = 3\nmemory-max = \"600K\"");
        assert_eq!(all.len(), 3, "{policy}");
        for counts in all {
            assert_eq!(counts.touches, 600, "{policy}");
            assert!(
                counts.resident <= 150 && counts.pgsteal >= 50,
                "{policy}: {counts:?}"
            );
        }
    }
}

#[test]
fn keys_that_a_recording_does_not_have_are_refused() {
    for (more, reported) in [
        ("", "a recording without its file"),
        ("file = \"x\"\nrate = 3", "has its own size, rate"),
        ("file = \"nowhere.rec\"", "nowhere.rec"),
    ] {
        let text =
            format!("[[tenant]]\nname = \"x\"\n[[tenant.work]]\npattern = \"recording\"\n{more}");
        let error = crate::scenario::parse("x.toml", &text, &[]).expect_err(reported);
        assert!(error.what.contains(reported), "{error}");
    }
    let text = "[[tenant]]\nname = \"x\"\nwork = [{ pattern = \"loop\", size = \"1M\" }]";
    let error = crate::scenario::parse("x.toml", text, &[]).expect_err("no rate");
    assert!(error.what.contains("missing field `rate`"), "{error}");
}

/// Regression: if only the first minute of ten was replayed, less memory sufficed, and the result
/// did not say that the replay was partial.
#[test]
fn partial_replays_and_recordings_are_reported() {
    let scratch = recording(&[(100, 0..100), (100, 0..10), (90, 0..0)]);
    let recorded = read(&scratch).expect("sound");
    assert!(recorded.notes(3000).is_empty());
    let notes = recorded.notes(1000);
    assert!(notes[0].contains("first 1000 ms of 3000"), "{notes:?}");
    let whole = std::fs::read(&scratch.0).expect("it is there");
    let cut = Scratch::new(&whole[..whole.len() - 3]);
    let notes = read(&cut).expect("its looks are whole").notes(3000);
    assert!(notes[0].contains("it has no end"), "{notes:?}");
}
