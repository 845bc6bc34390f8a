//! The kernel's answers to what `vet` asks, through `uffd`.

use crate::vet::{BpfInsn, SeccompSource, host};
use std::io;
use std::time::Duration;
use uffd::abi::{UFFD_EVENT_FEATURES, UFFD_FEATURE_EVENT_FORK};
use uffd::probe::{self, Source};

/// This kernel, this user.
pub struct Kernel;

impl SeccompSource for Kernel {
    fn filters(&self, pid: u32) -> io::Result<Vec<Vec<BpfInsn>>> {
        // Read by stopping the process for a moment.
        let limit = Duration::from_millis(500);
        let thread = crate::target::seize::seize(pid.cast_signed(), limit)?;
        let raw = thread.seccomp_filters()?;
        let insn = |(code, jt, jf, k)| BpfInsn { code, jt, jf, k };
        Ok(raw
            .into_iter()
            .map(|f| f.into_iter().map(insn).collect())
            .collect())
    }
}

fn open() -> io::Result<std::os::fd::OwnedFd> {
    probe::open(Source::SystemCall).or_else(|first| probe::open(Source::Device).map_err(|_| first))
}

impl host::Probe for Kernel {
    fn userfaultfd_features(&self) -> io::Result<u64> {
        probe::handshake(&open()?, 0)
    }

    fn event_fork(&self) -> io::Result<()> {
        probe::handshake(&open()?, UFFD_FEATURE_EVENT_FORK | UFFD_EVENT_FEATURES).map(|_| ())
    }

    fn move_page(&self) -> io::Result<()> {
        probe::move_page()
    }

    fn pagemap_scan(&self) -> io::Result<()> {
        probe::pagemap_scan()
    }

    fn kcmp(&self) -> io::Result<()> {
        probe::kcmp()
    }
}
