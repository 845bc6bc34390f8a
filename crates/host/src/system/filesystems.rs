//! Which kind of file system a device number belongs to: what is mapped from a tmpfs is memory, what
//! is mapped from a disk can be read again.
//!
//! Invariant: a number is looked up once and then known until [`Filesystems::refresh`]; anonymous
//! numbers are given out anew after an unmount, so a long-lived reader refreshes every few seconds.

use std::collections::HashMap;

use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};

use super::error::Error;
use super::mountinfo::{self, Device};
use super::proc::Proc;

/// What backs the files of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A disk, a network, another file system: pages can be dropped and read again.
    Disk,
    /// tmpfs, ramfs: pages are the only copy, and may go to swap.
    Shmem,
    /// hugetlbfs: pages of a pool, never swapped, outside of Rss.
    Hugetlb,
    /// Nothing that is stored: device nodes, sysfs, and the like.
    Device,
}

/// Device numbers and what is behind them.
#[derive(Clone, Debug, Default)]
pub struct Filesystems {
    known: HashMap<Device, Backing>,
    /// The kernel's internal tmpfs: memfd, System V segments, shared anonymous memory.
    internal: Option<Device>,
}

impl Filesystems {
    /// Those of a mountinfo text, without the internal mount.
    #[must_use]
    pub fn of(mountinfo: &[u8]) -> Filesystems {
        let mut filesystems = Filesystems::default();
        filesystems.learn(mountinfo);
        filesystems
    }

    /// Those that this process sees, and the internal one.
    ///
    /// # Errors
    /// If `/proc/self/mountinfo` is there and cannot be read.
    pub fn system(proc: &Proc) -> Result<Filesystems, Error> {
        let mut filesystems = Filesystems {
            internal: internal_tmpfs(),
            ..Filesystems::default()
        };
        filesystems.refresh(proc)?;
        Ok(filesystems)
    }

    /// Forgets all numbers but the internal one, and reads our own mounts again.
    ///
    /// # Errors
    /// As [`Filesystems::system`].
    pub fn refresh(&mut self, proc: &Proc) -> Result<(), Error> {
        self.known.clear();
        if let Some(text) = proc.read_own("self/mountinfo")? {
            self.learn(&text);
        }
        Ok(())
    }

    /// Adds the mounts of a mountinfo text: another process' mounts may not be ours.
    pub fn learn(&mut self, mountinfo: &[u8]) {
        for mount in mountinfo::parse(mountinfo) {
            let backing = match mount.fs_type.as_slice() {
                b"tmpfs" | b"ramfs" | b"rootfs" => Backing::Shmem,
                b"hugetlbfs" => Backing::Hugetlb,
                b"devtmpfs" | b"devpts" | b"proc" | b"sysfs" | b"debugfs" | b"tracefs" | b"bpf"
                | b"mqueue" => Backing::Device,
                _ => Backing::Disk,
            };
            self.known.insert(mount.device, backing);
        }
    }

    /// Takes an unknown number for a disk's from now on: its mounts were looked for and not found.
    pub(crate) fn give_up(&mut self, device: Device) {
        self.known.entry(device).or_insert(Backing::Disk);
    }

    /// What is behind a number, if it is known.
    #[must_use]
    pub fn backing(&self, device: Device) -> Option<Backing> {
        if self.internal == Some(device) {
            return Some(Backing::Shmem);
        }
        // Numbers with a major are block devices (and pmem): no tmpfs has one.
        if device.major != 0 {
            return Some(Backing::Disk);
        }
        self.known.get(&device).copied()
    }

    /// Whether the internal tmpfs' number is known, so that memfds elsewhere are huge.
    pub(crate) fn knows_internal(&self) -> bool {
        self.internal.is_some()
    }

    /// Says which number the internal tmpfs has (for texts from elsewhere).
    #[cfg(test)]
    pub(super) fn set_internal(&mut self, device: Device) {
        self.internal = Some(device);
    }
}

/// The number of the mount where memfds live: no mountinfo lists it, so we ask one of our own.
fn internal_tmpfs() -> Option<Device> {
    let memfd = memfd_create(c"pagetide-device", MemfdFlags::CLOEXEC).ok()?;
    let device = fstat(&memfd).ok()?.st_dev;
    Some(Device {
        major: major(device),
        minor: minor(device),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        let filesystems = Filesystems::system(&Proc::system().unwrap()).unwrap();
        let device = |path: &str| {
            let device = rustix::fs::stat(path).unwrap().st_dev;
            Device {
                major: major(device),
                minor: minor(device),
            }
        };
        assert_eq!(
            filesystems.backing(device("/dev/shm")),
            Some(Backing::Shmem)
        );
        assert_eq!(filesystems.backing(device("/proc")), Some(Backing::Device));
        assert_eq!(filesystems.backing(device("/usr/bin")), Some(Backing::Disk));
        let internal = internal_tmpfs().unwrap();
        assert_eq!(filesystems.backing(internal), Some(Backing::Shmem));
        assert!(
            !filesystems.known.contains_key(&internal),
            "then mountinfo would do"
        );
    }

    #[test]
    fn unknown_numbers_stay_unknown_until_given_up() {
        let mut filesystems = Filesystems::of(b"");
        let device = Device {
            major: 0,
            minor: 99,
        };
        assert_eq!(filesystems.backing(device), None);
        filesystems.give_up(device);
        assert_eq!(filesystems.backing(device), Some(Backing::Disk));
        filesystems.learn(b"1 2 0:99 / /x rw - tmpfs none rw\n");
        assert_eq!(filesystems.backing(device), Some(Backing::Shmem));
    }
}
