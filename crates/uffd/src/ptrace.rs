//! Stopping one thread for a moment: its registers, its mask, its syscall filters.
//!
//! Invariant: a [`Stopped`] thread is let go when the value is dropped, with the registers it has
//! then; a manager that is killed lets go the same way (the kernel detaches).

use libc::{c_int, c_uint, c_void, pid_t};
use std::io;
use std::time::{Duration, Instant};

/// General registers of x86-64 as ptrace has them.
pub type Registers = libc::user_regs_struct;

/// A classic-BPF instruction: code, jt, jf, k.
pub type Insn = (u16, u8, u8, u32);

/// A thread that was seized and is stopped.
#[derive(Debug)]
pub struct Stopped {
    tid: pid_t,
}

/// Calls ptrace with a plain-number data argument.
fn request(request: c_uint, tid: pid_t, addr: usize, data: usize) -> io::Result<i64> {
    // SAFETY: every caller in this module passes a request whose address and data arguments are
    // either plain numbers or point to live, large enough buffers of this frame.
    let r = unsafe { libc::ptrace(request, tid, addr as *mut c_void, data as *mut c_void) };
    if r < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(r)
    }
}

impl Stopped {
    /// Seizes thread `tid` and waits until it stops.
    ///
    /// # Errors
    /// EPERM without permission, ESRCH if it is gone, `TimedOut` if it does not stop in time (it
    /// is inside a kernel operation that cannot be interrupted); it is left as it was.
    pub fn seize(tid: i32, limit: Duration) -> io::Result<Stopped> {
        request(libc::PTRACE_SEIZE, tid, 0, 0)?;
        let stopped = Stopped { tid };
        request(libc::PTRACE_INTERRUPT, tid, 0, 0)?;
        let until = Instant::now() + limit;
        loop {
            match stopped.wait()? {
                Some(status) if libc::WIFSTOPPED(status) => {
                    let signal = libc::WSTOPSIG(status);
                    if status >> 16 == libc::PTRACE_EVENT_STOP {
                        return Ok(stopped);
                    }
                    // A signal was on its way: deliver it and wait for our own stop.
                    request(
                        libc::PTRACE_CONT,
                        tid,
                        0,
                        usize::try_from(signal).unwrap_or(0),
                    )?;
                }
                Some(_) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                None if Instant::now() > until => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "thread does not stop",
                    ));
                }
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    fn wait(&self) -> io::Result<Option<c_int>> {
        let mut status = 0;
        // SAFETY: status is a live integer.
        let r = unsafe { libc::waitpid(self.tid, &raw mut status, libc::__WALL | libc::WNOHANG) };
        match r {
            0 => Ok(None),
            r if r < 0 => Err(io::Error::last_os_error()),
            _ => Ok(Some(status)),
        }
    }

    /// The thread's general registers.
    ///
    /// # Errors
    /// ESRCH if the thread was killed.
    pub fn registers(&self) -> io::Result<Registers> {
        // SAFETY: all-zero is a valid value of a structure of integers.
        let mut regs: Registers = unsafe { std::mem::zeroed() };
        request(libc::PTRACE_GETREGS, self.tid, 0, (&raw mut regs).addr())?;
        Ok(regs)
    }

    /// Replaces the thread's general registers.
    ///
    /// # Errors
    /// ESRCH if the thread was killed.
    pub fn set_registers(&self, regs: &Registers) -> io::Result<()> {
        request(libc::PTRACE_SETREGS, self.tid, 0, (&raw const *regs).addr())?;
        Ok(())
    }

    /// The classic-BPF programs of all seccomp filters, newest first.
    ///
    /// # Errors
    /// EACCES without `CAP_SYS_ADMIN`, EIO on kernels without checkpoint/restore.
    pub fn seccomp_filters(&self) -> io::Result<Vec<Vec<Insn>>> {
        const GET_FILTER: c_uint = 0x420c;
        let mut filters = Vec::new();
        loop {
            let n = match request(GET_FILTER, self.tid, filters.len(), 0) {
                Ok(n) => usize::try_from(n).unwrap_or(0),
                Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(filters),
                Err(e) => return Err(e),
            };
            let mut insns = vec![[0u8; 8]; n];
            request(
                GET_FILTER,
                self.tid,
                filters.len(),
                insns.as_mut_ptr().addr(),
            )?;
            filters.push(insns.iter().map(decode_insn).collect());
        }
    }
}

fn decode_insn(b: &[u8; 8]) -> Insn {
    (
        u16::from_le_bytes([b[0], b[1]]),
        b[2],
        b[3],
        u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
    )
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Fails only if the thread is gone or never stopped; both leave nothing to undo.
        if request(libc::PTRACE_DETACH, self.tid, 0, 0).is_err() {
            std::thread::sleep(Duration::from_millis(1));
            let _ = self.wait();
            let _ = request(libc::PTRACE_DETACH, self.tid, 0, 0);
        }
    }
}
