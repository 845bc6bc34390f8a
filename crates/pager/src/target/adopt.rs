//! Taking over a target whose manager died, and giving one back.

use super::link::{self, Link, Lost};
use super::{Target, proc};
use crate::Error;
use crate::options::Options;
use engine::Millis;
use keeper::layout::{CHUNK_PAGES, Op, ctl};
use keeper::word::{Place, State};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

fn lost(pid: i32, what: &str, lost: Lost) -> Error {
    let why = match lost {
        Lost::Keepers => "its keepers were killed",
        Lost::Target => "it has ended",
        Lost::Late => "its keeper does not answer",
    };
    Error::failed(format!("cannot {what} process {pid}"), why, "try again")
}

impl Target {
    /// Takes over `pid` from a dead manager.
    pub(crate) fn adopt(pid: i32, options: &Options, now: Millis) -> Result<Target, Error> {
        let what = format!("cannot adopt process {pid}");
        let keeper = link::find_keeper(pid).ok_or_else(|| {
            Error::failed(
                &what,
                "no keeper of pagetide serves it",
                "use `pagetide attach`",
            )
        })?;
        let link = Link::open(pid, keeper)?;
        link.beat();
        link.settle(LIMIT).map_err(|e| lost(pid, "adopt", e))?;
        // Every entry so far is older than the table that is read next.
        let _ = link.read_log(|_, _, _| {});
        let mut target = Target::over(link, options, now)?;
        target.take_stock().map_err(|e| lost(pid, "adopt", e))?;
        target.rebuild_books();
        Ok(target)
    }

    /// Sets right what the dead manager was in the middle of, and counts what is stored, while the
    /// keeper stands still. Children share slots that only their own tables name, so they are brought
    /// home before; if one was forked meanwhile, or the hold was too short, all of it is done again.
    /// Until then nothing is put into the store, so what a wrong count calls free keeps its bytes.
    fn take_stock(&mut self) -> Result<(), Lost> {
        const LONGEST: Duration = Duration::from_secs(4);
        let until = Instant::now() + LIMIT;
        let mut hold = Duration::from_millis(250);
        while Instant::now() < until {
            self.link.beat();
            self.link.plain(Op::RestoreChildren, LIMIT)?;
            let held = match self.link.hold(hold) {
                Ok(()) => true,
                Err(Lost::Late) => false,
                Err(lost) => return Err(lost),
            };
            let alone = held && self.link.get(ctl::CHILDREN) == 0;
            let stock = alone.then(|| self.read_words());
            if let Some(stock) = &stock {
                self.store.rebuild(stock.places.iter().copied());
            }
            let in_time = self.link.go_on();
            if let Some(stock) = stock.filter(|_| in_time) {
                return self.link.command(Op::Drop, &stock.stale, LIMIT).map(|_| ());
            }
            hold = (hold * 2).min(LONGEST);
        }
        Err(Lost::Late)
    }

    /// All words; write-backs of the dead manager are taken back.
    fn read_words(&self) -> Stock {
        let mut stock = Stock::default();
        for c in 0..self.link.chunks() {
            for i in 0..CHUNK_PAGES {
                let word = self.link.state(c, i);
                if word.state() == State::Writeback {
                    // Lost to a fault: then it is mapped, which is as good.
                    let _ = self.cancel_writeback(c, i);
                }
                if let Some(place) = word.place() {
                    stock.places.push(place);
                    if word.in_limbo() {
                        let addr = self.link.chunk_addr(c) + i as u64 * 4096;
                        stock.stale.push((addr, addr + 4096));
                    }
                }
            }
        }
        stock
    }

    /// Brings everything back and lets the keepers leave; the process is as if never managed.
    pub(crate) fn release(self) -> Result<(), Error> {
        let pid = self.pid;
        let fail = |e| lost(pid, "detach from", e);
        self.link.ctl(ctl::THROTTLE).store(0, Ordering::Release);
        let keepers = self.link.keepers();
        let stub = (self.link.get(ctl::STUB_ADDR), self.link.get(ctl::STUB_LEN));
        if !self.leave().map_err(fail)? {
            let out = self.census();
            return Err(match out.limbo + out.stored {
                0 => fail(Lost::Late),
                out => Error::failed(
                    format!("cannot detach from process {pid}"),
                    format!("{out} of its pages could not be brought back"),
                    "free memory (the pages need it) and try again; it stays served meanwhile",
                ),
            });
        }
        let until = std::time::Instant::now() + Duration::from_secs(3);
        while keepers.iter().any(|&k| proc::is_keeper(k)) && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(self);
        clear_stub(pid, stub);
        Ok(())
    }
}

impl Target {
    /// Brings everything back and sends the keepers away; false if they stay. They do while they
    /// serve a child, and one may be forked at any moment, and while a page is out. The program may
    /// move memory meanwhile, so each try looks anew at what is registered.
    fn leave(&self) -> Result<bool, Lost> {
        const TRIES: u32 = 20;
        for _ in 0..TRIES {
            let all = self.link.registered();
            self.link.command(Op::Restore, &all, LIMIT)?;
            self.link.plain(Op::RestoreChildren, LIMIT)?;
            if self.link.plain(Op::Leave, LIMIT)? == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What is stored, and the ranges whose limbo copies are not needed.
#[derive(Default)]
struct Stock {
    places: Vec<Place>,
    stale: Vec<(u64, u64)>,
}

/// Zeros the stub's place in the target's text again. No thread is in it: the one that ran it
/// left long ago, and the keepers' last steps are over.
fn clear_stub(pid: i32, (addr, len): (u64, u64)) {
    let mem = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    if let (Ok(mem), Ok(len)) = (mem, usize::try_from(len))
        && len <= 4096
    {
        // A target that has just ended needs no clearing.
        let _ = mem.write_all_at(&vec![0; len], addr);
    }
}
