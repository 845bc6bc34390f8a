//! The manager's end of a keeper: its descriptors, the shared table, and commands.
//!
//! Invariants:
//! 1. One command at a time; its ranges are not touched before it is done.
//! 2. The manager holds duplicates of everything that must not close while the target lives.
//! 3. Whatever is read from shared memory is bounds-checked: the target can write it.

use crate::Error;
use crate::target::inject;
use crate::target::kept::KeptChildren;
use crate::target::proc;
use keeper::layout::{
    CHUNK, CHUNK_PAGES, CHUNKS_MAX, CTL_OFF, DIR_LEN, DIR_OFF, KEEPER_COMM, LOG_LEN, LOG_OFF,
    MAGIC, Op, RANGES_MAX, RANGES_OFF, REFS_BYTES, REGS_MAX, REGS_OFF, REV_OFF, TABLE_BYTES,
    WORDS_OFF, ctl, fd,
};
use keeper::word::Word;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use uffd::fds;
use uffd::shared::SharedMap;

const SNAPSHOT: i32 = 13;

/// Why a command did not come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    /// Both keepers are dead; the target waits.
    Keepers,
    /// The target is gone.
    Target,
    /// The keeper did not finish in time.
    Late,
}

/// A range `start..end` handed to the keeper, and what it says came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// Pages done.
    pub(crate) pages: u64,
    /// Pages that stayed, or a negative error number.
    pub(crate) stayed: i64,
}

/// A keeper as the manager sees it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) pid: i32,
    table: Arc<SharedMap>,
    pub(crate) refs: Arc<SharedMap>,
    pub(crate) file_refs: Arc<SharedMap>,
    pub(crate) pool: File,
    wake: OwnedFd,
    target: OwnedFd,
    /// Kept open so that the target waits, and does not read zeros, if the keepers die.
    pub(super) kept: Vec<OwnedFd>,
    pub(super) kept_children: Mutex<KeptChildren>,
}

/// Finds which process serves `pid`, by the table that its keepers hold open.
pub(crate) fn find_keeper(pid: i32) -> Option<i32> {
    let entries = std::fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&p| proc::is_keeper(p))
        .find(|&p| uffd::process::same_memory(p, pid))
}

impl Link {
    /// Puts a keeper beside `pid` and connects to it.
    pub(crate) fn start(pid: i32) -> Result<Link, Error> {
        let injected = inject::inject(pid, None)?;
        Link::open(pid, injected.keeper)
    }

    /// Connects to a keeper that serves already.
    pub(crate) fn open(pid: i32, keeper: i32) -> Result<Link, Error> {
        let io = |e: std::io::Error| {
            Error::failed(
                format!("cannot connect to the keeper {keeper} of process {pid}"),
                e,
                "run pagetide as the target's user or as root",
            )
        };
        let pidfd = fds::pidfd(keeper).map_err(io)?;
        let get = |number: i32| fds::duplicate(&pidfd, number).map_err(io);
        let file = |number: i32| get(number).map(File::from);
        let table = SharedMap::new(&file(fd::TABLE)?, TABLE_BYTES).map_err(io)?;
        if table.u64(CTL_OFF + ctl::MAGIC * 8).load(Ordering::Acquire) != MAGIC {
            return Err(io(std::io::Error::other(
                "its table has another layout (another version?)",
            )));
        }
        let mut kept = Vec::new();
        for number in [
            fd::TABLE,
            fd::POOL,
            fd::REFS,
            fd::FILE_REFS,
            SNAPSHOT,
            fd::WAKE,
            fd::PAGEMAP,
            fd::EVENTS,
            fd::LIMBO,
            fd::FILE,
            fd::PROBE,
        ] {
            kept.push(get(number)?);
        }
        let link = Link {
            pid,
            table: Arc::new(table),
            refs: Arc::new(SharedMap::new(&file(fd::REFS)?, REFS_BYTES).map_err(io)?),
            file_refs: Arc::new(SharedMap::new(&file(fd::FILE_REFS)?, REFS_BYTES).map_err(io)?),
            pool: file(fd::POOL)?,
            wake: get(fd::WAKE)?,
            target: fds::pidfd(pid).map_err(io)?,
            kept,
            kept_children: Mutex::default(),
        };
        link.look_after_keepers();
        link.keep_children();
        Ok(link)
    }

    /// What only the manager can do for the keepers: descriptors enough, and no OOM kill.
    pub(crate) fn look_after_keepers(&self) {
        for keeper in self.keepers() {
            // Best effort: both need privileges that an unprivileged manager lacks.
            let _ = fds::raise_nofile(keeper, 8192);
            let _ = std::fs::write(format!("/proc/{keeper}/oom_score_adj"), "-1000");
        }
    }

    pub(crate) fn ctl(&self, i: usize) -> &AtomicU64 {
        self.table.u64(CTL_OFF + i * 8)
    }

    pub(crate) fn get(&self, i: usize) -> u64 {
        self.ctl(i).load(Ordering::Acquire)
    }

    /// Process ids of the serving keeper and its standby.
    pub(crate) fn keepers(&self) -> Vec<i32> {
        [ctl::KEEPER_PID, ctl::STANDBY_PID]
            .iter()
            .filter_map(|&i| i32::try_from(self.get(i)).ok())
            .filter(|&p| p > 1)
            .collect()
    }

    /// Whether the target has exited.
    pub(crate) fn target_exited(&self) -> bool {
        fds::readable(self.target.as_fd(), Duration::ZERO)
    }

    /// Whether the target runs another program now.
    pub(crate) fn target_executed(&self) -> bool {
        let keepers = self.keepers();
        let same = |k: &i32| uffd::process::same_memory(*k, self.pid);
        // Asked in this order because it is asked often, and one call mostly answers it.
        !keepers.iter().any(same) && keepers.into_iter().any(alive)
    }

    /// Whether any keeper of the target lives.
    pub(crate) fn kept_alive(&self) -> bool {
        self.keepers().into_iter().any(alive)
    }

    /// Ranges of the target that are the keeper's.
    pub(crate) fn own_ranges(&self) -> Vec<(u64, u64)> {
        let limbo = self
            .get(ctl::LIMBO_CHUNKS)
            .saturating_add(2)
            .saturating_mul(CHUNK);
        let tables = [
            (self.get(ctl::IMAGE_BASE), self.get(ctl::IMAGE_LEN)),
            (self.get(ctl::TABLE_BASE), TABLE_BYTES as u64),
            (self.get(ctl::RESERVE_BASE), limbo),
        ];
        tables
            .iter()
            .map(|&(s, len)| (s, s.saturating_add(len)))
            .collect()
    }

    /// Ranges that the keeper has registered, in order.
    pub(crate) fn registered(&self) -> Vec<(u64, u64)> {
        let n = usize::try_from(self.get(ctl::REGS_USED)).map_or(0, |n| n.min(REGS_MAX));
        let word = |i: usize, half: usize| {
            self.table
                .u64(REGS_OFF + i * 16 + half * 8)
                .load(Ordering::Relaxed)
        };
        (0..n).map(|i| (word(i, 0), word(i, 1))).collect()
    }

    /// Address in the target where the limbo copy of page `page` of chunk `chunk` is.
    pub(crate) fn limbo_addr(&self, chunk: usize, page: usize) -> u64 {
        self.get(ctl::LIMBO_BASE)
            .wrapping_add(chunk as u64 * CHUNK + page as u64 * 4096)
    }

    /// Chunks in use.
    pub(crate) fn chunks(&self) -> usize {
        usize::try_from(self.get(ctl::CHUNKS_USED)).map_or(CHUNKS_MAX, |n| n.min(CHUNKS_MAX))
    }

    /// The chunk that holds `addr`.
    pub(crate) fn chunk_of(&self, addr: u64) -> Option<usize> {
        let i = usize::try_from(addr / CHUNK)
            .ok()
            .filter(|&i| i < DIR_LEN)?;
        let c = self.table.u32(DIR_OFF + i * 4).load(Ordering::Acquire) as usize;
        (1..=CHUNKS_MAX).contains(&c).then(|| c - 1)
    }

    /// First address that chunk `c` stands for.
    pub(crate) fn chunk_addr(&self, c: usize) -> u64 {
        self.table
            .u64(REV_OFF + c % CHUNKS_MAX * 8)
            .load(Ordering::Acquire)
    }

    /// The state word of a page.
    pub(crate) fn word(&self, chunk: usize, page: usize) -> &AtomicU64 {
        self.table
            .u64(WORDS_OFF + (chunk % CHUNKS_MAX * CHUNK_PAGES + page % CHUNK_PAGES) * 8)
    }

    /// The state of a page.
    pub(crate) fn state(&self, chunk: usize, page: usize) -> Word {
        Word(self.word(chunk, page).load(Ordering::Acquire))
    }

    /// Has the keeper carry out `op` on `ranges` (`start..end` each), in batches.
    pub(crate) fn command(
        &self,
        op: Op,
        ranges: &[(u64, u64)],
        limit: Duration,
    ) -> Result<Vec<Outcome>, Lost> {
        let mut out = Vec::with_capacity(ranges.len());
        for batch in ranges.chunks(RANGES_MAX) {
            self.submit(op, batch, limit)?;
            for i in 0..batch.len() {
                let word = |half: usize| {
                    self.table
                        .u64(RANGES_OFF + i * 16 + half * 8)
                        .load(Ordering::Acquire)
                };
                out.push(Outcome {
                    pages: word(0),
                    stayed: word(1).cast_signed(),
                });
            }
        }
        Ok(out)
    }

    /// A command without ranges; the keeper's result.
    pub(crate) fn plain(&self, op: Op, limit: Duration) -> Result<i64, Lost> {
        self.submit(op, &[], limit)?;
        // A child that was let go is nobody's as long as its userfaultfd is open.
        self.keep_children();
        Ok(self.get(ctl::CMD_RESULT).cast_signed())
    }

    /// One command at a time: the keeper may still be at one that was given up as late, and would go
    /// on with the new ranges from where it was in the old ones.
    fn submit(&self, op: Op, batch: &[(u64, u64)], limit: Duration) -> Result<(), Lost> {
        self.settle(limit)?;
        for (i, &(start, end)) in batch.iter().enumerate() {
            let at = RANGES_OFF + i * 16;
            self.table.u64(at).store(start, Ordering::Relaxed);
            self.table.u64(at + 8).store(end, Ordering::Relaxed);
        }
        self.ctl(ctl::CMD_OP).store(op as u64, Ordering::Relaxed);
        self.ctl(ctl::CMD_RANGES)
            .store(batch.len() as u64, Ordering::Relaxed);
        self.ctl(ctl::CMD_RESULT).store(0, Ordering::Relaxed);
        let seq = self.get(ctl::CMD_SEQ).wrapping_add(1);
        self.ctl(ctl::CMD_SEQ).store(seq, Ordering::Release);
        fds::kick(&self.wake);
        self.wait_done(seq, limit)
    }

    fn wait_done(&self, seq: u64, limit: Duration) -> Result<(), Lost> {
        let until = Instant::now() + limit;
        loop {
            let done = self.get(ctl::DONE_SEQ);
            if done == seq {
                return Ok(());
            }
            self.beat();
            #[expect(clippy::cast_possible_truncation, reason = "the futex is the low half")]
            let low = done as u32;
            let nap = Duration::from_millis(20);
            self.table.futex_wait(CTL_OFF + ctl::DONE_SEQ * 8, low, nap);
            if self.get(ctl::DONE_SEQ) == seq {
                return Ok(());
            }
            if self.target_exited() {
                return Err(Lost::Target);
            }
            if !self.kept_alive() {
                return Err(Lost::Keepers);
            }
            if Instant::now() > until {
                return Err(Lost::Late);
            }
        }
    }

    /// Waits for a command that was left unfinished, by an earlier manager or as late.
    pub(crate) fn settle(&self, limit: Duration) -> Result<(), Lost> {
        self.wait_done(self.get(ctl::CMD_SEQ), limit)
    }

    /// Wakes the keeper: something in the control words has changed that it may wait for.
    pub(crate) fn nudge(&self) {
        fds::kick(&self.wake);
    }

    /// Makes the keeper stand still until [`Link::go_on`], at most for `limit`: no word changes
    /// meanwhile and no fault is answered.
    ///
    /// # Errors
    /// When it does not within that time, or is gone.
    pub(crate) fn hold(&self, limit: Duration) -> Result<(), Lost> {
        let now = uffd::process::monotonic_ns();
        let until = now.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        self.ctl(ctl::HOLD_UNTIL).store(until, Ordering::Release);
        self.nudge();
        while self.ctl(ctl::HOLD_SEEN).load(Ordering::Acquire) != until {
            if uffd::process::monotonic_ns() >= until {
                self.go_on();
                return Err(Lost::Late);
            }
            if !self.kept_alive() {
                return Err(Lost::Keepers);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Ends a hold. False if it had run out: then the keeper was at work meanwhile.
    pub(crate) fn go_on(&self) -> bool {
        let until = self.ctl(ctl::HOLD_UNTIL).swap(0, Ordering::AcqRel);
        self.nudge();
        until > uffd::process::monotonic_ns()
    }

    /// Tells the keeper that a manager lives.
    pub(crate) fn beat(&self) {
        self.ctl(ctl::HEARTBEAT)
            .store(uffd::process::monotonic_ns(), Ordering::Release);
    }

    /// Reads the log: calls `f(kind, pages, address)` for each entry. False if entries were lost.
    pub(crate) fn read_log(&self, mut f: impl FnMut(u64, u64, u64)) -> bool {
        let head = self.get(ctl::LOG_HEAD);
        let mut tail = self.get(ctl::LOG_TAIL);
        let sane = head.wrapping_sub(tail) <= LOG_LEN as u64;
        if !sane {
            tail = head;
        }
        while tail != head {
            let i = usize::try_from(tail % LOG_LEN as u64).unwrap_or(0);
            let at = LOG_OFF + i * 16;
            let first = self.table.u64(at).load(Ordering::Relaxed);
            let addr = self.table.u64(at + 8).load(Ordering::Relaxed);
            f(first >> 56, first & 0x00ff_ffff_ffff_ffff, addr);
            tail = tail.wrapping_add(1);
        }
        self.ctl(ctl::LOG_TAIL).store(tail, Ordering::Release);
        let lost = self.ctl(ctl::LOG_LOST).swap(0, Ordering::AcqRel);
        sane && lost == 0
    }

    /// The file tier that an earlier manager handed over.
    pub(crate) fn file(&self) -> Option<File> {
        if self.get(ctl::FILE_GIVEN) != 1 {
            return None;
        }
        let keeper = i32::try_from(self.get(ctl::KEEPER_PID)).ok()?;
        fds::duplicate(&fds::pidfd(keeper).ok()?, fd::FILE)
            .ok()
            .map(File::from)
    }

    /// Hands the keeper the file tier's descriptor.
    pub(crate) fn give_file(&self, file: &File) -> Result<(), Error> {
        let io = |e: std::io::Error| {
            Error::failed(
                format!("cannot give process {} its file tier", self.pid),
                e,
                "try again",
            )
        };
        let keeper = self.get(ctl::KEEPER_PID);
        let pidfd = fds::pidfd(i32::try_from(keeper).unwrap_or(-1)).map_err(io)?;
        let socket = fds::duplicate(&pidfd, fd::SOCK_MANAGER).map_err(io)?;
        fds::send(socket.as_fd(), file.as_fd()).map_err(io)?;
        match self.plain(Op::ReceiveFile, Duration::from_secs(3)) {
            Ok(0..) => Ok(()),
            other => Err(io(std::io::Error::other(format!("{other:?}")))),
        }
    }
}

fn alive(pid: i32) -> bool {
    proc::short(&format!("/proc/{pid}/stat")).is_ok_and(|s| {
        let (head, rest) = s.rsplit_once(')').unwrap_or_default();
        let comm = head.split_once('(').map_or("", |(_, comm)| comm);
        comm.as_bytes() == KEEPER_COMM.to_bytes() && !rest.trim_start().starts_with(['Z', 'X'])
    })
}
