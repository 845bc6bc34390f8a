//! `/proc/PID/stat` (proc_pid_stat(5)).
//!
//! Invariant: a program's name may contain parentheses, blanks or newlines. Parsing is exact
//! nevertheless, because only numbers follow the last closing parenthesis.

use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::text::{number, number32, printable, words};

/// Identifies a process: a later process with the same pid has another start time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// The pid in our pid namespace.
    pub pid: u32,
    /// Start time, clock ticks (1/100 s) after boot. An exec does not change it.
    pub started: u64,
}

/// What is known of a process without reading its memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// Pid of the process.
    pub pid: u32,
    /// Name of the program, at most 15 bytes, safe for a terminal.
    pub comm: String,
    /// State of the process, one letter: `R`, `S`, `D`, `Z`, `T` ...
    pub state: u8,
    /// Pid of the parent; 0 for init, and if the parent is in another pid namespace.
    pub parent: u32,
    /// Number of the process group.
    pub group: u32,
    /// Number of the session.
    pub session: u32,
    /// The kernel's flags (`PF_*`).
    pub flags: u32,
    /// Minor faults of all threads: page faults that read nothing.
    pub minor_faults: u64,
    /// Major faults of all threads: page faults that read a file or swap.
    pub major_faults: u64,
    /// Time in user mode, clock ticks.
    pub utime: u64,
    /// Time in the kernel, clock ticks.
    pub stime: u64,
    /// Number of threads; 1 or 0 for a zombie of which only the exit status remains.
    pub threads: u32,
    /// Start time, clock ticks after boot.
    pub started: u64,
    /// Resident pages. The kernel's counter may be off by some pages per CPU.
    pub resident: u64,
    /// Address at which the stack began: random, and new at every exec; 0 if it is hidden from us.
    pub stack: u64,
    /// The processor on which the first thread ran last; 0 if the kernel does not report it.
    pub processor: u32,
}

/// `PF_KTHREAD` in `include/linux/sched.h`.
const PF_KTHREAD: u32 = 0x0020_0000;

impl Stat {
    /// Returns the identity of this process.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            pid: self.pid,
            started: self.started,
        }
    }

    /// Returns whether the process is a kernel thread, which has no memory of its own.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// Returns whether the process has ended: its memory is gone, only its pid still exists. A
    /// process whose first thread ended before others has the state `Z` too, but lives on.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, b'X' | b'x') || (self.state == b'Z' && self.threads <= 1)
    }
}

/// Parses the fields of `stat`: `pid (comm) state ppid pgrp session tty tpgid flags minflt cminflt
/// majflt cmajflt utime stime cutime cstime priority nice num_threads itrealvalue starttime vsize
/// rss rsslim startcode endcode startstack kstkesp kstkeip signal blocked sigignore sigcatch wchan
/// nswap cnswap exit_signal processor ...`
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
        // minflt and majflt; cminflt and cmajflt between them count reaped children.
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
        // After kstkesp, kstkeip, four fields about signals, wchan, nswap, cnswap, exit_signal.
        processor: fields.nth(10).and_then(number32).unwrap_or(0),
    })
}

/// Parses the number of a process group or session; -1, for a process that is ending, becomes 0.
fn id(word: &[u8]) -> Option<u32> {
    if word.starts_with(b"-") {
        Some(0)
    } else {
        number32(word)
    }
}

impl Proc {
    /// Reads a process's `stat`; `None` if the process is gone.
    ///
    /// # Errors
    /// `/proc` hides the process, or the format is unknown.
    pub fn stat(&self, pid: u32) -> Result<Option<Stat>, Error> {
        self.stat_in(pid, "stat")
    }

    /// Reads the `stat` of one thread of a process; `None` if the thread is gone. Sizes are those
    /// of the whole process.
    ///
    /// # Errors
    /// Those of [`Proc::stat`].
    pub fn thread_stat(&self, pid: u32, thread: u32) -> Result<Option<Stat>, Error> {
        self.stat_in(pid, &format!("task/{thread}/stat"))
    }

    /// Reads and parses the file `name` of a process, which has the format of `stat`.
    fn stat_in(&self, pid: u32, name: &str) -> Result<Option<Stat>, Error> {
        let mut text = Vec::with_capacity(2048);
        // One read(2) returns the whole file; a second one would only confirm its end.
        if !self.read_up_to(pid, name, 1, &mut text)? {
            return Ok(None);
        }
        parse_stat(&text).map(Some).ok_or_else(|| Error::Unknown {
            path: self.path(pid, name),
            what: printable(&text),
        })
    }

    /// Returns the identity of the process that has this pid now; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Proc::stat`].
    pub fn identity(&self, pid: u32) -> Result<Option<Identity>, Error> {
        Ok(self.stat(pid)?.map(|stat| stat.identity()))
    }
}
