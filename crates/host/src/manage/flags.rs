//! Reads the kernel's flags of frames, from `/proc/kpageflags`.
//!
//! Invariant: if the flags cannot be read, nothing is concluded from them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::system::Proc;

/// `KPF_UPTODATE`: the content of the page is valid. The kernel clears this flag when it frees the
/// frame. The flag for the LRU lists would not do: a page just put back is not on a list yet.
const UPTODATE: u64 = 1 << 3;
/// `KPF_ACTIVE`: the page is on the active list, or on its way there.
const ACTIVE: u64 = 1 << 6;
/// `KPF_ANON`: the page is anonymous memory.
const ANON: u64 = 1 << 12;
/// `KPF_SWAPCACHE`: the page has a swap slot.
const SWAPCACHE: u64 = 1 << 13;
/// `KPF_SWAPBACKED`: the page must be stored in swap before it is freed.
const SWAPBACKED: u64 = 1 << 14;
/// `KPF_COMPOUND_HEAD`, then `KPF_COMPOUND_TAIL`: the first page of a folio, and its other pages.
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;
/// `KPF_UNEVICTABLE`, `KPF_MLOCKED`: locked in memory.
const LOCKED: u64 = 1 << 18 | 1 << 33;
/// Folios of up to `1 << ORDER_MAX` pages (512) are considered when a folio's head is searched for.
const ORDER_MAX: u32 = 9;

/// Reads the flags of frames; `file` is `None` if they cannot be read.
pub(super) struct Flags {
    file: Option<File>,
}

impl Flags {
    /// Opens `/proc/kpageflags`.
    pub(super) fn open(proc: &Proc) -> Flags {
        Flags {
            file: File::open(proc.own_path("kpageflags")).ok(),
        }
    }

    /// Whether the page is locked in memory. False if the flags cannot be read.
    pub(super) fn is_locked(&self, frame: u64) -> bool {
        self.of(frame).is_some_and(|flags| flags & LOCKED != 0)
    }

    /// Whether the page is on the kernel's active list. False if the flags cannot be read, and
    /// always under the multi-gen LRU. In a folio of several pages only the head has the flag.
    pub(super) fn is_active(&self, frame: u64) -> bool {
        let Some(own) = self.of(frame) else {
            return false;
        };
        let is_active = |flags: u64| flags & ACTIVE != 0;
        is_active(own) || own & TAIL != 0 && self.of_head(frame).is_some_and(is_active)
    }

    /// Whether the page is lazyfree (a program called `MADV_FREE`): the kernel frees it without
    /// storing its content, unless a page-table entry says that the page was written since.
    pub(super) fn is_lazyfree(&self, frame: u64) -> bool {
        let Some(own) = self.of(frame) else {
            return false;
        };
        match own & (ANON | SWAPBACKED | TAIL) {
            // Kernels before 6.9 set `SWAPBACKED` only on the head of a folio.
            flags if flags == ANON | TAIL => self
                .of_head(frame)
                .is_some_and(|flags| flags & SWAPBACKED == 0),
            flags => flags == ANON,
        }
    }

    /// Whether the page is in the page cache, as part of a file or of shared memory, mapped or not.
    pub(super) fn is_cached(&self, frame: u64) -> bool {
        let is_cached = |flags: u64| flags & UPTODATE != 0 && flags & (ANON | SWAPCACHE) == 0;
        let own = self.of(frame).unwrap_or(0);
        is_cached(own) || own & TAIL != 0 && self.of_head(frame).is_some_and(is_cached)
    }

    /// Whether the page must be stored in swap, not in a file, before it is freed. Also true if the
    /// flags cannot be read.
    pub(super) fn needs_swap(&self, frame: u64) -> bool {
        let Some(own) = self.of(frame) else {
            return true;
        };
        let is_stored = |flags: u64| flags & (ANON | SWAPBACKED) != 0;
        // For shared memory, kernels before 6.9 set `SWAPBACKED` only on the head of a folio.
        let is_head_stored = || self.of_head(frame).is_none_or(is_stored);
        is_stored(own) || own & TAIL != 0 && is_head_stored()
    }

    /// Like [`Flags::needs_swap`], but false if the flags cannot be read.
    pub(super) fn is_stored(&self, frame: u64) -> bool {
        self.of(frame).is_some() && self.needs_swap(frame)
    }

    /// Returns the flags of the head of the folio with this tail page: of the nearest head before
    /// the page where a folio could begin. `None` if there is none.
    fn of_head(&self, tail: u64) -> Option<u64> {
        (1..=ORDER_MAX)
            .filter_map(|order| self.of(tail >> order << order))
            .find(|flags| flags & HEAD != 0)
    }

    /// Returns the flags of a frame; `None` if they cannot be read.
    fn of(&self, frame: u64) -> Option<u64> {
        word(self.file.as_ref(), frame)
    }
}

/// Returns the word of 8 bytes at index `number` in a file; `None` if it cannot be read.
pub(super) fn word(file: Option<&File>, number: u64) -> Option<u64> {
    let mut word = [0; 8];
    file?.read_exact_at(&mut word, number * 8).ok()?;
    Some(u64::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Directory;

    /// Returns flags of a few frames, read from a file in the kernel's format.
    fn flags(words: &[u64]) -> Flags {
        let folder = Directory::new("kpageflags");
        let path = folder.0.join("kpageflags");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        std::fs::write(&path, bytes).expect("a file");
        Flags {
            file: File::open(path).ok(),
        }
    }

    #[test]
    fn a_page_is_lazyfree_if_it_is_anonymous_and_not_swapbacked() {
        let flags = flags(&[0, ANON, ANON | SWAPBACKED, SWAPBACKED]);
        let found: Vec<bool> = (0..5).map(|frame| flags.is_lazyfree(frame)).collect();
        assert_eq!(found, [false, true, false, false, false]);
    }

    /// File pages need no swap. Shared memory does, and so do pages whose flags cannot be read.
    #[test]
    fn only_pages_of_files_need_no_swap() {
        let (anon, shmem) = (ANON | SWAPBACKED, SWAPBACKED);
        let flags = flags(&[0, anon, shmem, 0, HEAD, TAIL, shmem | HEAD, TAIL]);
        let found: Vec<bool> = (0..9).map(|frame| flags.needs_swap(frame)).collect();
        let wanted = [false, true, true, false, false, false, true, true, true];
        assert_eq!(found, wanted);
        assert!(flags.is_stored(2) && !flags.is_stored(3) && !flags.is_stored(8));
    }

    #[test]
    fn a_page_is_active_if_its_folio_is() {
        let flags = flags(&[ANON, ANON | ACTIVE, HEAD | ACTIVE, TAIL, HEAD, TAIL]);
        let found: Vec<bool> = (0..7).map(|frame| flags.is_active(frame)).collect();
        assert_eq!(found, [false, true, true, true, false, false, false]);
    }

    /// A freed frame, anonymous memory, and a page with a swap slot are not page cache.
    #[test]
    fn only_files_and_shared_memory_are_in_the_page_cache() {
        let (file, shmem, anon) = (
            UPTODATE,
            UPTODATE | SWAPBACKED,
            UPTODATE | ANON | SWAPBACKED,
        );
        let flags = flags(&[
            0,
            file,
            shmem,
            anon,
            shmem | SWAPCACHE,
            0,
            file | HEAD,
            TAIL,
        ]);
        let found: Vec<bool> = (0..9).map(|frame| flags.is_cached(frame)).collect();
        assert_eq!(
            found,
            [false, true, true, false, false, false, true, true, false]
        );
    }

    /// Regression: Linux 6.1 sets `SWAPBACKED` only on the head of a huge page, and each of its
    /// tails seemed to be lazyfree.
    #[test]
    fn a_tail_is_lazyfree_if_its_head_is() {
        let (kept, given) = (ANON | SWAPBACKED | HEAD, ANON | HEAD);
        let tail = ANON | TAIL;
        let flags = flags(&[kept, tail, tail, tail, given, tail, tail, tail]);
        let found: Vec<bool> = (0..8).map(|frame| flags.is_lazyfree(frame)).collect();
        assert_eq!(found, [false, false, false, false, true, true, true, true]);
    }
}
