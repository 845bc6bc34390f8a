//! The shared table as the keeper sees it: a raw mapping, read and written as atomics only.
//!
//! Invariant: only the keeper that serves allocates chunks, so `DIR` and `REV` have one writer.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use keeper::layout::{
    self, CHUNK, CHUNK_PAGES, CHUNKS_MAX, CTL_OFF, DIR_LEN, DIR_OFF, LOG_LEN, LOG_OFF, QUEUE_OFF,
    RANGES_MAX, RANGES_OFF, REGS_MAX, REGS_OFF, REST_OFF, REV_OFF, WORDS_OFF, ctl,
};
use keeper::word::{PAGE_SIZE, Word};

pub(super) const PAGE: u64 = PAGE_SIZE as u64;

/// A mapped table file.
#[derive(Clone, Copy)]
pub(super) struct Table {
    base: u64,
}

impl Table {
    /// # Safety
    /// `base` is the first byte of a whole table file mapped read-write for as long as this lives.
    pub(super) const unsafe fn at(base: u64) -> Table {
        Table { base }
    }

    pub(super) fn base(self) -> u64 {
        self.base
    }

    fn word64(self, byte: usize) -> &'static AtomicU64 {
        debug_assert!(byte < layout::TABLE_BYTES && byte.is_multiple_of(8));
        // SAFETY: inside the mapping (callers index by the layout's constants), aligned, and
        // shared memory is only ever accessed as atomics.
        unsafe { &*((self.base as usize + byte) as *const AtomicU64) }
    }

    /// Control word `i`.
    pub(super) fn ctl(self, i: usize) -> &'static AtomicU64 {
        self.word64(CTL_OFF + (i & 0x1fff) * 8)
    }

    pub(super) fn get(self, i: usize) -> u64 {
        self.ctl(i).load(Ordering::Relaxed)
    }

    pub(super) fn set(self, i: usize, value: u64) {
        self.ctl(i).store(value, Ordering::Relaxed);
    }

    pub(super) fn count(self, i: usize, n: u64) {
        // One writer: no need for a locked add.
        self.set(i, self.get(i).wrapping_add(n));
    }

    /// Something that should not happen: leave a trace that the manager reports.
    pub(super) fn anomaly(self, code: u64, error: i64) {
        self.count(ctl::ANOMALIES, 1);
        self.set(
            ctl::ANOMALY_LAST,
            code << 32 | (error.unsigned_abs() & 0xffff_ffff),
        );
    }

    /// The futex half of DONE_SEQ.
    pub(super) fn done_futex(self) -> *const u32 {
        core::ptr::from_ref(self.ctl(ctl::DONE_SEQ)).cast()
    }

    /// Word `half` (0 or 1) of command range `i`.
    pub(super) fn range(self, i: usize, half: usize) -> &'static AtomicU64 {
        self.word64(RANGES_OFF + (i % RANGES_MAX) * 16 + half * 8)
    }

    /// Word `half` (0 or 1) of registered range `i`.
    pub(super) fn reg(self, i: usize, half: usize) -> &'static AtomicU64 {
        self.word64(REGS_OFF + (i % REGS_MAX) * 16 + half * 8)
    }

    /// Address of the inbox: 16 messages of 32 bytes.
    pub(super) fn inbox(self) -> *mut u8 {
        (self.base as usize + CTL_OFF + ctl::INBOX * 8) as *mut u8
    }

    /// Address of the event queue.
    pub(super) fn queue(self) -> *mut uffd::abi::UffdMsg {
        (self.base as usize + QUEUE_OFF) as *mut uffd::abi::UffdMsg
    }

    /// Appends to the log; drops and counts when the manager is behind (or dead).
    pub(super) fn log(self, kind: u64, pages: u64, addr: u64) {
        let head = self.get(ctl::LOG_HEAD);
        let tail = self.ctl(ctl::LOG_TAIL).load(Ordering::Acquire);
        if head.wrapping_sub(tail) >= LOG_LEN as u64 {
            self.count(ctl::LOG_LOST, 1);
            return;
        }
        let at = LOG_OFF + (head as usize % LOG_LEN) * 16;
        self.word64(at).store(kind << 56 | pages, Ordering::Relaxed);
        self.word64(at + 8).store(addr, Ordering::Relaxed);
        self.ctl(ctl::LOG_HEAD)
            .store(head.wrapping_add(1), Ordering::Release);
    }

    fn dir(self, addr: u64) -> Option<&'static AtomicU32> {
        let i = (addr / CHUNK) as usize;
        if i >= DIR_LEN {
            return None;
        }
        // SAFETY: i < DIR_LEN, so inside the mapping; aligned; atomics only.
        Some(unsafe { &*((self.base as usize + DIR_OFF + i * 4) as *const AtomicU32) })
    }

    /// When memory around `addr` was last removed (milliseconds of some clock, never 0).
    pub(super) fn rest(self, addr: u64) -> Option<&'static AtomicU32> {
        let i = (addr / CHUNK) as usize;
        if i >= DIR_LEN {
            return None;
        }
        // SAFETY: i < DIR_LEN, so inside the mapping; aligned; atomics only.
        Some(unsafe { &*((self.base as usize + REST_OFF + i * 4) as *const AtomicU32) })
    }

    /// The chunk that holds `addr`, if one was ever given to it.
    pub(super) fn chunk(self, addr: u64) -> Option<usize> {
        let c = self.dir(addr)?.load(Ordering::Relaxed) as usize;
        if c == 0 || c > CHUNKS_MAX {
            None
        } else {
            Some(c - 1)
        }
    }

    /// First byte of the program's memory that chunk `c` stands for.
    pub(super) fn chunk_addr(self, c: usize) -> u64 {
        self.word64(REV_OFF + c * 8).load(Ordering::Relaxed)
    }

    pub(super) fn chunks_used(self) -> usize {
        (self.get(ctl::CHUNKS_USED) as usize).min(CHUNKS_MAX)
    }

    /// The chunk that holds `addr`, giving it one if it has none; `None` when `limit` are out.
    pub(super) fn chunk_or_new(self, addr: u64, limit: usize) -> Option<usize> {
        if let Some(c) = self.chunk(addr) {
            return Some(c);
        }
        let c = self.chunks_used();
        if c >= limit.min(CHUNKS_MAX) {
            return None;
        }
        self.word64(REV_OFF + c * 8)
            .store(addr / CHUNK * CHUNK, Ordering::Relaxed);
        self.ctl(ctl::CHUNKS_USED)
            .store(c as u64 + 1, Ordering::Release);
        self.dir(addr)?.store(c as u32 + 1, Ordering::Release);
        Some(c)
    }

    /// The state word of page `i` of chunk `c`.
    pub(super) fn page(self, c: usize, i: usize) -> &'static AtomicU64 {
        self.word64(WORDS_OFF + (c % CHUNKS_MAX * CHUNK_PAGES + i % CHUNK_PAGES) * 8)
    }

    /// The state word of the page at `addr`, if its chunk was ever given one.
    pub(super) fn word_at(self, addr: u64) -> Option<&'static AtomicU64> {
        let c = self.chunk(addr)?;
        Some(self.page(c, page_in_chunk(addr)))
    }

    /// The state of the page at `addr`.
    pub(super) fn state_at(self, addr: u64) -> Word {
        self.word_at(addr)
            .map_or(Word::NONE, |w| Word(w.load(Ordering::Acquire)))
    }
}

pub(super) fn page_in_chunk(addr: u64) -> usize {
    (addr % CHUNK / PAGE) as usize
}

/// Calls `f(first, end)` for the part of `start..end` in each chunk, in order, until it says false.
pub(super) fn by_chunk(start: u64, end: u64, mut f: impl FnMut(u64, u64) -> bool) {
    let mut at = start;
    while at < end {
        let next = ((at / CHUNK + 1) * CHUNK).min(end);
        if !f(at, next) {
            return;
        }
        at = next;
    }
}
