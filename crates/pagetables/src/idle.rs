//! The idle-page bitmap (`/sys/kernel/mm/page_idle/bitmap`): a bit a frame, set by us, cleared by the
//! kernel when the frame was accessed through any of its mappings.
//!
//! Invariant: a frame that the bitmap does not tell of (not on a list of reclaim) is told as accessed:
//! never old. Format: the kernel's documentation, admin-guide/mm/idle_page_tracking.rst and pagemap.rst.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::access;
use crate::clear::{Cleared, Pace};
use crate::entry::Entry;
use crate::source::{Grain, Reading, Source, SourceKind};
use crate::walk::{Piece, Sink, Walked};

/// Pages of pagemap that are read at once: no piece is of more than one table, as page tables tell them.
const BATCH: u64 = 512;
const TABLE: u64 = BATCH * 4096;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FRAME: u64 = (1 << 40) - 1;
/// Where the frame stands in the entries that we make.
const MASK: u64 = FRAME << 12;

/// Reads pagemap and the idle bitmap.
#[derive(Debug)]
pub struct IdleBitmap {
    bitmap: File,
    proc: PathBuf,
    /// Words of the bitmap that were read, by their number.
    words: BTreeMap<u64, Word>,
}

/// 64 frames, a bit each.
#[derive(Debug)]
struct Word {
    /// Those that were idle when it was read.
    idle: u64,
    /// Those that some process had present.
    seen: u64,
}

impl IdleBitmap {
    /// Opens the bitmap, for reading and writing.
    ///
    /// # Errors
    /// There is none in this kernel (CONFIG_IDLE_PAGE_TRACKING), or it may not be opened (root).
    pub fn open() -> io::Result<IdleBitmap> {
        Self::at(
            Path::new("/sys/kernel/mm/page_idle/bitmap"),
            Path::new("/proc"),
        )
    }

    /// The same with other places, for tests.
    fn at(bitmap: &Path, proc: &Path) -> io::Result<IdleBitmap> {
        let bitmap = OpenOptions::new().read(true).write(true).open(bitmap)?;
        Ok(IdleBitmap {
            bitmap,
            proc: proc.to_owned(),
            words: BTreeMap::new(),
        })
    }

    /// Whether the frame was accessed since its bit was set, or is unknown to the bitmap.
    fn is_accessed(&mut self, frame: u64) -> bool {
        let bit = 1 << (frame % 64);
        let bitmap = &self.bitmap;
        let word = self.words.entry(frame / 64).or_insert_with(|| {
            let mut bytes = [0; 8];
            let read = bitmap.read_exact_at(&mut bytes, frame / 64 * 8);
            let idle = read.map_or(0, |()| u64::from_ne_bytes(bytes));
            Word { idle, seen: 0 }
        });
        word.seen |= bit;
        word.idle & bit == 0
    }

    /// An entry that says what pagemap and bitmap say.
    fn entry(&mut self, page: u64) -> Entry {
        if page & SWAPPED != 0 {
            return Entry(1 << 9 | 1 << 10);
        }
        if page & PRESENT == 0 {
            return Entry(0);
        }
        // No frame number: it is hidden from us (CAP_SYS_ADMIN), and frame 0 is nobody's.
        let frame = page & FRAME;
        let accessed = frame == 0 || self.is_accessed(frame);
        Entry(1 | u64::from(accessed) << 5 | frame << 12)
    }
}

impl Source for IdleBitmap {
    fn kind(&self) -> SourceKind {
        SourceKind::IdleBitmap
    }

    fn grain(&self) -> Grain {
        Grain::Page
    }

    fn read(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<Reading> {
        let pagemap = match self.proc == Path::new("/proc") {
            true => File::from(access::open(pid, "pagemap")?),
            // A tree of a test.
            false => File::open(self.proc.join(pid.to_string()).join("pagemap"))?,
        };
        self.words.clear();
        let mut bytes = vec![0; usize::try_from(BATCH * 8).unwrap_or(0)];
        for (number, range) in ranges.iter().enumerate() {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min((start / TABLE + 1) * TABLE);
                let pages = (end - start) / 4096;
                let part = &mut bytes[..usize::try_from(pages * 8).unwrap_or(0)];
                match access::read_at((pid, pagemap.as_fd()), start / 4096 * 8, part) {
                    Ok(got) if got == part.len() => {}
                    Err(error) if access::is_locked(&error) => return Err(error),
                    // Unmapped meanwhile, or the process is gone: nothing is there.
                    _ => break,
                }
                let words = part
                    .chunks_exact(8)
                    .map(|word| word.try_into().unwrap_or([0; 8]));
                let entries: Vec<Entry> = words
                    .map(|word| self.entry(u64::from_ne_bytes(word)))
                    .collect();
                sink(
                    number,
                    Piece::Pages {
                        start,
                        entries: &entries,
                    },
                );
                start += pages * 4096;
            }
        }
        Ok(Reading {
            space: u64::from(pid),
            hides: None,
            walked: Walked::default(),
        })
    }

    fn frame_mask(&self) -> u64 {
        MASK
    }

    /// Sets the idle bits of the frames that were seen accessed. Takes no lock of the process.
    fn clear(
        &mut self,
        _: (u32, crate::Part),
        _: &mut Pace,
        _: u64,
        _: Duration,
    ) -> io::Result<Cleared> {
        let begin = Instant::now();
        for (number, Word { idle, seen }) in &self.words {
            let young = seen & !idle;
            if young != 0 {
                self.bitmap.write_all_at(&young.to_ne_bytes(), number * 8)?;
            }
        }
        Ok(Cleared::Done(begin.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a bitmap of 4 words and a pagemap of `pages`, removed when dropped.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str, bitmap: [u64; 4], pages: &[u64]) -> Fake {
            let dir =
                std::env::temp_dir().join(format!("pagetide-idle-{name}-{}", std::process::id()));
            std::fs::create_dir_all(dir.join("7")).expect("a temporary folder");
            let bytes = |words: &[u64]| {
                words
                    .iter()
                    .flat_map(|word| word.to_ne_bytes())
                    .collect::<Vec<u8>>()
            };
            std::fs::write(dir.join("bitmap"), bytes(&bitmap)).expect("a file");
            std::fs::write(dir.join("7/pagemap"), bytes(pages)).expect("a file");
            Fake(dir)
        }

        fn open(&self) -> IdleBitmap {
            IdleBitmap::at(&self.0.join("bitmap"), &self.0).expect("the files are there")
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn read(source: &mut IdleBitmap, pages: u64) -> Vec<Entry> {
        let mut all = Vec::new();
        let range = 0..pages * 4096;
        source
            .read(7, &[range], &mut |_, piece| {
                if let Piece::Pages { entries, .. } = piece {
                    all.extend_from_slice(entries);
                }
            })
            .expect("it can be read");
        all
    }

    #[test]
    fn accessed_is_what_is_not_idle_and_clearing_makes_it_idle() {
        // Frames 65 (idle), 66 (not idle), a hole, one in swap, one without a frame number.
        let pages = [PRESENT | 65, PRESENT | 66, 0, SWAPPED | 5, PRESENT];
        let fake = Fake::new("clear", [0, 1 << 1, 0, 0], &pages);
        let mut source = fake.open();
        let seen = read(&mut source, 5);
        let accessed: Vec<bool> = seen.iter().map(|entry| entry.is_accessed()).collect();
        assert_eq!(accessed, [false, true, false, false, true]);
        assert_eq!(seen[1].physical(MASK) >> 12, 66);
        assert_eq!(seen[3].kind(), crate::Kind::Swapped);
        assert_eq!(seen[2].kind(), crate::Kind::Empty);
        let cleared = source.clear(
            (7, crate::Part::Anon),
            &mut Pace::default(),
            3,
            Duration::ZERO,
        );
        assert!(matches!(cleared, Ok(Cleared::Done(_))));
        let bytes = std::fs::read(fake.0.join("bitmap")).expect("it is there");
        // The kernel ignores zero bits in what is written; a file takes them as they are.
        assert_eq!(bytes[8..16], (1u64 << 2).to_ne_bytes());
    }

    /// Whoever hears of a piece takes it for a part of one table: of larger ones only the first 2 MiB were known.
    #[test]
    fn no_piece_is_of_two_tables() {
        let fake = Fake::new("tables", [0; 4], &[PRESENT | 1; 5000]);
        let mut pieces = Vec::new();
        let range = 3 * 4096..5000 * 4096;
        let mut sink = |_, piece: Piece<'_>| {
            if let Piece::Pages { start, entries } = piece {
                pieces.push(start..start + entries.len() as u64 * 4096);
            }
        };
        let read = fake.open().read(7, &[range], &mut sink);
        read.expect("it can be read");
        assert!(
            pieces
                .iter()
                .all(|one| one.start / TABLE == (one.end - 1) / TABLE)
        );
        let pages = pieces.iter().map(|one| (one.end - one.start) / 4096);
        assert_eq!(pages.sum::<u64>(), 4997);
    }

    #[test]
    fn a_range_that_is_gone_reads_as_nothing() {
        let fake = Fake::new("gone", [0; 4], &[PRESENT | 1]);
        assert_eq!(read(&mut fake.open(), 50).len(), 0);
    }
}
