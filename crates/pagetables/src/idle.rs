//! The source that uses the idle-page bitmap (`/sys/kernel/mm/page_idle/bitmap`). The bitmap has a
//! bit for each frame: this module sets the bit, and the kernel clears it when the frame is
//! accessed through any of its mappings.
//!
//! Invariant: a frame that the bitmap does not cover (it is on none of the kernel's reclaim lists)
//! is reported as accessed, never as old. Format: the kernel's documentation,
//! admin-guide/mm/idle_page_tracking.rst and pagemap.rst.

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
use crate::entry::{Entry, PAGE_SIZE};
use crate::source::{Source, SourceKind, WalkResult};
use crate::walk::{Piece, Sink, Walked};

/// Number of pagemap entries that are read at once: those of one page table, since a source must
/// not pass on a piece that covers more than one table.
const BATCH: u64 = 512;
/// Bytes of address space that one page table maps.
const TABLE: u64 = BATCH * PAGE_SIZE;
/// Bits of a pagemap entry: the page is present; it is swapped; the number of its frame.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FRAME: u64 = (1 << 40) - 1;
/// The bits that hold the frame number, in the entries that this source makes.
const MASK: u64 = FRAME << 12;

/// The source of accessed bits that reads pagemap and the idle-page bitmap.
#[derive(Debug)]
pub struct IdleBitmap {
    bitmap: File,
    /// The folder with the processes' files: `/proc`, or a test's own.
    proc: PathBuf,
    /// The words of the bitmap that the last walk read, by their index in the bitmap.
    words: BTreeMap<u64, Word>,
}

/// One word of the bitmap: 64 frames, a bit each.
#[derive(Debug)]
struct Word {
    /// The bits that were set when the word was read: those of idle frames.
    idle: u64,
    /// Bits of the frames that the walked process has mapped, as far as the walk has come.
    seen: u64,
}

impl IdleBitmap {
    /// Opens the bitmap for reading and writing.
    ///
    /// # Errors
    /// This kernel has no bitmap (CONFIG_IDLE_PAGE_TRACKING), or this process may not open it (only
    /// root may).
    pub fn open() -> io::Result<IdleBitmap> {
        Self::at(
            Path::new("/sys/kernel/mm/page_idle/bitmap"),
            Path::new("/proc"),
        )
    }

    /// Opens the bitmap at the path `bitmap`; reads processes' files in the folder `proc`. Tests
    /// pass paths of their own.
    fn at(bitmap: &Path, proc: &Path) -> io::Result<IdleBitmap> {
        let bitmap = OpenOptions::new().read(true).write(true).open(bitmap)?;
        Ok(IdleBitmap {
            bitmap,
            proc: proc.to_owned(),
            words: BTreeMap::new(),
        })
    }

    /// Whether the frame was accessed since its bit was set; true if the bitmap does not cover it.
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

    /// Makes a page-table entry from `page`, an entry of pagemap, and from the frame's bit in the
    /// bitmap.
    fn entry(&mut self, page: u64) -> Entry {
        if page & SWAPPED != 0 {
            return Entry(1 << 9 | 1 << 10);
        }
        if page & PRESENT == 0 {
            return Entry(0);
        }
        // The kernel hides the frame number from a process without CAP_SYS_ADMIN: it is 0 then, and
        // no page of a process has frame 0.
        let frame = page & FRAME;
        let accessed = frame == 0 || self.is_accessed(frame);
        Entry(1 | u64::from(accessed) << 5 | frame << 12)
    }
}

impl Source for IdleBitmap {
    fn kind(&self) -> SourceKind {
        SourceKind::IdleBitmap
    }

    fn read(
        &mut self,
        pid: u32,
        ranges: &[Range<u64>],
        sink: &mut Sink<'_>,
    ) -> io::Result<WalkResult> {
        let pagemap = match self.proc == Path::new("/proc") {
            true => File::from(access::open(pid, "pagemap")?),
            // A test's own directory tree.
            false => File::open(self.proc.join(pid.to_string()).join("pagemap"))?,
        };
        self.words.clear();
        let mut bytes = vec![0; usize::try_from(BATCH * 8).unwrap_or(0)];
        for (number, range) in ranges.iter().enumerate() {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min((start / TABLE + 1) * TABLE);
                let pages = (end - start) / PAGE_SIZE;
                let part = &mut bytes[..usize::try_from(pages * 8).unwrap_or(0)];
                match access::read_at((pid, pagemap.as_fd()), start / PAGE_SIZE * 8, part) {
                    Ok(length) if length == part.len() => {}
                    Err(error) if access::is_locked(&error) => return Err(error),
                    // The range was unmapped meanwhile, or the process is gone.
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
                start += pages * PAGE_SIZE;
            }
        }
        Ok(WalkResult {
            space: u64::from(pid),
            hides: None,
            walked: Walked::default(),
        })
    }

    fn frame_mask(&self) -> u64 {
        MASK
    }

    /// Sets the idle bits of the accessed frames that the last walk found. Takes no lock of the
    /// process.
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
    fn a_frame_that_is_not_idle_is_accessed_until_cleared() {
        // Frame 65 (idle), frame 66 (not idle), a hole, a swapped page, a hidden frame number.
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
        // The kernel ignores zero bits in what is written; a plain file stores them.
        assert_eq!(bytes[8..16], (1u64 << 2).to_ne_bytes());
    }

    /// Regression: this source passed on pieces that covered more than one table. The age table
    /// requires that a piece is a part of one table, and counted only the first 2 MiB of such a
    /// piece.
    #[test]
    fn no_piece_covers_two_tables() {
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
    fn an_unmapped_range_has_no_entries() {
        let fake = Fake::new("gone", [0; 4], &[PRESENT | 1]);
        assert_eq!(read(&mut fake.open(), 50).len(), 0);
    }
}
