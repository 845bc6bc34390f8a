//! Asking a zram to write pages back to the disk behind it (the kernel's admin guide, blockdev/zram, `writeback`).
//!
//! Invariant: no index is written that was not asked for. Kernels before 6.16 take one a call and refuse ranges; which this is, is
//! found out by the first range.

use std::io;
use std::path::Path;
use std::time::Instant;

use rustix::io::Errno;

use super::places::put_in_time;

/// What fits into one call: a page of the kernel's, less the end.
const TEXT_MAX: usize = 4000;

/// What one kernel takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    /// `page_indexes=LOW-HIGH`, and several of them.
    Ranges,
    /// `page_index=N`, one a call.
    Single,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// So many of the indexes, from the first on, were asked for.
    pub(super) indexes: usize,
    /// Why no more were, if it was not the time.
    pub(super) refused: Option<io::Error>,
}

/// Asks for ascending indexes, until `end`.
pub(super) fn ask(attribute: &Path, manner: &mut Manner, indexes: &[u64], end: Instant) -> Asked {
    let mut asked = Asked::default();
    while asked.indexes < indexes.len() && (asked.indexes == 0 || Instant::now() < end) {
        let rest = &indexes[asked.indexes..];
        let (text, count) = match manner {
            Manner::Ranges => text_of(rest),
            Manner::Single => (format!("page_index={}", rest[0]), 1),
        };
        // It is busy for a moment where it compresses once more meanwhile (Linux 6.13 to 6.18). (The story, of a reading: that was taken for a budget that is
        // used up, and nothing was written for a minute.)
        match put_in_time(attribute, &text, Errno::AGAIN, end) {
            Ok(()) => asked.indexes += count,
            Err(error)
                if *manner == Manner::Ranges
                    && Errno::from_io_error(&error) == Some(Errno::INVAL) =>
            {
                *manner = Manner::Single;
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => break,
            Err(error) => {
                asked.refused = Some(error);
                break;
            }
        }
    }
    asked
}

/// As many of these ascending indexes as fit into one call, neighbours joined; and how many those are.
fn text_of(indexes: &[u64]) -> (String, usize) {
    let (mut text, mut count) = (String::new(), 0);
    for run in indexes.chunk_by(|one, next| one + 1 == *next) {
        let word = match run {
            [one] => format!("page_index={one}"),
            [first, .., last] => format!("page_indexes={first}-{last}"),
            [] => continue,
        };
        if text.len() + 1 + word.len() > TEXT_MAX {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text += &word;
        count += run.len();
    }
    (text, count)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// The indexes that the kernel would understand.
    fn understood(text: &str) -> Vec<u64> {
        let words = text.split(' ').filter(|word| !word.is_empty());
        let of_word = |word: &str| match word.split_once('=').expect("a key") {
            ("page_index", one) => one.parse().map(|one| one..=one).expect("a number"),
            ("page_indexes", range) => {
                let (low, high) = range.split_once('-').expect("a range");
                low.parse().expect("a number")..=high.parse().expect("a number")
            }
            _ => panic!("{word}"),
        };
        words.flat_map(of_word).collect()
    }

    #[test]
    fn neighbours_are_one_range() {
        let (text, count) = text_of(&[3, 4, 5, 9, 11, 12]);
        assert_eq!(text, "page_indexes=3-5 page_index=9 page_indexes=11-12");
        assert_eq!(count, 6);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_asked_for_is_understood(indexes in prop::collection::btree_set(0_u64..3_000, 0..900)) {
            let indexes: Vec<u64> = indexes.into_iter().collect();
            let mut done = 0;
            while done < indexes.len() {
                let (text, count) = text_of(&indexes[done..]);
                prop_assert!(text.len() <= TEXT_MAX && count > 0);
                prop_assert_eq!(&understood(&text), &indexes[done..done + count]);
                done += count;
            }
        }
    }

    #[test]
    fn a_refusal_ends_it_and_time_does() {
        let gone = Path::new("/nonexistent/writeback");
        let mut manner = Manner::Single;
        let later = Instant::now() + Duration::from_secs(60);
        let asked = ask(gone, &mut manner, &[1, 2], later);
        assert!(asked.indexes == 0 && asked.refused.is_some());
        // A file that takes anything: one call at least, and then the time is over.
        let file = std::env::temp_dir().join(format!("pagetide-writeback-{}", std::process::id()));
        std::fs::write(&file, "").expect("a file");
        let asked = ask(&file, &mut manner, &[7, 9], Instant::now());
        assert!(asked.indexes == 1 && asked.refused.is_none());
        assert_eq!(std::fs::read_to_string(&file).expect("it"), "page_index=7");
        std::fs::remove_file(&file).expect("it");
    }
}
