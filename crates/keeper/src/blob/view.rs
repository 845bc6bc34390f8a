//! The keeper's state, and the address spaces it serves: its own (the target's), and those of
//! forked children that have no keeper yet.
//!
//! Invariants:
//! 1. `regs` in the table lists ranges that are registered on the event userfaultfd, or whose
//!    unregistering event is still unread; while an event is unread the kernel answers every
//!    install and every move out with EAGAIN, so nothing is moved out of memory that would not
//!    fault when touched.
//! 2. For a while after the program removed memory nothing is moved out of its chunk: the event
//!    is delivered before the kernel drops the pages, and one moved aside in between would come
//!    back after the program was promised zeros. (Dropping them ourselves would be wrong too:
//!    `MADV_FREE` raises the same event, leaves the pages mapped, and takes back its promise when
//!    they are written.)

use super::regs::Regs;
use super::sys;
use super::table::{PAGE, Table};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use keeper::layout::{CHUNK, TABLE_BYTES, ctl, fd};
use keeper::order::ledger::{Ledger, Ranges};
use keeper::order::plan::Plan;
use keeper::word::PAGE_SIZE;

pub(super) use keeper::layout::CHILDREN_MAX;
pub(super) const PENDING_MAX: usize = 4096;
/// How long a chunk rests after memory of it was removed, milliseconds.
pub(super) const REST_MS: u32 = 2000;
/// Pages brought back from the store by one fault, at most.
pub(super) const READAHEAD_MAX: usize = 16;

/// A forked child that this keeper serves.
#[derive(Clone, Copy)]
pub(super) struct Child {
    /// Its userfaultfd; -1 for a free place.
    pub(super) uffd: i32,
    /// Its table file.
    pub(super) table_fd: i32,
    /// Its table, mapped.
    pub(super) table: Table,
}

/// A fault that was read and not answered yet.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    pub(super) view: View,
    pub(super) addr: u64,
    /// Time-stamp counter when it was read.
    pub(super) since: u64,
}

/// Whose address space.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Own,
    Child(u16),
}

impl View {
    /// As a number, for shared memory.
    pub(super) fn code(self) -> u32 {
        match self {
            View::Own => 0,
            View::Child(i) => u32::from(i) + 1,
        }
    }

    /// From a number.
    pub(super) fn from_code(code: u32) -> View {
        if code == 0 {
            View::Own
        } else {
            View::Child((code - 1) as u16)
        }
    }
}

#[repr(C, align(4096))]
pub(super) struct Pages(pub(super) [[u8; PAGE_SIZE]; READAHEAD_MAX]);

/// All state of the serving keeper.
pub(super) struct Keeper {
    pub(super) pages: Pages,
    pub(super) encoded: [u8; PAGE_SIZE],
    pub(super) scratch: Option<keeper::decode::Scratch>,
    pub(super) image: u64,
    pub(super) target: u64,
    pub(super) table: Table,
    pub(super) refs: u64,
    pub(super) file_refs: u64,
    pub(super) limbo: u64,
    pub(super) limbo_chunks: usize,
    pub(super) transit: u64,
    pub(super) children: [Child; CHILDREN_MAX],
    pub(super) children_end: usize,
    /// Of each child, what was unregistered for a moment (`unstick`).
    pub(super) let_go: [Ranges<16>; CHILDREN_MAX],
    pub(super) pending: [Fault; PENDING_MAX],
    pub(super) pending_len: usize,
    /// What the keeper before this one was bringing back when it died, until events were applied.
    pub(super) died_installing: (u64, u64),
    /// Of the events that are being applied.
    pub(super) ledger: Ledger,
    /// In which order they are.
    pub(super) plan: Plan,
    pub(super) snapshot_len: u64,
    pub(super) zero_next: u64,
    pub(super) zero_window: u64,
    pub(super) refault_next: u64,
    pub(super) refault_window: usize,
    /// Next range of the command that is being executed, and where in it.
    pub(super) cmd_range: usize,
    pub(super) cmd_at: u64,
    /// Results of the range so far: pages done; pages that stayed, or a negative error number.
    pub(super) cmd_moved: u64,
    pub(super) cmd_busy: i64,
    pub(super) cmd_watch: u64,
    /// Which of the two stacks this keeper runs on.
    pub(super) stack: u64,
    /// Whether the target itself is gone and only children are served.
    pub(super) orphaned: bool,
    pub(super) checked_ns: u64,
}

struct Slot(UnsafeCell<MaybeUninit<Keeper>>);
// SAFETY: only the serving keeper takes the reference, and there is one at a time: the other one
// runs `recover` only after the first is dead.
unsafe impl Sync for Slot {}
static KEEPER: Slot = Slot(UnsafeCell::new(MaybeUninit::zeroed()));

/// The keeper's state.
///
/// # Safety
/// At most one live reference: the caller is the only serving keeper and calls once.
pub(super) unsafe fn state() -> &'static mut Keeper {
    // SAFETY: all-zero bytes are a valid Keeper (integers, addresses, arrays of them, and no
    // scratch, whose pointer is null then); unique by the caller's contract.
    unsafe { (*KEEPER.0.get()).assume_init_mut() }
}

impl Keeper {
    pub(super) fn table_of(&self, view: View) -> Table {
        match view {
            View::Own => self.table,
            View::Child(i) => self.children[usize::from(i) % CHILDREN_MAX].table,
        }
    }

    pub(super) fn uffd_of(&self, view: View) -> i32 {
        match view {
            View::Own => fd::EVENTS,
            View::Child(i) => self.children[usize::from(i) % CHILDREN_MAX].uffd,
        }
    }

    /// Where the tables of the children lie in this address space.
    pub(super) fn child_tables(&self) -> impl Iterator<Item = keeper::span::Range> {
        let served = self.children[..self.children_end].iter();
        served.filter(|child| child.uffd >= 0).map(|child| {
            let base = child.table.base();
            (base, base + TABLE_BYTES as u64)
        })
    }

    /// Notes that memory of the range was removed just now.
    pub(super) fn let_rest(&self, start: u64, end: u64) {
        let now = now_ms();
        super::table::by_chunk(start, end, |at, _| {
            if let Some(rest) = self.table.rest(at) {
                rest.store(now, core::sync::atomic::Ordering::Relaxed);
            }
            true
        });
    }

    /// Whether nothing may be moved out of the chunk at `addr` yet.
    pub(super) fn rests(&self, addr: u64) -> bool {
        let Some(rest) = self.table.rest(addr) else {
            return true;
        };
        let since = rest.load(core::sync::atomic::Ordering::Relaxed);
        since != 0 && now_ms().wrapping_sub(since) < REST_MS
    }

    /// Where limbo holds the page of chunk `c` at `addr`.
    pub(super) fn limbo_of(&self, c: usize, addr: u64) -> u64 {
        self.limbo + c as u64 * CHUNK + addr % CHUNK
    }

    /// Where the resident copy of a page in limbo state is: limbo, or the transit window if the
    /// page got stuck there.
    pub(super) fn aside(&self, c: usize, addr: u64) -> u64 {
        let t = self.table;
        if t.get(ctl::TRANSIT_ON) == 1 {
            let start = t.get(ctl::TRANSIT_ADDR);
            if addr >= start && addr < start + t.get(ctl::TRANSIT_LEN) {
                return self.transit + addr % CHUNK;
            }
        }
        self.limbo_of(c, addr)
    }

    /// Drops the limbo pages of the range `start..end` of chunk `c` (program addresses).
    pub(super) fn drop_limbo(&self, c: usize, start: u64, end: u64) {
        if c < self.limbo_chunks {
            sys::madvise(self.limbo_of(c, start), end - start, sys::MADV_DONTNEED);
        }
    }

    /// What is registered.
    pub(super) fn regs(&self) -> Regs {
        Regs(self.table)
    }
}

/// A clock for rests; never 0.
fn now_ms() -> u32 {
    (sys::now_ns() / 1_000_000) as u32 | 1
}

/// Rounds down to a page.
pub(super) fn page_of(addr: u64) -> u64 {
    addr / PAGE * PAGE
}
