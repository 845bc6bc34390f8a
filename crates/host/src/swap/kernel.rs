//! The right to switch swap, the user who does, and the system calls swapon and swapoff.
//!
//! Invariant: an area is switched on and off by its open descriptor, so that the file that was
//! checked is the file that is used.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

use super::users;

/// The kernel, or an imitation in tests.
pub(super) trait Kernel: Debug {
    /// Whether this process may switch swap on and off: the kernel requires CAP_SYS_ADMIN.
    fn may_switch(&self) -> bool;

    /// Returns the user on whose behalf this process switches swap.
    fn user(&self) -> u32;

    /// Switches an area on. The kernel fills areas of higher priority first. Only the imitation in
    /// tests uses `path`.
    fn on(&self, area: &File, path: &Path, priority: u16) -> io::Result<()>;

    /// Switches an area off; returns when all of its pages are in memory. Only tests use `path`.
    fn off(&self, area: &File, path: &Path) -> io::Result<()>;
}

/// The running kernel.
#[derive(Debug)]
pub(super) struct Running;

impl Kernel for Running {
    fn may_switch(&self) -> bool {
        capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::SYS_ADMIN))
    }

    fn user(&self) -> u32 {
        users::caller(std::env::var("SUDO_UID").ok().as_deref())
    }

    fn on(&self, area: &File, _: &Path, priority: u16) -> io::Result<()> {
        sys::swap_on(area.as_fd(), priority)
    }

    fn off(&self, area: &File, _: &Path) -> io::Result<()> {
        sys::swap_off(area.as_fd())
    }
}
