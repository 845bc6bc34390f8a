//! Advice on ranges of another process, all of them: a call stops where nothing is mapped.
//!
//! Invariant: each range is advised once, or was found not to be all mapped.

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

/// Gives `advice` on `ranges` of a process.
pub(super) fn advise(pidfd: &OwnedFd, ranges: &[Range<u64>], advice: Advice) -> Advised {
    let mut rest = ranges;
    while !rest.is_empty() {
        let part = &rest[..rest.len().min(ADVICE_RANGES_MAX)];
        match pagetables::advise(pidfd, part, advice) {
            Ok(bytes) => {
                let whole = whole_ranges(part, bytes);
                // The one that it stopped at is left out.
                let skipped = usize::from(whole < part.len());
                rest = &rest[whole + skipped..];
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::SRCH) => return Advised::Gone,
                // Nothing is mapped at the first one, or it is of a kind that takes no such advice.
                Some(Errno::NOMEM | Errno::INVAL) => rest = &rest[1..],
                Some(Errno::INTR | Errno::AGAIN) => {}
                _ => return Advised::Refused(error),
            },
        }
    }
    Advised::Done
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
    fn bytes_make_up_ranges() {
        let ranges = [0..4096, 8192..16384, 20480..24576];
        let counts = [0, 4095, 4096, 12287, 12288, 16384].map(|bytes| whole_ranges(&ranges, bytes));
        assert_eq!(counts, [0, 0, 1, 1, 2, 3]);
    }
}
