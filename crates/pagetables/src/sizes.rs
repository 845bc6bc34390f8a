//! Two sources that know no accessed bits of single pages: `Referenced` of `/proc/PID/smaps`, and
//! sizes alone.
//!
//! Invariant: these sources report a mapping's share of memory, its Pss (a page that N processes
//! share counts as 1/N). They report this share as that many present pages from the mapping's start
//! on. Those pages have made-up frame numbers that no real frame has. All of them are as young as
//! the mapping's youngest page. Format: proc_pid_smaps(5).

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use crate::access;
use crate::entry::{Entry, PAGE_SIZE};
use crate::source::{Source, SourceKind, WalkResult};
use crate::walk::{Piece, Sink, Walked};

/// The first made-up frame number: that of the address 1 PiB, above the memory of any machine.
const FIRST_FRAME: u64 = 1 << 38;
/// Number of frame numbers for one key of [`Mappings::first_frames`]: those of 4 GiB of pages. A
/// larger mapping also uses the keys that follow its own.
const STRIDE: u64 = 1 << 20;
/// The bits that hold the frame number, in the entries that these sources make.
const MASK: u64 = ((1 << 40) - 1) << 12;

/// The source that reads `Referenced` of smaps: whether any page of a mapping was accessed.
#[derive(Debug, Default)]
pub struct Referenced(Mappings);

/// The source that knows only sizes: the accessed bits of its entries have no meaning.
#[derive(Debug, Default)]
pub struct Sizes(Mappings);

/// The made-up frame numbers.
#[derive(Debug, Default)]
struct Mappings {
    /// The first frame number of each mapping, by process id and key: the mapping's address, plus 1
    /// for each further [`STRIDE`] pages.
    first_frames: BTreeMap<(u32, u64), u64>,
}

/// One mapping as smaps reports it: its address, then sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Mapping {
    start: u64,
    pss: u64,
    referenced: u64,
    swapped: u64,
}

impl Mappings {
    /// Reads the smaps of a process, and passes an entry for each page of its mappings to `sink`.
    fn report(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<WalkResult> {
        let mut text = Vec::new();
        access::read_system((pid, "smaps"), &mut text)?;
        self.report_text(pid, &String::from_utf8_lossy(&text), ranges, sink);
        Ok(WalkResult {
            space: u64::from(pid),
            hides: None,
            walked: Walked::default(),
        })
    }

    /// Passes the entries of the mappings in `text`, the smaps of a process, to `sink`.
    fn report_text(&mut self, pid: u32, text: &str, ranges: &[Range<u64>], sink: &mut Sink<'_>) {
        let mut entries = Vec::new();
        for mapping in parse(text) {
            // Mappings and ranges ascend. A process may have a hundred thousand of each, so this is
            // a binary search, not a loop over all ranges.
            let number = ranges.partition_point(|range| range.end <= mapping.start);
            let range = ranges.get(number);
            if !range.is_some_and(|range| range.contains(&mapping.start)) {
                continue;
            }
            let (resident, swapped) = (mapping.pss / PAGE_SIZE, mapping.swapped / PAGE_SIZE);
            entries.clear();
            for page in 0..resident {
                let frame = self.frame(pid, mapping.start + page / STRIDE, page % STRIDE);
                entries.push(Entry(
                    1 | u64::from(mapping.referenced > 0) << 5 | frame << 12,
                ));
            }
            entries.extend((0..swapped).map(|_| Entry(1 << 9 | 1 << 10)));
            sink(
                number,
                Piece::Pages {
                    start: mapping.start,
                    entries: &entries,
                },
            );
        }
    }

    /// Returns the made-up frame number of a page. `key` is one of [`Mappings::first_frames`],
    /// `page` the index of the page among the pages of that key.
    fn frame(&mut self, pid: u32, key: u64, page: u64) -> u64 {
        let next = FIRST_FRAME + self.first_frames.len() as u64 * STRIDE;
        *self.first_frames.entry((pid, key)).or_insert(next) + page
    }
}

/// Parses all mappings of a smaps file.
fn parse(text: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let word = line.split_ascii_whitespace().next().unwrap_or_default();
        if let Some((start, _)) = word.split_once('-') {
            if let Ok(start) = u64::from_str_radix(start, 16) {
                found.push(Mapping {
                    start,
                    ..Mapping::default()
                });
            }
            continue;
        }
        let value = line
            .split_ascii_whitespace()
            .nth(1)
            .and_then(|text| text.parse::<u64>().ok());
        let (Some(last), Some(value)) = (found.last_mut(), value) else {
            continue;
        };
        let bytes = value.saturating_mul(1024);
        match word {
            "Pss:" => last.pss = bytes,
            "Referenced:" => last.referenced = bytes,
            "SwapPss:" => last.swapped = bytes,
            _ => {}
        }
    }
    found
}

impl Source for Referenced {
    fn kind(&self) -> SourceKind {
        SourceKind::Referenced
    }

    fn read(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<WalkResult> {
        self.0.report(pid, ranges, sink)
    }

    fn frame_mask(&self) -> u64 {
        MASK
    }
}

impl Source for Sizes {
    fn kind(&self) -> SourceKind {
        SourceKind::None
    }

    fn read(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<WalkResult> {
        let reading = self.0.report(pid, ranges, sink)?;
        Ok(WalkResult {
            hides: Some(true),
            ..reading
        })
    }

    fn frame_mask(&self) -> u64 {
        MASK
    }

    /// Clears nothing: this source has no accessed bits.
    fn clear(
        &mut self,
        _: (u32, crate::Part),
        _: &mut crate::Pace,
        _: u64,
        at_most: std::time::Duration,
    ) -> io::Result<crate::Cleared> {
        Ok(crate::Cleared::TooLong(at_most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Rss:                 100 kB
Pss:                  40 kB
Referenced:            8 kB
Swap:                 12 kB
SwapPss:               4 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0000001000 r--p 00000000 fe:00 12 /lib/x: y
Pss:                   4 kB
Referenced:            0 kB
";

    #[test]
    fn mappings_are_read() {
        let first = Mapping {
            start: 0x55d0_c8a0_0000,
            pss: 40960,
            referenced: 8192,
            swapped: 4096,
        };
        let second = Mapping {
            start: 0x7f00_0000_0000,
            pss: 4096,
            referenced: 0,
            swapped: 0,
        };
        assert_eq!(parse(TEXT), [first, second]);
    }

    /// Regression: for each mapping all ranges were searched from the first one on. For a process
    /// with 200,000 mappings, some of which had empty ranges, that took minutes.
    #[test]
    fn each_of_many_mappings_is_found() {
        let starts = (1..=200_000_u64).map(|number| number * 8192);
        let text: String = starts
            .clone()
            .map(|start| format!("{start:x}-{:x} rw-p 0 0:0 0\nPss: 4 kB\n", start + 4096))
            .collect();
        // Every fifth range is empty, as those of devices are: its mapping is not reported.
        let end = |start: u64| start + if start.is_multiple_of(5) { 0 } else { 4096 };
        let ranges: Vec<Range<u64>> = starts.clone().map(|start| start..end(start)).collect();
        let mut found = Vec::new();
        let mut sink = |number: usize, piece: Piece<'_>| {
            if let Piece::Pages { start, entries } = piece {
                assert_eq!(entries.len(), 1);
                found.push((number, start));
            }
        };
        Mappings::default().report_text(1, &text, &ranges, &mut sink);
        let wanted = starts.enumerate().filter(|one| !one.1.is_multiple_of(5));
        assert_eq!(found, wanted.collect::<Vec<_>>());
    }

    #[test]
    fn our_own_memory_adds_up_to_its_pss() {
        let pid = std::process::id();
        let mut pages = 0;
        let everything = 0..u64::MAX;
        let reported = Referenced::default().read(pid, &[everything], &mut |_, piece| {
            if let Piece::Pages { entries, .. } = piece {
                pages += entries.iter().filter(|entry| entry.is_present()).count();
            }
        });
        reported.expect("our own smaps");
        assert!(pages > 100, "{pages}");
    }

    #[test]
    fn a_mapping_keeps_frame_numbers_of_its_own() {
        let mut mappings = Mappings::default();
        let first = mappings.frame(1, 4096, 0);
        assert_ne!(mappings.frame(1, 8192, 0), first);
        assert_ne!(mappings.frame(2, 4096, 0), first);
        assert_eq!(mappings.frame(1, 4096, 5), first + 5);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text: String) {
            let _ = parse(&text);
        }
    }
}
