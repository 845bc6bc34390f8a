//! How many threads of the machine are running or ready to run (`/proc/loadavg`), and how much
//! processor time this process has used.
//!
//! Invariant: the load is of the whole machine, even if we may use only a part of it.

use std::time::Duration;

use pagetables::access;
use rustix::time::{ClockId, clock_gettime};

use super::proc::Proc;
use super::text::{number, words};

/// Parses the number of runnable threads: the fourth word of `0.00 0.01 0.05 1/132 4567`, up to the
/// slash.
fn parse(text: &[u8]) -> Option<usize> {
    let word = words(text).nth(3)?;
    let end = word.iter().position(|&byte| byte == b'/')?;
    number(&word[..end]).and_then(|all| usize::try_from(all).ok())
}

/// Returns the processor time that this process and its access workers have used so far.
#[must_use]
pub fn own_cpu() -> Duration {
    pagetables::cpu_time(std::process::id()).unwrap_or_default() + access::workers_cpu()
}

/// Returns the processor time that this thread has used so far, including that of access workers on
/// its behalf.
#[must_use]
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock began at 0 and never goes backwards.
    Duration::try_from(time).unwrap_or_default() + access::workers_cpu_of_thread()
}

impl Proc {
    /// Returns how many threads of the machine run or are ready to run, including the caller;
    /// `None` if the kernel does not report it.
    #[must_use]
    pub fn runnable(&self) -> Option<usize> {
        parse(&self.read_own("loadavg").ok()??)
    }

    /// Returns how many of `processors` processors are used by no other thread at this moment; at
    /// least 1, because the caller's own processor counts as unused.
    #[must_use]
    pub fn idle(&self, processors: usize) -> usize {
        // The caller is one of the runnable threads.
        let others = self
            .runnable()
            .map_or(processors, |all| all.saturating_sub(1));
        processors.saturating_sub(others).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_the_kernel_writes_it() {
        assert_eq!(parse(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        for bad in [
            &b""[..],
            b"0.20 0.18 0.12",
            b"0.20 0.18 0.12 3 80",
            b"1 1 1 x/80 1",
        ] {
            assert_eq!(parse(bad), None);
        }
        assert!(Proc::system().unwrap().runnable() >= Some(1));
    }

    #[test]
    fn work_takes_processor_time() {
        let before = thread_cpu();
        let mut sum = 0u64;
        while thread_cpu() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread_cpu() > before);
    }

    proptest! {
        #[test]
        fn any_text(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
