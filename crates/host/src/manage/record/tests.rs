//! Tests of recordings: scans are recorded from pieces of page tables, and read back from the file.

use std::io::{Read, Seek, SeekFrom, Write};

use event_log::{Decoded, Decoder, MAGIC, Scan, frame};
use pagetables::Whole;
use rustix::fs::{MemfdFlags, memfd_create};

use super::*;
use crate::age_table::AgeTable;
use crate::system::{Mapping, Nodes};

/// Bits of entries that are present, writable and dirty. `IDLE`: not accessed; `USED`: accessed.
const IDLE: u64 = 0x43;
const USED: u64 = 0x63;
/// An entry of a page in swap.
const OUT: u64 = 0x1000;
/// Bits of a page-table entry that hold the frame's physical address.
const MASK: u64 = (1 << 46) - 4096;
/// Start address of the mapping: 100 pages after the start of a chunk.
const START: u64 = CHUNK + 100 * 4096;

/// A recorder, and the age table of the process that it records.
struct World {
    age_table: AgeTable,
    nodes: Nodes,
    owner: Owner,
    recorder: Recorder,
    file: File,
    now_ms: u64,
}

/// An empty file in memory.
fn memfd() -> File {
    let fd = memfd_create("recording", MemfdFlags::CLOEXEC).expect("memory");
    File::from(fd)
}

impl World {
    fn new(max_bytes: u64) -> World {
        World::over(memfd(), max_bytes)
    }

    /// A world that records into `file`, at most `max_bytes`.
    fn over(file: File, max_bytes: u64) -> World {
        let mut age_table = AgeTable::new(0);
        let owner = age_table.add_owner().expect("room");
        let recording = Recording {
            file: file.try_clone().expect("a descriptor"),
            max_bytes,
            command: "a program".to_owned(),
            begun_ms: 1,
        };
        let recorder = Recorder::new(recording, Duration::from_secs(1), 500);
        World {
            age_table,
            nodes: Nodes::parse(b""),
            owner,
            recorder,
            file,
            now_ms: 500,
        }
    }

    /// Makes a scan that reports these pieces of one mapping.
    fn scan(&mut self, kind: Kind, trusted: bool, pieces: &[Piece<'_>]) {
        self.scan_after(kind, (trusted, false, false), pieces);
    }

    /// Like [`World::scan`], with two more flags: whether the scan before did not clear accessed
    /// bits (`kept_bits`), and whether the process is idle (`idle`).
    fn scan_after(
        &mut self,
        kind: Kind,
        (trusted, idle, kept_bits): (bool, bool, bool),
        pieces: &[Piece<'_>],
    ) {
        let mapping = Mapping {
            end: 64 * CHUNK,
            is_shared: kind == Kind::Shmem,
            kind,
            ..Mapping::default()
        };
        let identity = Identity { pid: 7, started: 7 };
        self.recorder.begin(self.owner, identity, &Maps::default());
        for piece in pieces {
            let reported = PieceContext {
                owner: self.owner,
                mapping: &mapping,
                trusted,
                idle,
                kept_bits,
                hidden: false,
                has_recency: true,
                mask: MASK,
                age_table: &self.age_table,
                nodes: &self.nodes,
            };
            self.recorder.hear(reported, *piece);
        }
        self.recorder.end(self.owner, identity, true);
        self.now_ms += 1000;
        self.recorder.end_scan(self.now_ms);
    }

    /// Makes a scan that finds anonymous pages with these entry bits.
    fn pages(&mut self, trusted: bool, flags: &[u64]) {
        let entries: Vec<Entry> = flags.iter().map(|flags| Entry(*flags)).collect();
        let piece = Piece::Pages {
            start: START,
            entries: &entries,
        };
        self.scan(Kind::Anon, trusted, &[piece]);
    }

    /// All bytes of the recording.
    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).expect("a file");
        self.file.read_to_end(&mut bytes).expect("a file");
        bytes
    }

    /// Returns all scans in the file, and whether the file closes with an end mark.
    fn read(&mut self) -> (Vec<Scan>, bool) {
        let (bytes, mut decoder) = (self.bytes(), Decoder::default());
        let (mut left, mut scans) = (&bytes[MAGIC.len()..], Vec::new());
        let mut has_end = false;
        while let frame::Split::Whole(content) = frame::split(left) {
            left = &left[frame::PREFIX + content.len()..];
            match decoder.frame(content).expect("sound") {
                Decoded::Scan => scans.push(decoder.scan()),
                Decoded::End => has_end = true,
                Decoded::Header | Decoded::Part => {}
            }
        }
        assert!(left.is_empty(), "whole frames alone");
        (scans, has_end)
    }
}

/// Page numbers that a scan found accessed, ascending.
fn accessed(scan: &Scan) -> Vec<u64> {
    let mut all: Vec<u64> = scan.accessed.iter().flat_map(|unit| unit.pages()).collect();
    all.sort_unstable();
    all
}

/// Returns page numbers from page indexes within the mapping.
fn at(places: &[u64]) -> Vec<u64> {
    places.iter().map(|place| START / 4096 + place).collect()
}

#[test]
fn the_file_holds_what_scans_find() {
    let mut world = World::new(1 << 20);
    world.pages(false, &[USED, USED, IDLE, 0]);
    world.pages(true, &[IDLE, USED, IDLE, USED]);
    world.pages(true, &[OUT, USED, 0, IDLE]);
    world.pages(true, &[USED, IDLE, OUT, IDLE]);
    world.recorder.finish();
    let (scans, has_end) = world.read();
    assert!(has_end);
    let times: Vec<u64> = scans.iter().map(|scan| scan.now_ms).collect();
    assert_eq!(times, [1000, 2000, 3000, 4000]);
    assert_eq!(accessed(&scans[0]), at(&[0, 1, 2]), "what is there");
    assert_eq!(accessed(&scans[1]), at(&[1, 3]));
    assert_eq!(accessed(&scans[2]), at(&[1]));
    assert_eq!((scans[2].left, scans[2].unmapped.len()), (1, 1));
    assert_eq!((accessed(&scans[3]), scans[3].back), (at(&[0]), 1));
    assert_eq!(
        scans[3].left, 0,
        "what came straight to swap was never here"
    );
    let report = world.recorder.report();
    assert_eq!((report.scans, report.stopped), (4, None));
}

#[test]
fn unknown_accesses_are_recorded_as_accessed_and_counted() {
    let mut world = World::new(1 << 20);
    world.pages(true, &[USED, IDLE]);
    world.pages(false, &[IDLE, IDLE]);
    world.scan(
        Kind::Anon,
        true,
        &[Piece::Unsure {
            start: START,
            bytes: 8192,
        }],
    );
    let (scans, _) = world.read();
    for scan in &scans[1..] {
        assert_eq!((accessed(scan), scan.unknown), (at(&[0, 1]), 2));
    }
}

/// Regression: scans ahead of their interval do not clear accessed bits of files. An access to a
/// page that was new at such a scan was recorded twice: by that scan, and by the next scan that
/// cleared bits. An access to an older page was not recorded at all if its process was idle, or
/// ended, between these scans.
#[test]
fn an_access_to_a_file_is_recorded_once_by_the_first_scan() {
    let mut world = World::new(1 << 20);
    let scan = |world: &mut World, idle, kept_bits, flags: &[u64]| {
        let entries: Vec<Entry> = flags.iter().map(|flags| Entry(*flags)).collect();
        let pages = Piece::Pages {
            start: START,
            entries: &entries,
        };
        world.scan_after(Kind::File, (true, idle, kept_bits), &[pages]);
    };
    scan(&mut world, false, false, &[0, IDLE]);
    scan(&mut world, false, false, &[USED, USED]);
    scan(&mut world, false, true, &[USED, USED]);
    // Neither page was accessed since the last scan; this scan clears bits.
    scan(&mut world, true, true, &[USED, USED]);
    scan(&mut world, false, false, &[USED, IDLE]);
    // A scan ahead of its interval: the first page was accessed before, the second since.
    scan(&mut world, false, true, &[USED, USED]);
    let (scans, _) = world.read();
    let reported: Vec<Vec<u64>> = scans.iter().map(accessed).collect();
    let expected = [at(&[1]), at(&[0, 1]), vec![], vec![], at(&[0]), at(&[1])];
    assert_eq!(reported[1..], expected[1..]);
}

/// A mapping of a file has many empty entries of pages that were never accessed.
#[test]
fn an_empty_entry_of_a_file_is_paged_out_only_if_it_was_present() {
    let mut world = World::new(1 << 20);
    let hole = |start, bytes| {
        Piece::Whole(Whole {
            start,
            bytes,
            span: CHUNK,
            entry: Entry(0),
        })
    };
    let entries = [Entry(USED), Entry(0)];
    let pages = Piece::Pages {
        start: START,
        entries: &entries,
    };
    world.scan(Kind::File, true, &[pages, hole(2 * CHUNK, 40 * CHUNK)]);
    world.scan(Kind::File, true, &[hole(CHUNK, 41 * CHUNK)]);
    world.scan(Kind::File, true, &[pages]);
    let (scans, _) = world.read();
    assert_eq!((scans[1].left, scans[2].back), (1, 1));
}

#[test]
fn a_huge_page_is_recorded_as_512_pages() {
    let mut world = World::new(1 << 20);
    let huge = Piece::Whole(Whole {
        start: CHUNK,
        bytes: CHUNK,
        span: CHUNK,
        entry: Entry(USED | 0x80),
    });
    world.scan(Kind::Anon, true, &[huge]);
    world.recorder.gone(world.owner);
    world.recorder.end_scan(9000);
    let (scans, _) = world.read();
    assert_eq!(accessed(&scans[0]).len(), 512);
    let unmapped: u32 = scans[1]
        .unmapped
        .iter()
        .map(|unit| unit.bits.count_ones())
        .sum();
    assert_eq!(unmapped, 512);
}

#[test]
fn the_file_stays_within_its_maximum_and_has_an_end() {
    let mut world = World::new(200);
    for round in 0..50 {
        world.pages(true, &[USED, if round % 2 == 0 { USED } else { IDLE }]);
    }
    world.recorder.finish();
    let (scans, has_end) = world.read();
    let report = world.recorder.report();
    assert!(has_end && scans.len() > 2 && scans.len() < 50, "{report:?}");
    assert_eq!(scans.len() as u64, report.scans);
    assert!(report.bytes <= 200 && report.bytes == world.bytes().len() as u64);
    let stopped = report.stopped.expect("a reason");
    assert!(stopped.contains("--record-max"), "{stopped}");
}

/// A descriptor that cannot be written has the same effect on a recording as a full disk.
#[test]
fn a_failed_write_ends_the_recording_with_a_note() {
    let mut file = memfd();
    file.write_all(b"").expect("a file");
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let only_read = File::open(path).expect("the same file");
    let mut world = World::over(only_read, 1 << 20);
    world.pages(true, &[USED]);
    world.recorder.finish();
    let stopped = world.recorder.report().stopped.expect("a reason");
    assert!(stopped.starts_with("it cannot be written"), "{stopped}");
}
