//! Advice on ranges of another process, all of them: a call stops where nothing is mapped.
//!
//! Invariant: all is advised that takes the advice; a page may be twice. No call is of more than [`BYTES_MAX`].

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use pagetables::{ADVICE_RANGES_MAX, Advice, access};
use rustix::io::Errno;
use rustix::process::getuid;

/// Bytes of one call. The kernel holds the lock that mmap and munmap take for all of a call, and takes what is longer than 2 GiB less
/// a page for so much, without a word. (The story: of a program of 8 GiB that was brought back 6 stayed in swap.)
const BYTES_MAX: u64 = 32 << 20;

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
    process: (u32, &OwnedFd),
    ranges: &[Range<u64>],
    advice: Advice,
    edges: impl FnOnce() -> Vec<u64>,
) -> Advised {
    let pieces = pieces(ranges);
    match until_stopped(process, &pieces, advice) {
        Ok(done) => advise_rest(process, &pieces[done..], advice, edges),
        Err(what) => what,
    }
}

/// The same of ranges of which the first one is known to stop a call, if there is any.
pub(super) fn advise_rest(
    process: (u32, &OwnedFd),
    ranges: &[Range<u64>],
    advice: Advice,
    edges: impl FnOnce() -> Vec<u64>,
) -> Advised {
    if ranges.is_empty() {
        return Advised::Done;
    }
    let pieces = cut(ranges, &edges());
    let mut left = &pieces[..];
    loop {
        match until_stopped(process, left, advice) {
            // The one that it stopped at is left out.
            Ok(done) => left = left.get(done + 1..).unwrap_or_default(),
            Err(what) => return what,
        }
        if left.is_empty() {
            return Advised::Done;
        }
    }
}

/// Gives `advice` until a range does not take it: how many before it did. None is longer than [`BYTES_MAX`].
pub(super) fn until_stopped(
    process: (u32, &OwnedFd),
    ranges: &[Range<u64>],
    advice: Advice,
) -> Result<usize, Advised> {
    let mut done = 0;
    while done < ranges.len() {
        let part = &ranges[done..][..at_once(&ranges[done..])];
        // The kernel takes pages of a file that is shared for its owner and for who may write it, and asks the adviser. Pages that
        // a user of our file's capabilities could not have dropped himself stay in the page cache.
        let keeps_files = !getuid().is_root();
        match access::advise(process, part, advice, keeps_files) {
            Ok(bytes) => {
                let whole = whole_ranges(part, bytes);
                done += whole;
                if whole < part.len() {
                    break;
                }
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::SRCH) => return Err(Advised::Gone),
                // Nothing is mapped at the first one, or it is of a kind that takes no such advice.
                Some(Errno::NOMEM | Errno::INVAL) => break,
                Some(Errno::INTR | Errno::AGAIN) => {}
                Some(Errno::TIMEDOUT) => {
                    let why = "its memory is locked (does it wait for a file server?)";
                    return Err(Advised::Refused(io::Error::other(why)));
                }
                _ => return Err(Advised::Refused(error)),
            },
        }
    }
    Ok(done)
}

/// The same ranges, none longer than a call may be.
pub(super) fn pieces(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut pieces = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + BYTES_MAX);
            pieces.push(start..end);
            start = end;
        }
    }
    pieces
}

/// How many of them one call takes, one at least.
fn at_once(ranges: &[Range<u64>]) -> usize {
    let mut bytes = 0;
    let fits = |range: &&Range<u64>| {
        bytes += range.end - range.start;
        bytes <= BYTES_MAX
    };
    let most = ranges.iter().take(ADVICE_RANGES_MAX);
    most.take_while(fits).count().max(1)
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
    fn no_call_is_longer_than_the_kernel_takes() {
        let all = 4096..(5 << 30) + 8192;
        let pieces = pieces(&[all.clone(), 6 << 30..(6 << 30) + 4096]);
        let bytes: u64 = pieces.iter().map(|one| one.end - one.start).sum();
        assert_eq!(bytes, all.end - all.start + 4096);
        assert!(pieces.windows(2).all(|two| two[0].end <= two[1].start));
        let mut left = &pieces[..];
        while !left.is_empty() {
            let (call, rest) = left.split_at(at_once(left));
            assert!(!call.is_empty());
            let bytes: u64 = call.iter().map(|one| one.end - one.start).sum();
            assert!(bytes <= BYTES_MAX);
            left = rest;
        }
    }

    #[test]
    fn bytes_make_up_ranges() {
        let ranges = [0..4096, 8192..16384, 20480..24576];
        let counts = [0, 4095, 4096, 12287, 12288, 16384].map(|bytes| whole_ranges(&ranges, bytes));
        assert_eq!(counts, [0, 0, 1, 1, 2, 3]);
    }
}
