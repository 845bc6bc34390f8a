//! Looks go in as pieces of tables, and come out of the file.

use std::io::{Read, Seek, SeekFrom, Write};

use event_log::{Decoded, Decoder, Look, MAGIC, frame};
use rustix::fs::{MemfdFlags, memfd_create};

use super::*;
use crate::books::Books;
use crate::system::{Device, Mapping};

/// Present, writable, dirty; and accessed.
const IDLE: u64 = 0x43;
const USED: u64 = 0x63;
/// An entry of swap.
const OUT: u64 = 0x1000;
const MASK: u64 = (1 << 46) - 4096;
/// Where the mapping begins: a chunk and 100 pages.
const START: u64 = CHUNK + 100 * 4096;

struct World {
    books: Books,
    owner: Owner,
    recorder: Recorder,
    file: File,
    now_ms: u64,
}

fn memfd() -> File {
    let fd = memfd_create("recording", MemfdFlags::CLOEXEC).expect("memory");
    File::from(fd)
}

impl World {
    fn new(max_bytes: u64) -> World {
        World::over(memfd(), max_bytes)
    }

    fn over(file: File, max_bytes: u64) -> World {
        let mut books = Books::new(0);
        let owner = books.add_owner().expect("room");
        let recording = Recording {
            file: file.try_clone().expect("a descriptor"),
            max_bytes,
            command: "a program".to_owned(),
            begun_ms: 1,
        };
        let recorder = Recorder::new(recording, Duration::from_secs(1), 500);
        World {
            books,
            owner,
            recorder,
            file,
            now_ms: 500,
        }
    }

    /// A look at some pieces of one mapping.
    fn look(&mut self, kind: Kind, trusted: bool, pieces: &[Piece<'_>]) {
        self.look_after(kind, (trusted, false, false), pieces);
    }

    /// The same after a look that spared bits, or of one that has slept.
    fn look_after(
        &mut self,
        kind: Kind,
        (trusted, slept, spared): (bool, bool, bool),
        pieces: &[Piece<'_>],
    ) {
        let mapping = Mapping {
            start: 0,
            end: 64 * CHUNK,
            readable: true,
            writable: true,
            executable: false,
            shared: kind == Kind::Shmem,
            offset: 0,
            device: Device { major: 0, minor: 0 },
            inode: 0,
            kind,
        };
        let identity = Identity { pid: 7, started: 7 };
        self.recorder.begin(self.owner, identity, &Maps::default());
        for piece in pieces {
            let told = Told {
                owner: self.owner,
                mapping: &mapping,
                trusted,
                slept,
                spared,
                hidden: false,
                has_recency: true,
                mask: MASK,
                books: &self.books,
            };
            self.recorder.hear(told, *piece);
        }
        self.recorder.end(self.owner, identity, true);
        self.now_ms += 1000;
        self.recorder.end_look(self.now_ms);
    }

    fn pages(&mut self, trusted: bool, flags: &[u64]) {
        let entries: Vec<Entry> = flags.iter().map(|flags| Entry(*flags)).collect();
        let piece = Piece::Pages {
            start: START,
            entries: &entries,
        };
        self.look(Kind::Anon, trusted, &[piece]);
    }

    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0)).expect("a file");
        self.file.read_to_end(&mut bytes).expect("a file");
        bytes
    }

    /// All looks in the file, and whether it has an end.
    fn read(&mut self) -> (Vec<Look>, bool) {
        let (bytes, mut decoder) = (self.bytes(), Decoder::default());
        let (mut left, mut looks) = (&bytes[MAGIC.len()..], Vec::new());
        let mut has_end = false;
        while let frame::Split::Whole(content) = frame::split(left) {
            left = &left[frame::PREFIX + content.len()..];
            match decoder.frame(content).expect("sound") {
                Decoded::Look => looks.push(decoder.look()),
                Decoded::End => has_end = true,
                Decoded::Header | Decoded::Part => {}
            }
        }
        assert!(left.is_empty(), "whole frames alone");
        (looks, has_end)
    }
}

fn accessed(look: &Look) -> Vec<u64> {
    let mut all: Vec<u64> = look.accessed.iter().flat_map(|unit| unit.pages()).collect();
    all.sort_unstable();
    all
}

/// Page numbers by their place in the mapping.
fn at(places: &[u64]) -> Vec<u64> {
    places.iter().map(|place| START / 4096 + place).collect()
}

#[test]
fn what_looks_find_is_in_the_file() {
    let mut world = World::new(1 << 20);
    world.pages(false, &[USED, USED, IDLE, 0]);
    world.pages(true, &[IDLE, USED, IDLE, USED]);
    world.pages(true, &[OUT, USED, 0, IDLE]);
    world.pages(true, &[USED, IDLE, OUT, IDLE]);
    world.recorder.finish();
    let (looks, has_end) = world.read();
    assert!(has_end);
    let times: Vec<u64> = looks.iter().map(|look| look.now_ms).collect();
    assert_eq!(times, [1000, 2000, 3000, 4000]);
    assert_eq!(accessed(&looks[0]), at(&[0, 1, 2]), "what is there");
    assert_eq!(accessed(&looks[1]), at(&[1, 3]));
    assert_eq!(accessed(&looks[2]), at(&[1]));
    assert_eq!((looks[2].left, looks[2].unmapped.len()), (1, 1));
    assert_eq!((accessed(&looks[3]), looks[3].back), (at(&[0]), 1));
    assert_eq!(
        looks[3].left, 0,
        "what came straight to swap was never here"
    );
    let report = world.recorder.report();
    assert_eq!((report.looks, report.stopped), (4, None));
}

#[test]
fn what_nobody_knows_is_told_as_accessed_and_counted() {
    let mut world = World::new(1 << 20);
    world.pages(true, &[USED, IDLE]);
    world.pages(false, &[IDLE, IDLE]);
    world.look(
        Kind::Anon,
        true,
        &[Piece::Unsure {
            start: START,
            bytes: 8192,
        }],
    );
    let (looks, _) = world.read();
    for look in &looks[1..] {
        assert_eq!((accessed(look), look.unknown), (at(&[0, 1]), 2));
    }
}

/// Looks ahead of their interval leave bits of files set. The story: what came in at such a look was told by it and by the one that
/// cleared, and what was there before by none where its process slept, or ended, in between.
#[test]
fn an_access_of_a_file_is_told_once_and_by_the_first_look() {
    let mut world = World::new(1 << 20);
    let look = |world: &mut World, slept, spared, flags: &[u64]| {
        let entries: Vec<Entry> = flags.iter().map(|flags| Entry(*flags)).collect();
        let pages = Piece::Pages {
            start: START,
            entries: &entries,
        };
        world.look_after(Kind::File, (true, slept, spared), &[pages]);
    };
    look(&mut world, false, false, &[0, IDLE]);
    look(&mut world, false, false, &[USED, USED]);
    look(&mut world, false, true, &[USED, USED]);
    // Neither did anything since; this look clears.
    look(&mut world, true, true, &[USED, USED]);
    look(&mut world, false, false, &[USED, IDLE]);
    // Of another early look: the first was used before, the second is used now.
    look(&mut world, false, true, &[USED, USED]);
    let (looks, _) = world.read();
    let told: Vec<Vec<u64>> = looks.iter().map(accessed).collect();
    let expected = [at(&[1]), at(&[0, 1]), vec![], vec![], at(&[0]), at(&[1])];
    assert_eq!(told[1..], expected[1..]);
}

/// A file's mapping is full of empty entries that were never touched.
#[test]
fn an_empty_entry_of_a_file_is_out_only_if_it_was_in() {
    let mut world = World::new(1 << 20);
    let hole = |start, bytes| Piece::Whole {
        start,
        bytes,
        span: CHUNK,
        entry: Entry(0),
    };
    let entries = [Entry(USED), Entry(0)];
    let pages = Piece::Pages {
        start: START,
        entries: &entries,
    };
    world.look(Kind::File, true, &[pages, hole(2 * CHUNK, 40 * CHUNK)]);
    world.look(Kind::File, true, &[hole(CHUNK, 41 * CHUNK)]);
    world.look(Kind::File, true, &[pages]);
    let (looks, _) = world.read();
    assert_eq!((looks[1].left, looks[2].back), (1, 1));
}

#[test]
fn a_huge_page_is_all_of_its_pages() {
    let mut world = World::new(1 << 20);
    let huge = Piece::Whole {
        start: CHUNK,
        bytes: CHUNK,
        span: CHUNK,
        entry: Entry(USED | 0x80),
    };
    world.look(Kind::Anon, true, &[huge]);
    world.recorder.gone(world.owner);
    world.recorder.end_look(9000);
    let (looks, _) = world.read();
    assert_eq!(accessed(&looks[0]).len(), 512);
    let unmapped: u32 = looks[1]
        .unmapped
        .iter()
        .map(|unit| unit.bits.count_ones())
        .sum();
    assert_eq!(unmapped, 512);
}

#[test]
fn it_stays_within_its_bound_and_has_an_end_there() {
    let mut world = World::new(200);
    for round in 0..50 {
        world.pages(true, &[USED, if round % 2 == 0 { USED } else { IDLE }]);
    }
    world.recorder.finish();
    let (looks, has_end) = world.read();
    let report = world.recorder.report();
    assert!(has_end && looks.len() > 2 && looks.len() < 50, "{report:?}");
    assert_eq!(looks.len() as u64, report.looks);
    assert!(report.bytes <= 200 && report.bytes == world.bytes().len() as u64);
    let stopped = report.stopped.expect("a reason");
    assert!(stopped.contains("--record-max"), "{stopped}");
}

/// A descriptor that cannot be written stands for a full disk.
#[test]
fn what_cannot_be_written_ends_it_with_a_note() {
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
