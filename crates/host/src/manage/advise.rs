//! Calls madvise on address ranges of another process. A call of the kernel stops at an address
//! where nothing is mapped; this module then continues after that address.
//!
//! Invariant: all memory in the ranges is advised, some of it perhaps twice, except memory that
//! does not accept the advice. No call covers more than [`BYTES_MAX`].

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;

use pagetables::{ADVICE_RANGES_MAX, Advice, access};
use rustix::io::Errno;
use rustix::process::getuid;

/// Maximum number of bytes in one call. During the call the kernel holds the lock that mmap and
/// munmap of the process need. Also, the kernel silently ends a call one page before 2 GiB.
const BYTES_MAX: u64 = 32 << 20;

/// Result of advising address ranges.
#[derive(Debug)]
pub(super) enum Advised {
    /// All mapped memory in the ranges was advised, where it accepts the advice.
    Done,
    /// The process is gone.
    Gone,
    /// The kernel refused.
    Refused(io::Error),
}

/// Advises `ranges` of a process. A call stops at a mapping that does not accept the advice (such
/// as locked memory), and would skip the rest of that range. The remaining ranges are therefore
/// split at `edges`, the start addresses of mappings, so that only memory that does not accept it
/// is skipped.
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

/// Like [`advise`], if it is already known that a call stops at the first of `ranges`.
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
            // The call stopped at range number `done`, which is skipped.
            Ok(done) => left = left.get(done + 1..).unwrap_or_default(),
            Err(what) => return what,
        }
        if left.is_empty() {
            return Advised::Done;
        }
    }
}

/// Advises ranges until one does not accept the advice. Returns how many ranges were advised before
/// that one. No range may be longer than [`BYTES_MAX`].
pub(super) fn until_stopped(
    process: (u32, &OwnedFd),
    ranges: &[Range<u64>],
    advice: Advice,
) -> Result<usize, Advised> {
    let mut done = 0;
    while done < ranges.len() {
        let part = &ranges[done..][..at_once(&ranges[done..])];
        // For shared pages of a file, the kernel checks whether the calling process owns the file
        // or may write it. If pagetide is not root but has file capabilities, pages that its user
        // could not have dropped must stay in the page cache.
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
                // Nothing is mapped at the first range, or its mapping does not accept the advice.
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

/// Splits ranges into pieces of at most [`BYTES_MAX`] bytes.
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

/// Returns how many of the ranges one call may cover, at least one.
fn at_once(ranges: &[Range<u64>]) -> usize {
    let mut bytes = 0;
    let fits = |range: &&Range<u64>| {
        bytes += range.end - range.start;
        bytes <= BYTES_MAX
    };
    let most = ranges.iter().take(ADVICE_RANGES_MAX);
    most.take_while(fits).count().max(1)
}

/// Splits ranges at the addresses `edges`, which are in ascending order.
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

/// Returns how many of `ranges` lie completely within their first `bytes` bytes.
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
    fn whole_ranges_counts_ranges_within_the_bytes() {
        let ranges = [0..4096, 8192..16384, 20480..24576];
        let counts = [0, 4095, 4096, 12287, 12288, 16384].map(|bytes| whole_ranges(&ranges, bytes));
        assert_eq!(counts, [0, 0, 1, 1, 2, 3]);
    }
}
