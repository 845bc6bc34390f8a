//! Walks of the memory of this process and of child processes, compared with the kernel's pagemap.

use super::*;
use crate::clear::{Cleared, Pace, Part};
use crate::entry::Kind;
use crate::testing::Program;

fn reader() -> Reader {
    Reader::open().expect("root, BPF and BTF")
}

#[test]
fn pieces_cover_ranges_once() {
    let ranges = [
        4096..8192,
        8192..8192,
        MIB2 - 4096..MIB2 + 4096,
        GIB - 4096..GIB + 4096,
    ];
    let starts = |region| -> Vec<u64> {
        let leaves = tables_in(region, &ranges);
        assert!(leaves.iter().all(|leaf| leaf.region == region));
        leaves.iter().map(|leaf| leaf.start).collect()
    };
    assert_eq!(starts(0), [0, MIB2, GIB - MIB2]);
    assert_eq!(starts(GIB), [GIB]);
    let mut reported = Vec::new();
    clip(&(0..MIB2), &ranges, |number, part| {
        reported.push((number, part))
    });
    assert_eq!(reported, [(0, 4096..8192), (2, MIB2 - 4096..MIB2)]);
}

/// A child process that fills `mib` MiB and then waits.
struct Filled(Program);

impl Filled {
    fn new(mib: u64) -> Filled {
        let script = format!(
            "import sys\nm=bytearray({mib}<<20)\nfor i in range(0,len(m),4096): m[i]=1\nprint('x',flush=True)\nsys.stdin.read()"
        );
        let mut child = Program::python(&script);
        child.line().expect("it says when it is filled");
        // Before the child sleeps in read(2) it still touches pages of its libraries.
        let used = || crate::calls::cpu_time(child.id()).expect("alive");
        let mut before = used();
        for _ in 0..250 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = used();
            if now == before {
                break;
            }
            before = now;
        }
        Filled(child)
    }

    /// The address ranges of all mappings of the child, except the kernel's own (vdso, vvar).
    fn ranges(&self) -> Vec<Range<u64>> {
        let text = std::fs::read_to_string(format!("/proc/{}/maps", self.0.id())).expect("alive");
        let mut ranges = Vec::new();
        for line in text.lines().filter(|line| !line.contains("[v")) {
            let (start, rest) = line.split_once('-').expect("a range");
            let end = rest.split(' ').next().expect("its end");
            let hex = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
            ranges.push(hex(start)..hex(end));
        }
        ranges
    }
}

#[derive(Default, PartialEq, Debug)]
struct Counts {
    present: u64,
    accessed: u64,
    swapped: u64,
    all: u64,
}

fn count(reader: &mut Reader, child: &Filled) -> Counts {
    let space = reader.attach(child.0.id()).expect("alive");
    let ranges = child.ranges();
    let mut counts = Counts::default();
    let mut note = |entry: Entry, pages: u64| {
        counts.all += pages;
        counts.present += pages * u64::from(entry.is_present());
        counts.accessed += pages * u64::from(entry.is_present() && entry.is_accessed());
        counts.swapped += pages * u64::from(entry.kind() == Kind::Swapped);
    };
    reader
        .walk(&space, &ranges, &mut |_, piece| match piece {
            Piece::Pages { entries, .. } => entries.iter().for_each(|entry| note(*entry, 1)),
            Piece::Whole(whole) => note(whole.entry, whole.bytes / 4096),
            Piece::Unsure { start, bytes } => {
                panic!("{bytes} bytes at {start:#x} of a sleeper changed")
            }
        })
        .expect("it can be read");
    let all: u64 = ranges
        .iter()
        .map(|range| (range.end - range.start) / 4096)
        .sum();
    assert_eq!(counts.all, all, "each page is told once");
    counts
}

/// Number of present pages of the child, as the kernel's pagemap reports it.
fn present_by_pagemap(child: &Filled) -> u64 {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(format!("/proc/{}/pagemap", child.0.id())).expect("alive");
    let mut present = 0;
    for range in child.ranges() {
        let mut bytes =
            vec![0; usize::try_from((range.end - range.start) / 4096 * 8).expect("fits")];
        file.read_exact_at(&mut bytes, range.start / 4096 * 8)
            .expect("mapped");
        present += bytes.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count() as u64;
    }
    present
}

#[test]
fn present_pages_are_those_of_pagemap_and_bits_can_be_cleared() {
    let (mut reader, child) = (reader(), Filled::new(64));
    let before = count(&mut reader, &child);
    assert!(before.present > 64 * 256);
    assert_eq!(before.present, present_by_pagemap(&child));
    assert!(before.accessed > 64 * 256);
    let mut pace = Pace::default();
    for part in [Part::Anon, Part::File] {
        let limit = std::time::Duration::from_secs(5);
        let cleared = pace.clear(child.0.id(), part, before.present, limit);
        assert!(matches!(cleared, Ok(Cleared::Done(_))), "{cleared:?}");
    }
    // The child sleeps in read(2): it accesses nothing, or very little after a signal.
    let after = count(&mut reader, &child);
    assert_eq!(after.present, before.present);
    assert!(after.accessed < 64, "{after:?}");
}

#[test]
fn a_process_that_is_gone_has_no_present_pages() {
    let (mut reader, child) = (reader(), Filled::new(1));
    let space = reader.attach(child.0.id()).expect("alive");
    let ranges = child.ranges();
    drop(child);
    let mut present = 0;
    let walked = reader.walk(&space, &ranges, &mut |_, piece| {
        if let Piece::Pages { entries, .. } = piece {
            present += entries.iter().filter(|entry| entry.is_present()).count();
        }
    });
    walked.expect("the program runs");
    assert_eq!(present, 0);
    assert_eq!(space.has_secondary_mmu(), Some(false));
}
