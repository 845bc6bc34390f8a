//! `/proc/PID/stat` (proc_pid_stat(5)).
//!
//! Invariant: a name with parentheses, blanks or newlines moves no field: what follows the last
//! closing parenthesis is numbers.

use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::text::{number, number32, printable, words};

/// A process, and no later one with the same pid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// As seen from our pid namespace.
    pub pid: u32,
    /// When it started, clock ticks (1/100 s) after boot. An exec does not change it.
    pub started: u64,
}

/// What is known of a process without looking at its memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// Its number.
    pub pid: u32,
    /// Name of the program, at most 15 bytes, as a terminal may show it.
    pub comm: String,
    /// `R`, `S`, `D`, `Z`, `T` ...
    pub state: u8,
    /// Its parent; 0 for init and for children of another pid namespace's.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// `PF_*` of the kernel.
    pub flags: u32,
    /// Page faults of all its threads that needed no reading.
    pub minor_faults: u64,
    /// Those that did: of a file, or from swap.
    pub major_faults: u64,
    /// In user mode, clock ticks.
    pub utime: u64,
    /// In the kernel, clock ticks.
    pub stime: u64,
    /// Threads; 1 or 0 for a zombie that only waits to be reaped.
    pub threads: u32,
    /// Clock ticks after boot.
    pub started: u64,
    /// Resident pages, by counters that may be some pages per CPU off.
    pub resident: u64,
    /// Where its first stack began: an address that every exec draws anew; 0 where it is hidden.
    pub stack: u64,
    /// Where its first thread ran last; 0 if the kernel does not say.
    pub processor: u32,
}

/// `PF_KTHREAD` in `include/linux/sched.h`.
const PF_KTHREAD: u32 = 0x0020_0000;

impl Stat {
    /// This process and no later one.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            pid: self.pid,
            started: self.started,
        }
    }

    /// A thread of the kernel: it has no memory of its own.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// Ended: its memory is gone, only its number is still there. A first thread that ended before
    /// others is a zombie too, while the process lives on.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, b'X' | b'x') || (self.state == b'Z' && self.threads <= 1)
    }
}

/// `pid (comm) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime
/// cutime cstime priority nice num_threads itrealvalue starttime vsize rss rsslim startcode endcode
/// startstack kstkesp kstkeip signal blocked sigignore sigcatch wchan nswap cnswap exit_signal processor ...`
#[must_use]
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let comm = text.get(open + 1..close)?;
    let mut fields = words(text[close + 1..].trim_ascii());
    let &[state] = fields.next()? else {
        return None;
    };
    Some(Stat {
        pid: number32(text[..open].trim_ascii())?,
        comm: printable(comm),
        state,
        parent: number32(fields.next()?)?,
        group: id(fields.next()?)?,
        session: id(fields.next()?)?,
        // After tty_nr and tpgid.
        flags: number32(fields.nth(2)?)?,
        // minflt and majflt; the other two are those of children that were waited for.
        minor_faults: number(fields.next()?)?,
        major_faults: number(fields.nth(1)?)?,
        utime: number(fields.nth(1)?)?,
        stime: number(fields.next()?)?,
        // After cutime, cstime, priority, nice.
        threads: number32(fields.nth(4)?)?,
        // After itrealvalue.
        started: number(fields.nth(1)?)?,
        // After vsize.
        resident: fields.nth(1).and_then(number).unwrap_or(0),
        // After rsslim, startcode, endcode.
        stack: fields.nth(3).and_then(number).unwrap_or(0),
        // After kstkesp, kstkeip, four of signals, wchan, nswap, cnswap, exit_signal.
        processor: fields.nth(10).and_then(number32).unwrap_or(0),
    })
}

/// A group or session; -1 once the process is being taken apart, which counts as none.
fn id(word: &[u8]) -> Option<u32> {
    if word.starts_with(b"-") {
        Some(0)
    } else {
        number32(word)
    }
}

impl Proc {
    /// What a process is; `None` if it is gone.
    ///
    /// # Errors
    /// If `/proc` hides it, or its form is not known.
    pub fn stat(&self, pid: u32) -> Result<Option<Stat>, Error> {
        self.stat_in(pid, "stat")
    }

    /// What a thread of a process is; `None` if it is gone. Sizes are the process's.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn thread_stat(&self, pid: u32, thread: u32) -> Result<Option<Stat>, Error> {
        self.stat_in(pid, &format!("task/{thread}/stat"))
    }

    fn stat_in(&self, pid: u32, name: &str) -> Result<Option<Stat>, Error> {
        let mut text = Vec::with_capacity(2048);
        // One read gives all of it: a second one would only say that this was the end.
        if !self.read_up_to(pid, name, 1, &mut text)? {
            return Ok(None);
        }
        parse_stat(&text).map(Some).ok_or_else(|| Error::Unknown {
            path: self.path(pid, name),
            what: printable(&text),
        })
    }

    /// Who has this number now; `None` if nobody.
    ///
    /// # Errors
    /// As [`Proc::stat`].
    pub fn identity(&self, pid: u32) -> Result<Option<Identity>, Error> {
        Ok(self.stat(pid)?.map(|stat| stat.identity()))
    }
}
