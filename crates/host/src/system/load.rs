//! How many threads want a processor at this moment (`/proc/loadavg`), and what this one took of it.
//!
//! Invariant: the first is of the whole machine, whatever part of it we may use.

use std::time::Duration;

use pagetables::access;
use rustix::time::{ClockId, clock_gettime};

use super::proc::Proc;
use super::text::{number, words};

/// The fourth word of `0.00 0.01 0.05 1/132 4567`, up to the stroke.
fn parse(text: &[u8]) -> Option<usize> {
    let word = words(text).nth(3)?;
    let end = word.iter().position(|&byte| byte == b'/')?;
    number(&word[..end]).and_then(|all| usize::try_from(all).ok())
}

/// Processor time of this process and of its access workers.
#[must_use]
pub fn own_cpu() -> Duration {
    pagetables::cpu_time(std::process::id()).unwrap_or_default() + access::workers_cpu()
}

/// Processor time of this thread, and of access workers for it.
#[must_use]
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // It does not run backwards, and began at 0.
    Duration::try_from(time).unwrap_or_default() + access::workers_cpu_of_thread()
}

impl Proc {
    /// Threads that run or are ready to, the caller among them; none where the kernel does not tell.
    #[must_use]
    pub fn runnable(&self) -> Option<usize> {
        parse(&self.read_own("loadavg").ok()??)
    }

    /// How many of `processors` nobody else works on at this moment, the caller's among them: 1 at least.
    #[must_use]
    pub fn idle(&self, processors: usize) -> usize {
        // The caller is one of those that run.
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
