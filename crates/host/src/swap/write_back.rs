//! Requests that a zram writes pages back to the disk behind it (the kernel's admin guide,
//! blockdev/zram, `writeback`).
//!
//! Invariant: only requested pages are written. Kernels before 6.16 accept one page per call and
//! refuse ranges; whether this kernel does is found with the first range.

use std::io;
use std::path::Path;
use std::time::Instant;

use rustix::io::Errno;

use super::places::put_in_time;

/// Largest length in bytes of the text of one call. The kernel accepts less than a page of its own.
const TEXT_MAX: usize = 4000;

/// The format of requests that the kernel accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    /// `page_indexes=LOW-HIGH`, several in one call.
    Ranges,
    /// `page_index=N`, one per call.
    Single,
}

/// The result of [`ask`].
#[derive(Debug, Default)]
pub(super) struct WritebackResult {
    /// Number of pages that were requested, from the start of the given list.
    pub(super) indexes: usize,
    /// The kernel's error if it refused a request; `None` if all were requested or the time was
    /// over.
    pub(super) refused: Option<io::Error>,
}

/// Requests writeback of the pages `indexes`, which are in ascending order, until `end`; makes at
/// least one call. `attribute` is the kernel's file, and `manner` is corrected if the kernel
/// refuses ranges.
pub(super) fn ask(
    attribute: &Path,
    manner: &mut Manner,
    indexes: &[u64],
    end: Instant,
) -> WritebackResult {
    let mut requested = WritebackResult::default();
    while requested.indexes < indexes.len() && (requested.indexes == 0 || Instant::now() < end) {
        let rest = &indexes[requested.indexes..];
        let (text, count) = match manner {
            Manner::Ranges => text_of(rest),
            Manner::Single => (format!("page_index={}", rest[0]), 1),
        };
        // While the zram recompresses, the kernel refuses for a moment (EAGAIN, Linux 6.13 to
        // 6.18). That is not reported as a refusal, which would be taken for a used-up limit.
        match put_in_time(attribute, &text, Errno::AGAIN, end) {
            Ok(()) => requested.indexes += count,
            Err(error)
                if *manner == Manner::Ranges
                    && Errno::from_io_error(&error) == Some(Errno::INVAL) =>
            {
                *manner = Manner::Single;
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => break,
            Err(error) => {
                requested.refused = Some(error);
                break;
            }
        }
    }
    requested
}

/// Returns the text of one call, with neighbouring pages joined into ranges, and how many of the
/// indexes it holds: as many as fit into [`TEXT_MAX`]. The indexes are in ascending order.
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

    /// Returns the indexes in a text, parsed as the kernel would.
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
        fn requests_are_parsed_as_intended(indexes in prop::collection::btree_set(0_u64..3_000, 0..900)) {
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
    fn requests_end_at_a_refusal_or_at_the_deadline() {
        let gone = Path::new("/nonexistent/writeback");
        let mut manner = Manner::Single;
        let later = Instant::now() + Duration::from_secs(60);
        let requested = ask(gone, &mut manner, &[1, 2], later);
        assert!(requested.indexes == 0 && requested.refused.is_some());
        // A file accepts anything: one call is made, and then the time is over.
        let file = std::env::temp_dir().join(format!("pagetide-writeback-{}", std::process::id()));
        std::fs::write(&file, "").expect("a file");
        let requested = ask(&file, &mut manner, &[7, 9], Instant::now());
        assert!(requested.indexes == 1 && requested.refused.is_none());
        assert_eq!(std::fs::read_to_string(&file).expect("it"), "page_index=7");
        std::fs::remove_file(&file).expect("it");
    }
}
