//! Layout of the table file: one sparse memfd a view (a target, or a forked child not yet managed).
//!
//! ```text
//! CTL    64-bit control words: identity, command mailbox, counters, fault histogram, journal
//! RANGES command ranges, two words each: start, length; results are written over them
//! REGS   registered ranges of the target, sorted, two words each: start, end
//! LOG    ring of what happened, two words each, written by the keeper, read by the manager
//! REV    chunk -> first byte of the 2 MiB chunk of the target
//! DIR    2 MiB chunk number of the address space -> chunk + 1 (32 bits each), 0 for none
//! REST   2 MiB chunk number of the address space -> when part of it was last removed (32 bits)
//! WORDS  page-state words, 512 a chunk
//! ```
//!
//! Invariant: `REV[DIR[a] - 1] == a` for every chunk in use. The target can write all of this; the
//! manager therefore bounds-checks every index it reads from here.

/// Bytes of a chunk of the target's address space: one huge page.
pub const CHUNK: u64 = 2 << 20;
/// Pages of a chunk.
pub const CHUNK_PAGES: usize = 512;
/// Chunks that a table can hold (1 TiB of touched address space).
pub const CHUNKS_MAX: usize = 1 << 19;
/// Ranges of one command.
pub const RANGES_MAX: usize = 4096;
/// Registered ranges of one target.
pub const REGS_MAX: usize = 32768;
/// Events that may wait: more than the threads of any program that announce something at once.
pub const QUEUE_MAX: usize = 16384;
/// Log entries; a power of two.
pub const LOG_LEN: usize = 1 << 16;
/// Chunk numbers of a 47-bit address space.
pub const DIR_LEN: usize = 1 << (47 - 21);

/// Byte offset of the control words.
pub const CTL_OFF: usize = 0;
const CTL_BYTES: usize = 64 << 10;
/// Byte offset of the command ranges.
pub const RANGES_OFF: usize = CTL_OFF + CTL_BYTES;
/// Byte offset of the registered ranges.
pub const REGS_OFF: usize = RANGES_OFF + RANGES_MAX * 16;
/// Byte offset of the log.
pub const LOG_OFF: usize = REGS_OFF + REGS_MAX * 16;
/// Byte offset of the chunk addresses.
pub const REV_OFF: usize = LOG_OFF + LOG_LEN * 16;
/// Byte offset of the directory.
pub const DIR_OFF: usize = (REV_OFF + CHUNKS_MAX * 8).next_multiple_of(4096);
/// Byte offset of the times of removal.
pub const REST_OFF: usize = DIR_OFF + DIR_LEN * 4;
/// Byte offset of the events that were read and not yet applied, 32 bytes each.
pub const QUEUE_OFF: usize = REST_OFF + DIR_LEN * 4;
/// Byte offset of the state words.
pub const WORDS_OFF: usize = QUEUE_OFF + QUEUE_MAX * 32;
/// Bytes of the whole file (sparse).
pub const TABLE_BYTES: usize = WORDS_OFF + CHUNKS_MAX * CHUNK_PAGES * 8;

/// What a keeper is called in `ps` and `top`. Not "pagetide" with something behind it: `pkill
/// pagetide` would take both keepers with their manager, and what is out would read as zeros.
pub const KEEPER_COMM: &core::ffi::CStr = c"ptide-keeper";

/// First word of a table file.
pub const MAGIC: u64 = 0x3265_6469_7465_6761;

/// Indexes of control words (64 bits each) from [`CTL_OFF`].
pub mod ctl {
    /// [`super::MAGIC`] once the keeper has set everything up.
    pub const MAGIC: usize = 0;
    /// Process id of the target, as the keeper's namespace sees it.
    pub const TARGET_PID: usize = 1;
    /// Process id of the keeper that answers faults now.
    pub const KEEPER_PID: usize = 2;
    /// Process id of the keeper that stands by.
    pub const STANDBY_PID: usize = 3;
    /// First byte of limbo.
    pub const LIMBO_BASE: usize = 4;
    /// Chunks that limbo has room for.
    pub const LIMBO_CHUNKS: usize = 5;
    /// First byte of the transit window (one chunk).
    pub const TRANSIT_BASE: usize = 6;
    /// First byte of the injected image.
    pub const IMAGE_BASE: usize = 7;
    /// Bytes of the injected image with stacks.
    pub const IMAGE_LEN: usize = 8;
    /// How often a standby has taken over.
    pub const TAKEOVERS: usize = 9;
    /// Chunks handed out so far (high-water mark).
    pub const CHUNKS_USED: usize = 10;
    /// Registered ranges in REGS.
    pub const REGS_USED: usize = 11;
    /// 1 when keepers are to leave.
    pub const LEAVING: usize = 12;
    /// First byte where the table file is mapped in the target.
    pub const TABLE_BASE: usize = 13;
    /// First byte where the reference counts are mapped in the target.
    pub const REFS_BASE: usize = 14;
    /// Address of the stub in the target's text, to be cleared at detach.
    pub const STUB_ADDR: usize = 15;
    /// Bytes of the stub.
    pub const STUB_LEN: usize = 16;
    /// First byte where the file tier's reference counts are mapped in the target.
    pub const FILE_REFS_BASE: usize = 18;
    /// First byte of the reservation that holds limbo and the transit window.
    pub const RESERVE_BASE: usize = 19;
    /// 1 once a file tier was received.
    pub const FILE_GIVEN: usize = 20;
    /// Forked children that the keeper serves.
    pub const CHILDREN: usize = 17;

    /// Sequence of the newest command; the keeper compares it with DONE_SEQ.
    pub const CMD_SEQ: usize = 32;
    /// Sequence of the newest finished command; a futex on its low half.
    pub const DONE_SEQ: usize = 33;
    /// [`super::Op`] of the command.
    pub const CMD_OP: usize = 34;
    /// Its ranges in RANGES.
    pub const CMD_RANGES: usize = 35;
    /// Its result: 0 or a negative error number.
    pub const CMD_RESULT: usize = 36;
    /// An argument.
    pub const CMD_ARG: usize = 37;

    /// Entries ever written to the log.
    pub const LOG_HEAD: usize = 40;
    /// Entries ever read from the log.
    pub const LOG_TAIL: usize = 41;
    /// Entries dropped because the log was full: the manager must read the whole table.
    pub const LOG_LOST: usize = 42;

    /// Manager's heartbeat, nanoseconds of CLOCK_MONOTONIC.
    pub const HEARTBEAT: usize = 48;
    /// 1 while new pages need budget.
    pub const THROTTLE: usize = 49;
    /// New pages that may come before the manager has made room.
    pub const BUDGET: usize = 50;
    /// Pages that a group in limbo spans at most, a power of two up to 512.
    pub const LIMBO_WINDOW: usize = 51;

    /// Until when the keeper stands still, nanoseconds of CLOCK_MONOTONIC: it changes no word, so
    /// that an adopting manager can count what is stored. 0 for not at all.
    pub const HOLD_UNTIL: usize = 52;
    /// The last HOLD_UNTIL that the keeper has seen.
    pub const HOLD_SEEN: usize = 53;

    /// Faults answered.
    pub const FAULTS: usize = 64;
    /// Pages moved back from limbo because they were touched, neighbours included.
    pub const LIMBO_RETURNS: usize = 65;
    /// Pages decompressed because they were touched.
    pub const REFAULTS: usize = 66;
    /// Pages decompressed beside a touched one.
    pub const READAHEAD: usize = 67;
    /// Pages filled with zeros at a first touch.
    pub const ZERO_FILLS: usize = 68;
    /// Events read.
    pub const EVENTS: usize = 69;
    /// Forks seen.
    pub const FORKS: usize = 70;
    /// Answers put off because the address space was changing.
    pub const RETRIES: usize = 71;
    /// Things that should not happen; each is a bug to look for.
    pub const ANOMALIES: usize = 72;
    /// Faults that waited for budget.
    pub const THROTTLED: usize = 73;
    /// Pages that the kernel had to fill itself (see the keeper's `unstick`).
    pub const LET_GO: usize = 75;
    /// How often the program's threads had to stand still (see the keeper's `halt`).
    pub const HALTS: usize = 76;
    /// Last anomaly: code and error number.
    pub const ANOMALY_LAST: usize = 74;

    /// Transit journal: 1 while pages may be in the transit window.
    pub const TRANSIT_ON: usize = 96;
    /// Transit journal: first byte in the target.
    pub const TRANSIT_ADDR: usize = 97;
    /// Transit journal: bytes.
    pub const TRANSIT_LEN: usize = 98;
    /// Install journal: 1 while a fault is being answered.
    pub const INSTALL_ON: usize = 100;
    /// Install journal: first byte in the target.
    pub const INSTALL_ADDR: usize = 101;
    /// Install journal: bytes.
    pub const INSTALL_LEN: usize = 102;

    /// Fault service times, read to answered: [`super::HIST_LEN`] counters.
    pub const HIST: usize = 256;
    /// Messages read from a userfaultfd and not yet applied: 16 of 4 words.
    pub const INBOX: usize = 1024;
    /// Events that were read and not yet applied: their number.
    pub const QUEUE_LEN: usize = 110;
    /// Events of the set that is being applied that have their turn.
    pub const PLANNED: usize = 111;
    /// Forked children that are served, [`super::CHILD_WORDS`] words each ([`super::ChildSlot`]): for the
    /// manager, which keeps their descriptors open, and for a new image.
    pub const CHILD_SLOTS: usize = 6144;
    /// Which userfaultfd the inbox was read from: 0 the target's, else child index + 1.
    pub const INBOX_SOURCE: usize = 1023;
}

/// Forked children that a keeper serves at most.
pub const CHILDREN_MAX: usize = 400;
/// Control words of a child's slot.
pub const CHILD_WORDS: usize = 2;
const _: () = assert!(ChildSlot::at(CHILDREN_MAX) * 8 <= CTL_BYTES);

/// What the control words say of a child: its descriptors in the keepers' table, and where its table
/// file is mapped. Two words: the numbers (the userfaultfd's plus one in the low half), and the
/// address with the serial number in its low bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildSlot {
    /// Its userfaultfd.
    pub uffd: i32,
    /// Its table file.
    pub table_fd: i32,
    /// First byte of the mapped table.
    pub base: u64,
    /// Tells children apart that have the same of all others, one after the other; below 4096.
    pub serial: u64,
}

impl ChildSlot {
    /// The first control word of slot `i`.
    #[must_use]
    pub const fn at(i: usize) -> usize {
        ctl::CHILD_SLOTS + CHILD_WORDS * i
    }

    /// As control words.
    #[must_use]
    pub fn words(self) -> [u64; CHILD_WORDS] {
        let low = u64::from(self.uffd.unsigned_abs()) + 1;
        [
            low | u64::from(self.table_fd.unsigned_abs()) << 32,
            self.base | (self.serial % 4096),
        ]
    }

    /// From control words; `None` if nobody has the slot, or what it says cannot be.
    #[must_use]
    pub fn from_words(words: [u64; CHILD_WORDS]) -> Option<ChildSlot> {
        let low = u32::try_from(words[0] & 0xffff_ffff).ok()?;
        Some(ChildSlot {
            uffd: i32::try_from(low.checked_sub(1)?).ok()?,
            table_fd: i32::try_from(words[0] >> 32).ok()?,
            base: words[1] / 4096 * 4096,
            serial: words[1] % 4096,
        })
    }
}

/// Counters of the fault histogram: counter `i` holds times up to [`hist_upper_cycles`]`(i)`.
pub const HIST_LEN: usize = 256;

/// Upper edge of histogram counter `i` in time-stamp-counter cycles: 8 counters an octave.
#[must_use]
pub const fn hist_upper_cycles(i: usize) -> u64 {
    let octave = i / 8;
    let step = (i % 8) as u64 + 1;
    if octave == 0 {
        step
    } else {
        (8 + step) << (octave - 1)
    }
}

/// The histogram counter for a time in cycles.
#[must_use]
pub const fn hist_index(cycles: u64) -> usize {
    if cycles <= 8 {
        return (cycles.saturating_sub(1) & 7) as usize;
    }
    let top = 63 - (cycles - 1).leading_zeros() as usize;
    let octave = top - 2;
    let step = (((cycles - 1) >> (octave - 1)) & 7) as usize;
    let i = octave * 8 + step;
    if i >= HIST_LEN { HIST_LEN - 1 } else { i }
}

/// What the manager asks of the keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Op {
    /// Register ranges (whole VMAs), each followed by an empty range at the start of the next
    /// mapping. The end word of the first becomes 0 or a negative error number.
    Register = 1,
    /// Move mapped pages of the ranges to limbo; the start word becomes pages moved, the end word
    /// pages that stayed because they are shared or pinned. The low bits of a start are
    /// how they are watched: [`watch`].
    MoveOut = 2,
    /// Drop the limbo copies of stored pages.
    Drop = 3,
    /// Bring everything in the ranges back.
    Restore = 4,
    /// Unregister everything and leave.
    Leave = 5,
    /// Receive one descriptor over the socket and keep it as number [`fd::FILE`].
    ReceiveFile = 6,
    /// Bring back all that any forked child still misses, and let go of it.
    RestoreChildren = 7,
    /// Give chunks to the ranges, so that their pages have words.
    Claim = 8,
}

/// How pages that are moved aside are watched.
pub mod watch {
    /// Each by itself.
    pub const PAGES: u64 = 0;
    /// As groups ([`crate::Word::LIMBO_GROUP`]).
    pub const GROUPS: u64 = 1;
    /// As groups as large as a chunk ([`crate::Word::LIMBO_WIDE`]).
    pub const CHUNKS: u64 = 2;
}

/// Descriptor numbers in the keeper's own table.
pub mod fd {
    /// This file.
    pub const TABLE: i32 = 0;
    /// The pool memfd.
    pub const POOL: i32 = 1;
    /// The file tier, once received.
    pub const FILE: i32 = 2;
    /// Reference counts of the pool.
    pub const REFS: i32 = 3;
    /// Userfaultfd with events, registered on the program's VMAs and the transit window.
    pub const EVENTS: i32 = 4;
    /// Userfaultfd without events, registered on limbo.
    pub const LIMBO: i32 = 5;
    /// Eventfd that wakes the keeper for a command.
    pub const WAKE: i32 = 6;
    /// Pidfd of the target.
    pub const TARGET: i32 = 7;
    /// `/proc/self/pagemap`.
    pub const PAGEMAP: i32 = 8;
    /// Socket: the manager's end.
    pub const SOCK_MANAGER: i32 = 9;
    /// Socket: the keeper's end.
    pub const SOCK_KEEPER: i32 = 10;
    /// Reference counts of the file tier.
    pub const FILE_REFS: i32 = 11;
    /// Userfaultfd without events that is registered on nothing: it asks what is registered.
    pub const PROBE: i32 = 14;
    /// Pidfd of the other keeper.
    pub const PEER: i32 = 12;
}

/// Kinds of log entries: high byte of the first word; the rest of it is a number of pages.
pub mod log {
    /// Pages came back from limbo; the first one was touched.
    pub const LIMBO_RETURN: u64 = 1;
    /// Pages came back from the store; the first one was touched.
    pub const REFAULT: u64 = 2;
    /// Pages were removed (madvise, munmap).
    pub const REMOVED: u64 = 3;
    /// A range was unmapped: registered no more.
    pub const UNMAPPED: u64 = 4;
    /// A range has moved away; where to is in the next entry.
    pub const REMAP_FROM: u64 = 5;
    /// Where a range has moved to.
    pub const REMAP_TO: u64 = 6;
    /// A child was forked.
    pub const FORK: u64 = 7;
    /// Pages were filled with zeros.
    pub const ZERO: u64 = 8;
}

/// Bytes of the reference-count file: one 16-bit count for each 64 bytes of a 64 GiB pool.
pub const POOL_MAX: u64 = 64 << 30;
/// Bytes of the reference-count files.
pub const REFS_BYTES: usize = (POOL_MAX / crate::word::SLOT_GRANULE) as usize * 2;

const _: () = {
    assert!(ctl::INBOX + 16 * 4 <= ctl::CHILD_SLOTS);
    // A turn, and a place in the queue, are 16 bits.
    assert!(QUEUE_MAX < u16::MAX as usize);
    assert!(ctl::HIST + HIST_LEN < ctl::INBOX_SOURCE);
    assert!(DIR_OFF.is_multiple_of(4096) && WORDS_OFF.is_multiple_of(4096));
    // Registrations come in pairs that no batch may part.
    assert!(RANGES_MAX.is_multiple_of(2));
};

#[cfg(test)]
mod tests {
    use super::*;

    /// `pkill -9 pagetide` matches parts of names. It killed keepers together with the manager, the
    /// last userfaultfd closed, and a program read zeros.
    #[test]
    fn the_keepers_name_is_not_the_managers() {
        let name = KEEPER_COMM.to_str().expect("ASCII");
        assert!(!name.contains("pagetide") && name.len() < 16);
    }

    #[test]
    fn a_childs_slot_reads_as_it_was_written() {
        let slot = ChildSlot {
            uffd: 0,
            table_fd: i32::MAX,
            base: 0x7fff_ffff_f000,
            serial: 4095,
        };
        assert_eq!(ChildSlot::from_words(slot.words()), Some(slot));
        assert_eq!(ChildSlot::from_words([0, 4096]), None);
        assert_eq!(ChildSlot::from_words([1 << 63 | 1, 0]), None);
    }

    #[test]
    fn histogram_edges_enclose_their_values() {
        let mut values: Vec<u64> = (0..2000).collect();
        values.extend((11..30).flat_map(|s| [(1 << s) - 1, 1 << s, (1 << s) + 1]));
        for cycles in values {
            let i = hist_index(cycles);
            assert!(cycles <= hist_upper_cycles(i), "{cycles} above counter {i}");
            assert!(
                i == 0 || cycles > hist_upper_cycles(i - 1),
                "{cycles} below counter {i}"
            );
        }
    }
}
