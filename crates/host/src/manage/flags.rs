//! What the kernel notes of a frame, in `/proc/kpageflags`.
//!
//! Invariant: what cannot be read says nothing, and nothing is concluded from it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::system::Proc;

/// `KPF_UPTODATE`: it holds what it should; whoever frees a frame clears it. (On the kernel's lists is not what has just been put back.)
const UPTODATE: u64 = 1 << 3;
/// `KPF_ANON`.
const ANON: u64 = 1 << 12;
/// `KPF_SWAPCACHE`: it has its place in swap.
const SWAPCACHE: u64 = 1 << 13;
/// `KPF_SWAPBACKED`: its bytes have to be stored before it is freed.
const SWAPBACKED: u64 = 1 << 14;
/// `KPF_COMPOUND_HEAD`, `KPF_COMPOUND_TAIL`.
const HEAD: u64 = 1 << 15;
const TAIL: u64 = 1 << 16;
/// `KPF_UNEVICTABLE`, `KPF_MLOCKED`: locked in memory.
const LOCKED: u64 = 1 << 18 | 1 << 33;
/// The largest folio that is looked for: 512 pages.
const ORDER_MAX: u32 = 9;

/// Flags of frames.
pub(super) struct Flags {
    file: Option<File>,
}

impl Flags {
    pub(super) fn open(proc: &Proc) -> Flags {
        Flags {
            file: File::open(proc.own_path("kpageflags")).ok(),
        }
    }

    pub(super) fn is_locked(&self, frame: u64) -> bool {
        self.of(frame).is_some_and(|flags| flags & LOCKED != 0)
    }

    /// Whether some program has given it back (`MADV_FREE`): the kernel frees it without storing its bytes, unless
    /// an entry says that it was written since.
    pub(super) fn is_given_back(&self, frame: u64) -> bool {
        let Some(own) = self.of(frame) else {
            return false;
        };
        match own & (ANON | SWAPBACKED | TAIL) {
            // Kernels before 6.9 note it of the head alone.
            flags if flags == ANON | TAIL => self
                .of_head(frame)
                .is_some_and(|flags| flags & SWAPBACKED == 0),
            flags => flags == ANON,
        }
    }

    /// Whether it is a part of a file, or of shared memory, that the kernel keeps, mapped or not.
    pub(super) fn is_cached(&self, frame: u64) -> bool {
        let is_cached = |flags: u64| flags & UPTODATE != 0 && flags & (ANON | SWAPCACHE) == 0;
        let own = self.of(frame).unwrap_or(0);
        is_cached(own) || own & TAIL != 0 && self.of_head(frame).is_some_and(is_cached)
    }

    /// Whether its bytes have to be stored in swap before it is freed, not in a file; what is not known has to.
    pub(super) fn needs_swap(&self, frame: u64) -> bool {
        let Some(own) = self.of(frame) else {
            return true;
        };
        let is_stored = |flags: u64| flags & (ANON | SWAPBACKED) != 0;
        // Of shared memory, kernels before 6.9 note it of the head alone.
        let is_head_stored = || self.of_head(frame).is_none_or(is_stored);
        is_stored(own) || own & TAIL != 0 && is_head_stored()
    }

    /// The same of what is known alone.
    pub(super) fn is_stored(&self, frame: u64) -> bool {
        self.of(frame).is_some() && self.needs_swap(frame)
    }

    /// The flags of the head that a tail belongs to: the nearest one before it that a folio could begin at.
    fn of_head(&self, tail: u64) -> Option<u64> {
        (1..=ORDER_MAX)
            .filter_map(|order| self.of(tail >> order << order))
            .find(|flags| flags & HEAD != 0)
    }

    fn of(&self, frame: u64) -> Option<u64> {
        word(self.file.as_ref(), frame)
    }
}

/// Word number `number` of such a file.
pub(super) fn word(file: Option<&File>, number: u64) -> Option<u64> {
    let mut word = [0; 8];
    file?.read_exact_at(&mut word, number * 8).ok()?;
    Some(u64::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Directory;

    /// Flags of a few frames, as the kernel would have them.
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
    fn a_page_is_given_back_if_it_is_anonymous_and_need_not_be_stored() {
        let flags = flags(&[0, ANON, ANON | SWAPBACKED, SWAPBACKED]);
        let found: Vec<bool> = (0..5).map(|frame| flags.is_given_back(frame)).collect();
        assert_eq!(found, [false, true, false, false, false]);
    }

    /// A page of a file needs no swap; what nobody knows, and shared memory, does.
    #[test]
    fn only_pages_of_files_need_no_swap() {
        let (anon, shmem) = (ANON | SWAPBACKED, SWAPBACKED);
        let flags = flags(&[0, anon, shmem, 0, HEAD, TAIL, shmem | HEAD, TAIL]);
        let found: Vec<bool> = (0..9).map(|frame| flags.needs_swap(frame)).collect();
        let wanted = [false, true, true, false, false, false, true, true, true];
        assert_eq!(found, wanted);
        assert!(flags.is_stored(2) && !flags.is_stored(3) && !flags.is_stored(8));
    }

    /// A frame that was freed, or is another's anonymous memory by now, keeps nothing; nor does what has its place in swap.
    #[test]
    fn only_files_and_shared_memory_are_in_the_cache() {
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

    /// Linux 6.1 notes it of the head alone: each tail of a huge page looked as if it had been given back.
    #[test]
    fn a_tail_is_what_its_head_is() {
        let (kept, given) = (ANON | SWAPBACKED | HEAD, ANON | HEAD);
        let tail = ANON | TAIL;
        let flags = flags(&[kept, tail, tail, tail, given, tail, tail, tail]);
        let found: Vec<bool> = (0..8).map(|frame| flags.is_given_back(frame)).collect();
        assert_eq!(found, [false, false, false, false, true, true, true, true]);
    }
}
