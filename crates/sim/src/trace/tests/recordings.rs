//! Tests what is read from whole, cut-off and damaged recordings.

use event_log::{Encoder, Header, Pages};

use super::*;

/// Makes a recording with one scan per second; `scans` are the pages that each scan found accessed.
/// All pages that were ever accessed are present.
fn recording(scans: &[&[u64]], unknown: u64) -> (Vec<u8>, Vec<u8>) {
    let header = Header {
        page_bytes: 4096,
        interval_ms: 1000,
        seed: 3,
        ..Header::default()
    };
    let (mut encoder, mut before) = (Encoder::new(&header), Pages::default());
    for (number, accessed) in (1..).zip(scans) {
        let mut after = before.clone();
        for (chunk, _) in before.chunks(0..u64::MAX) {
            after.chunk_mut(chunk).accessed = [0; 8];
        }
        for page in *accessed {
            let planes = after.chunk_mut(page / 512);
            let (at, bit) = ((page % 512 / 64) as usize, 1 << (page % 64));
            planes.present[at] |= bit;
            planes.accessed[at] |= bit;
        }
        encoder.space(0, &before, &after);
        encoder.scan(number * 1000, unknown);
        before = after;
    }
    (encoder.take(), Encoder::end_of(scans.len() as u64))
}

const SCANS: [&[u64]; 3] = [&[1, 2, 3, 700], &[2, 700, 5], &[1]];

fn note(bytes: &[u8], options: &TraceOptions) -> (Vec<(u64, u64)>, Option<String>) {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let mut trace = Trace::from_reader(Path::new("t"), stream, options).expect("a recording");
    assert_eq!(trace.format(), Format::Recording, "its first bytes tell");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch).expect("sound") {
        all.extend(batch.iter().map(|one| (one.time, one.page)));
    }
    (all, trace.note())
}

#[test]
fn the_pages_of_each_scan_are_its_references() {
    let (mut bytes, end) = recording(&SCANS, 0);
    bytes.extend(&end);
    let (mut all, note) = note(&bytes, &TraceOptions::default());
    assert_eq!(note, None);
    all.sort_unstable();
    let want = [
        (1000, 1),
        (1000, 2),
        (1000, 3),
        (1000, 700),
        (2000, 2),
        (2000, 5),
        (2000, 700),
        (3000, 1),
    ];
    assert_eq!(all, want);
    let packed = plain("t", &zstd(&bytes)).expect("zstd");
    assert_eq!(packed.len(), want.len());
}

#[test]
fn a_cut_off_recording_yields_its_whole_scans_and_a_note() {
    let (whole, end) = recording(&SCANS, 0);
    let first = recording(&SCANS[..1], 0).0.len();
    for cut in first..whole.len() + end.len() {
        let bytes = [&whole[..], &end].concat();
        let (all, note) = note(&bytes[..cut], &TraceOptions::default());
        let scans = match cut {
            cut if cut >= whole.len() => 3,
            _ => all.last().map_or(0, |(time, _)| time / 1000),
        };
        let note = note.expect("it has no end");
        assert!(
            note.contains(&format!("{scans} looks are whole")),
            "{cut}: {note}"
        );
        assert_eq!(
            all.len(),
            SCANS
                .iter()
                .take(usize::try_from(scans).expect("few"))
                .map(|scan| scan.len())
                .sum::<usize>()
        );
    }
}

#[test]
fn damage_in_the_middle_is_an_error_unless_it_may_end_there() {
    let (mut bytes, end) = recording(&SCANS, 0);
    bytes.extend(&end);
    let at = recording(&SCANS[..1], 0).0.len();
    bytes[at + 10] ^= 1;
    let error = error("t", &bytes);
    assert_eq!(error.place, Position::Byte(at as u64));
    assert!(error.what.contains("checksum") && error.remedy.contains("--cut-off"));
    let options = TraceOptions {
        cut_off: true,
        ..TraceOptions::default()
    };
    assert_eq!(note(&bytes, &options).0.len(), 4);
}

#[test]
fn bytes_after_the_end_and_a_wrong_count_are_damage() {
    let (whole, end) = recording(&SCANS, 0);
    for (bytes, what) in [
        ([&whole[..], &end, &end].concat(), "data follows where"),
        (
            [&whole[..], &Encoder::end_of(7)].concat(),
            "scans are missing",
        ),
        (b"pagetide-events1".to_vec(), "does not begin"),
    ] {
        let options = TraceOptions {
            format: Some(Format::Recording),
            ..TraceOptions::default()
        };
        let error = read("t", &bytes, &options).expect_err(what);
        assert!(error.what.contains(what), "{error}");
    }
}

#[test]
fn unknown_accesses_are_reported() {
    let (mut bytes, end) = recording(&SCANS, 1);
    bytes.extend(&end);
    let note = note(&bytes, &TraceOptions::default()).1.expect("a note");
    assert!(note.starts_with("of 50.0% of the references"), "{note}");
}
