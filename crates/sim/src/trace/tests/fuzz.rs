//! Fuzzes the readers: compares the reader of block traces with a naive reader; reading files of
//! any format must end within the bounds.

use ::fuzz::Chance;

use super::*;

/// Maximum number of references of one input that are compared or counted, since one line may mean
/// millions of them.
const MOST: usize = 20_000;

/// Returns random lines of a block trace. Most are valid; some have the errors that editing by hand
/// or damage causes: huge numbers, extra fields, missing line ends.
fn lis(chance: &mut Chance) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..chance.below(30) {
        let start = match chance.below(20) {
            0 => chance.number(),
            _ => chance.below(1 << 20) as u64,
        };
        let blocks = match chance.below(20) {
            0 => chance.number(),
            1 => 1 << 24,
            _ => 1 + chance.below(100) as u64,
        };
        let space = chance.pick(&[" ", "\t", "  ", " \r"]);
        text += &format!("{start}{space}{blocks}{space}0{space}{}", chance.number());
        text += chance.pick(&["\n", "\n", "\n", "\n", "\r\n", "\n\n", " 7\n", "", "x\n"]);
    }
    text.into_bytes()
}

/// How the naive reader ended.
enum Ended {
    /// At the line with this number, which is wrong.
    Wrong(u64),
    /// At the line with this number, because [`MOST`] pages were read.
    Full(u64),
    /// At the trace's end.
    Whole,
}

/// The naive reader: returns the pages of a block trace, up to [`MOST`], and how it ended.
fn naive(bytes: &[u8]) -> (Vec<u64>, Ended) {
    let mut pages = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let text = String::from_utf8_lossy(line);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
        let Some([start, blocks @ 1..=0x0100_0000, _, _]) = numbers.as_deref() else {
            return (pages, Ended::Wrong(number));
        };
        let Some(end) = start.checked_add(*blocks) else {
            return (pages, Ended::Wrong(number));
        };
        pages.extend((*start..end).take(MOST - pages.len().min(MOST)));
        if pages.len() >= MOST {
            return (pages, Ended::Full(number));
        }
    }
    (pages, Ended::Whole)
}

/// Reads up to [`MOST`] pages with the real reader; returns them, and the error, if any.
fn read_some(name: &str, bytes: &[u8], options: &TraceOptions) -> (Vec<u64>, Option<TraceError>) {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let mut pages = Vec::new();
    let mut trace = match Trace::from_reader(Path::new(name), stream, options) {
        Ok(trace) => trace,
        Err(error) => return (pages, Some(error)),
    };
    let mut batch = Vec::new();
    loop {
        match trace.fill(&mut batch) {
            Ok(true) => pages.extend(batch.iter().map(|reference| reference.page)),
            Ok(false) => return (pages, None),
            Err(error) => return (pages, Some(error)),
        }
        if pages.len() >= MOST {
            pages.truncate(MOST);
            return (pages, None);
        }
    }
}

#[test]
fn fuzz_block_traces_are_read_as_line_by_line() {
    ::fuzz::run("lis", lis, |bytes| {
        let (pages, error) = read_some("t.lis", bytes, &TraceOptions::default());
        // Other tests cover compressed input and lines that are too long.
        let is_text = bytes
            .split(|byte| *byte == b'\n')
            .all(|line| line.len() < 60_000);
        if !is_text
            || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
            || bytes.starts_with(&[0x1f, 0x8b])
        {
            return;
        }
        let (reported, ended) = naive(bytes);
        match (error, ended) {
            // References of the same batch before the wrong line are not returned.
            (Some(error), Ended::Wrong(line)) => {
                assert_eq!(error.place, Position::Line(line), "{error}");
                assert!(reported.starts_with(&pages));
            }
            // The batch that contains the last page may contain a later line that is wrong.
            (Some(error), Ended::Full(line)) => {
                let Position::Line(at) = error.place else {
                    panic!("{error}");
                };
                assert!(at > line && reported.starts_with(&pages), "{error}");
            }
            (Some(error), Ended::Whole) => assert!(reported.is_empty(), "{error}"),
            (None, _) => assert_eq!(pages, reported),
        }
    });
}

#[test]
fn fuzz_files_of_every_format_end_with_references_or_a_placed_error() {
    let make = |chance: &mut Chance| match chance.below(3) {
        0 => lis(chance),
        1 => chance.bytes(400),
        _ => {
            let all: Vec<Reference> = (0..chance.below(40))
                .map(|time| Reference {
                    page: chance.number() >> 2,
                    time: time as u64,
                    kind: Kind::Access,
                })
                .collect();
            let name = NAMES[chance.below(NAMES.len())];
            let file = bytes(name, &all);
            if chance.one_in(3) { zstd(&file) } else { file }
        }
    };
    ::fuzz::run("traces", make, |bytes| {
        for format in Format::ALL {
            for cut_off in [false, true] {
                let options = TraceOptions {
                    format: Some(format),
                    cut_off,
                    ..TraceOptions::default()
                };
                let (pages, error) = read_some("t", bytes, &options);
                match error {
                    Some(error) => assert!(!error.what.is_empty() && !error.remedy.is_empty()),
                    None => assert!(!pages.is_empty()),
                }
            }
        }
    });
}
