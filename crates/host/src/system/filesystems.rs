//! Finds which kind of file system a device number belongs to. Mapped pages of a tmpfs exist only
//! in memory; pages of a file on a disk can be read again.
//!
//! Invariant: a number is looked up once, and known until [`Filesystems::refresh`]. After an
//! unmount the kernel reuses the numbers of file systems without a block device, so a long-lived
//! reader refreshes every few seconds.

use std::collections::HashMap;

use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};

use super::error::Error;
use super::mountinfo::{self, Device};
use super::proc::Proc;

/// Where a file system stores the data of its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A disk, a network or another file system: pages can be dropped and read again.
    Disk,
    /// tmpfs or ramfs: the page is the only copy of its data, and may be swapped out.
    Shmem,
    /// hugetlbfs: pages of a reserved pool, which are never swapped out and not in Rss.
    Hugetlb,
    /// Device nodes, sysfs and the like, which store nothing.
    Device,
}

/// The kind of file system of each known device number.
#[derive(Clone, Debug, Default)]
pub struct Filesystems {
    known: HashMap<Device, Backing>,
    /// Device number of the kernel's internal tmpfs, which contains memfds, System V segments and
    /// shared anonymous memory; `None` if it is not known.
    internal: Option<Device>,
}

impl Filesystems {
    /// Returns the devices of a mountinfo text. The internal tmpfs is not among them.
    #[must_use]
    pub fn of(mountinfo: &[u8]) -> Filesystems {
        let mut filesystems = Filesystems::default();
        filesystems.learn(mountinfo);
        filesystems
    }

    /// Returns the devices of the mounts that this process sees, and the internal tmpfs.
    ///
    /// # Errors
    /// `/proc/self/mountinfo` exists but cannot be read.
    pub fn system(proc: &Proc) -> Result<Filesystems, Error> {
        let mut filesystems = Filesystems {
            internal: internal_tmpfs(),
            ..Filesystems::default()
        };
        filesystems.refresh(proc)?;
        Ok(filesystems)
    }

    /// Forgets all numbers except that of the internal tmpfs, and reads the mounts that this
    /// process sees again.
    ///
    /// # Errors
    /// Those of [`Filesystems::system`].
    pub fn refresh(&mut self, proc: &Proc) -> Result<(), Error> {
        self.known.clear();
        if let Some(text) = proc.read_own("self/mountinfo")? {
            self.learn(&text);
        }
        Ok(())
    }

    /// Adds the mounts of a mountinfo text, such as that of a process with mounts that we do not
    /// have.
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

    /// Treats `device` as a disk from now on, because no mount has this number.
    pub(crate) fn give_up(&mut self, device: Device) {
        self.known.entry(device).or_insert(Backing::Disk);
    }

    /// Returns the kind of file system of a device; `None` if it is unknown.
    #[must_use]
    pub fn backing(&self, device: Device) -> Option<Backing> {
        if self.internal == Some(device) {
            return Some(Backing::Shmem);
        }
        // Only block devices (and pmem) have a major number other than 0; a tmpfs has none.
        if device.major != 0 {
            return Some(Backing::Disk);
        }
        self.known.get(&device).copied()
    }

    /// Returns whether the number of the internal tmpfs is known. If so, a memfd on any other
    /// device consists of huge pages.
    pub(crate) fn knows_internal(&self) -> bool {
        self.internal.is_some()
    }

    /// Sets the number of the internal tmpfs, for texts of other machines.
    #[cfg(test)]
    pub(super) fn set_internal(&mut self, device: Device) {
        self.internal = Some(device);
    }
}

/// Returns the device number of the kernel's tmpfs for memfds. No mountinfo lists that mount, so
/// the number is read from a memfd of our own.
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
