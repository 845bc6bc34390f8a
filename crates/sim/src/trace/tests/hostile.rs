//! Reads broken, cut-off, huge and hostile files: each must cause an error with its position, never
//! a panic, and never be accepted silently.

use super::*;
use std::io::Read;

#[derive(Clone, Debug)]
enum Change {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<prop::sample::Index>;
    let text = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..40),
        "[-+0-9a-fx,;\" \n\r\t.]{1,40}".prop_map(String::into_bytes),
        Just(b"18446744073709551616 ".to_vec()),
        Just(u64::MAX.to_le_bytes().to_vec()),
    ];
    let change = prop_oneof![
        (at(), 1u8..).prop_map(|(at, bits)| Change::Flip(at, bits)),
        at().prop_map(Change::Cut),
        (at(), text).prop_map(|(at, text)| Change::Insert(at, text)),
        (at(), 1usize..30).prop_map(|(at, n)| Change::Remove(at, n)),
    ];
    prop::collection::vec(change, 1..4)
}

fn apply(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let len = bytes.len() + 1;
        match change {
            Change::Flip(at, bits) => {
                let at = at.index(len);
                bytes.get_mut(at).into_iter().for_each(|b| *b ^= bits);
            }
            Change::Cut(at) => bytes.truncate(at.index(len)),
            Change::Insert(at, text) => {
                let at = at.index(len);
                bytes.splice(at..at, text.iter().copied());
            }
            Change::Remove(at, n) => {
                let at = at.index(len);
                bytes.drain(at..(at + n).min(len - 1));
            }
        }
    }
    bytes
}

/// Reads a trace to its end, or 100,000 of its references, and returns their number. Does not keep
/// them, because a mutated `nblocks` may request more than fits into memory.
fn ends(name: &str, bytes: &[u8], options: &TraceOptions) -> Result<u64, TraceError> {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let mut trace = Trace::from_reader(Path::new(name), stream, options)?;
    let mut batch = Vec::new();
    while trace.references() < 100_000 && trace.fill(&mut batch)? {}
    Ok(trace.references())
}

proptest! {
    #[test]
    fn changed_files_end_with_references_or_a_placed_error(
        all in references(),
        changes in changes(),
        packed: bool,
        cut_off: bool,
    ) {
        for name in NAMES {
            let file = apply(bytes(name, &all), &changes);
            let file = if packed { zstd(&file) } else { file };
            let options = TraceOptions { cut_off, ..TraceOptions::default() };
            match ends(name, &file, &options) {
                Ok(n) => prop_assert!(n > 0),
                Err(error) => prop_assert!(!error.what.is_empty() && !error.remedy.is_empty()),
            }
        }
    }

    #[test]
    fn damaged_compression_is_an_error_or_nothing_changed(
        all in references(),
        changes in changes(),
    ) {
        let file = bytes("t.w100", &all);
        let (sound, damaged) = (zstd(&file), apply(zstd(&file), &changes));
        if let Ok(n) = ends("t.w100", &damaged, &TraceOptions::default()) {
            // zstd has no checksum by default, so damaged data may decompress to other references.
            prop_assert!(n > 0 && (damaged != sound || n == all.len() as u64));
        }
    }

    #[test]
    fn noise_is_no_trace_of_any_format(
        noise in prop::collection::vec(any::<u8>(), 0..2000),
        which in 0..Format::ALL.len(),
    ) {
        let options = TraceOptions { format: Some(Format::ALL[which]), ..TraceOptions::default() };
        if let Err(error) = ends("noise", &noise, &options) {
            prop_assert!(error.to_string().starts_with("noise: "));
        }
    }

    #[test]
    fn cut_binary_files_are_never_taken_for_whole(all in references(), cut in 1usize..16) {
        let name = "t.oracleGeneral";
        let mut file = bytes(name, &all);
        file.truncate(file.len() - cut);
        prop_assert!(plain(name, &file).is_err(), "{}", name);
        let packed = zstd(&file);
        prop_assert!(plain(name, &packed[..packed.len() - 1]).is_err(), "{}", name);
    }
}

/// Name of the file, its text, where it is broken, and a part of the error's text.
const BROKEN: &[(&str, &str, Position, &str)] = &[
    (
        "a.lis",
        "1 1 0 0\n2 x 0 1\n",
        Position::Line(2),
        "`x` is no number",
    ),
    (
        "a.lis",
        "1 1 0\n",
        Position::Line(1),
        "3 fields instead of 4",
    ),
    (
        "a.lis",
        "1 1 0 0 0\n",
        Position::Line(1),
        "more than 4 fields",
    ),
    (
        "a.lis",
        "1 0 0 0\n",
        Position::Line(1),
        "a request of 0 blocks",
    ),
    (
        "a.lis",
        "0 99999999999 0 0\n",
        Position::Line(1),
        "99999999999 blocks",
    ),
    (
        "a.lis",
        "18446744073709551615 1 0 0",
        Position::Line(1),
        "beyond 64 bits",
    ),
    (
        "a.lis",
        "\n\n18446744073709551616 1 0 0",
        Position::Line(3),
        "is no number",
    ),
    (
        "a.csv",
        "1\n2\n-3\n",
        Position::Line(3),
        "`-3` is no number",
    ),
    (
        "a.csv",
        "1\n\"2\n",
        Position::Line(2),
        "a quote that is not closed",
    ),
    (
        "a.csv",
        "1\n\"2\"x\n",
        Position::Line(2),
        "text after a closing quote",
    ),
    ("a.csv", "1\n0x+5\n", Position::Line(2), "is no number"),
    ("a.csv", "-1\n5\n", Position::Line(1), "is no number"),
    ("a.csv", "id\n", Position::Whole, "no reference"),
    ("a.csv", "", Position::Whole, "no reference"),
    (
        "a.w5",
        "abcdefg",
        Position::Byte(0),
        "7 bytes into a record of 8",
    ),
    ("a.w5", "\x03\0\0\0\0\0\0\0", Position::Byte(0), "kind 3"),
    (
        "a.oracleGeneral",
        "123",
        Position::Byte(0),
        "3 bytes into a record of 24",
    ),
    (
        "a.unknown",
        "1",
        Position::Whole,
        "does not tell its format",
    ),
    ("a.csv", "\x1f\u{8b}", Position::Line(1), "is no number"),
];

#[test]
fn errors_name_the_place() {
    for &(name, text, place, what) in BROKEN {
        let error = error(name, text.as_bytes());
        assert_eq!(error.place, place, "{text:?}: {error}");
        assert!(error.what.contains(what), "{text:?}: {error}");
    }
    let gzip = error("a.csv", &[0x1f, 0x8b, 8, 0]);
    assert!(gzip.what.contains("gzip") && gzip.remedy.contains("zcat"));
}

/// A stream without end.
struct Endless(&'static [u8], usize);

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        for byte in out.iter_mut() {
            *byte = self.0[self.1 % self.0.len()];
            self.1 += 1;
        }
        Ok(out.len())
    }
}

#[test]
fn a_line_without_end_is_an_error_in_bounded_memory() {
    for name in ["a.lis", "a.csv"] {
        let stream = Box::new(Endless(b"7", 0));
        let trace = Trace::from_reader(Path::new(name), stream, &TraceOptions::default());
        let error = trace.and_then(|mut trace| trace.fill(&mut Vec::new()));
        let error = error.expect_err("too long");
        assert_eq!(error.place, Position::Line(1));
        assert!(error.what.contains("65536 bytes"), "{error}");
    }
}

#[test]
fn a_request_of_millions_of_blocks_comes_in_batches() {
    let stream = Box::new(Endless(b"5 16777216 0 0\n", 0));
    let options = TraceOptions::default();
    let mut trace = Trace::from_reader(Path::new("a.lis"), stream, &options).expect("sound");
    let mut batch = Vec::new();
    for _ in 0..100 {
        assert!(trace.fill(&mut batch).expect("sound"));
        assert!(batch.len() == BATCH && batch.capacity() < 4 * BATCH);
    }
}

#[test]
fn a_bomb_of_zeros_is_read_in_bounded_memory() {
    // 64 MiB of zeros, compressed to a few kilobytes: as page windows they are fetches of page 0.
    let bomb = zstd(&vec![0; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert!(ends("a.w1", &bomb, &TraceOptions::default()).expect("sound") >= 100_000);
    // As text they are a line without end.
    assert!(error("a.lis", &bomb).what.contains("65536 bytes"));
}

#[test]
fn a_window_above_the_limit_is_an_error_and_takes_no_memory() {
    // A frame header that claims a window of 2^41 bytes, then a block.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00];
    let error = error("a.w1", &frame);
    assert!(error.what.contains("cannot decompress"), "{error}");
    assert!(error.remedy.contains("--long"), "{error}");
}

#[test]
fn missing_columns_are_errors() {
    let with = |id: Column, time: Option<Column>| {
        let csv = CsvOptions {
            id,
            time,
            ..CsvOptions::default()
        };
        let options = TraceOptions {
            csv,
            ..TraceOptions::default()
        };
        read("a.csv", b"id,b\n1,2\n", &options).expect_err("no such column")
    };
    let far = with(Column::Number(3), None);
    assert!(far.to_string().contains("column 3 is wanted"), "{far}");
    let name = with(Column::Name("x".into()), None);
    assert!(
        name.to_string()
            .contains("no column is called `x` in `id,b`"),
        "{name}"
    );
    let zero = with(Column::Number(0), None);
    assert!(zero.what.contains("from 1"), "{zero}");
    let time = with(Column::Name("id".into()), Some(Column::Number(9)));
    assert!(time.to_string().contains("line 2"), "{time}");
}

#[test]
fn files_that_cannot_be_opened_are_errors() {
    let open = |path: &str| Trace::open(Path::new(path), &TraceOptions::default());
    let error = open("/nonexistent.csv").expect_err("not there");
    assert!(
        error
            .to_string()
            .starts_with("/nonexistent.csv: cannot open it")
    );
    assert!(
        open("/")
            .expect_err("a directory")
            .what
            .contains("directory")
    );
}

/// Regression: eight letters make a number that passes for a later index. So any text whose length
/// is a multiple of 24 was accepted as a trace.
#[test]
fn a_text_is_not_accepted_as_oracle_general() {
    let text = b"A text of 24 characters.A text of 24 characters.";
    let reported = plain("t.oracleGeneral", text).expect_err("it is a text");
    assert!(reported.to_string().contains("next request"), "{reported}");
}
