//! Advice on ranges of another process, all of them: a call stops where nothing is mapped.
//!
//! Invariant: all is advised that takes the advice; a page may be twice.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use pagetables::{ADVICE_RANGES_MAX, Advice};
use rustix::io::Errno;

/// What became of it.
#[derive(Debug)]
pub(super) enum Advised {
    /// All ranges that are mapped.
    Done,
    /// The process is gone.
    Gone,
    /// The kernel does not let us.
    Refused(io::Error),
}

/// Gives `advice` on `ranges` of a process. A call stops where a mapping takes no such advice (locked memory), and
/// leaves the rest of that range: from there on ranges are cut at `edges`, where mappings begin, so that only what
/// takes none is left out. (The story: half of a range was locked, and the other half never left.)
pub(super) fn advise(
    pidfd: &OwnedFd,
    ranges: &[Range<u64>],
    advice: Advice,
    edges: impl FnOnce() -> Vec<u64>,
) -> Advised {
    let (mut ranges, mut done, mut edges) = (ranges.to_vec(), 0, Some(edges));
    while done < ranges.len() {
        let part = &ranges[done..ranges.len().min(done + ADVICE_RANGES_MAX)];
        let stopped = match pagetables::advise(pidfd, part, advice) {
            Ok(bytes) => {
                let whole = whole_ranges(part, bytes);
                done += whole;
                whole < part.len()
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::SRCH) => return Advised::Gone,
                // Nothing is mapped at the first one, or it is of a kind that takes no such advice.
                Some(Errno::NOMEM | Errno::INVAL) => true,
                Some(Errno::INTR | Errno::AGAIN) => false,
                _ => return Advised::Refused(error),
            },
        };
        match edges.take_if(|_| stopped) {
            Some(edges) => {
                ranges = cut(&ranges[done..], &edges());
                done = 0;
            }
            // The one that it stopped at is left out.
            None => done += usize::from(stopped),
        }
    }
    Advised::Done
}

/// The same ranges, none of them across an edge; `edges` ascend.
fn cut(ranges: &[Range<u64>], edges: &[u64]) -> Vec<Range<u64>> {
    let mut pieces = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        let first = edges.partition_point(|edge| *edge <= start);
        for edge in edges[first..].iter().take_while(|edge| **edge < range.end) {
            pieces.push(start..*edge);
            start = *edge;
        }
        pieces.push(start..range.end);
    }
    pieces
}

/// How many of `ranges` make up the first `bytes`.
fn whole_ranges(ranges: &[Range<u64>], bytes: u64) -> usize {
    let mut left = bytes;
    let fits = |range: &&Range<u64>| {
        let length = range.end - range.start;
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    };
    ranges.iter().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_mappings_begin() {
        let ranges = [0..8192, 12288..20480];
        assert_eq!(cut(&ranges, &[]), ranges);
        assert_eq!(cut(&ranges, &[0, 8192, 12288, 20480]), ranges);
        let pieces = [0..4096, 4096..8192, 12288..16384, 16384..20480];
        assert_eq!(cut(&ranges, &[4096, 16384]), pieces);
        assert_eq!(cut(&ranges[1..], &[4096, 16384]), pieces[2..]);
    }

    #[test]
    fn bytes_make_up_ranges() {
        let ranges = [0..4096, 8192..16384, 20480..24576];
        let counts = [0, 4095, 4096, 12287, 12288, 16384].map(|bytes| whole_ranges(&ranges, bytes));
        assert_eq!(counts, [0, 0, 1, 1, 2, 3]);
    }
}
