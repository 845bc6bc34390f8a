//! What needs the kernel itself: the right to swap, and the switch.
//!
//! Invariant: an area is switched by its open descriptor: what was checked is what is used.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities};

/// The kernel, or in tests something that looks like it.
pub(super) trait Kernel: Debug {
    /// Whether we may swap on and off at all: the kernel asks for CAP_SYS_ADMIN.
    fn may_switch(&self) -> bool;

    /// Higher priorities are filled first. `path` is where the area is, for whoever keeps a list.
    fn on(&self, area: &File, path: &Path, priority: u16) -> io::Result<()>;

    /// Comes back when all that was out is in memory.
    fn off(&self, area: &File, path: &Path) -> io::Result<()>;
}

/// The one that runs.
#[derive(Debug)]
pub(super) struct Running;

impl Kernel for Running {
    fn may_switch(&self) -> bool {
        capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::SYS_ADMIN))
    }

    fn on(&self, area: &File, _: &Path, priority: u16) -> io::Result<()> {
        pagetables::swap_on(area.as_fd(), priority)
    }

    fn off(&self, area: &File, _: &Path) -> io::Result<()> {
        pagetables::swap_off(area.as_fd())
    }
}
