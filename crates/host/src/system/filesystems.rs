//! Finds which kind of file system a device number belongs to. Mapped pages of a tmpfs exist only
//! in memory; pages of a file on a disk can be read again.
//!
//! Invariant: a number is looked up once, and known until [`Filesystems::refresh`]. After an
//! unmount the kernel reuses the numbers of file systems without a block device, so a long-lived
//! reader refreshes every few seconds.

use std::collections::HashMap;

use pagetables::{Device, MappingKind as Kind};
use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};

use super::error::Error;
use super::mountinfo;
use super::proc::Proc;

/// For each known device number, what a mapping of a file on it maps: `File` on a disk or network,
/// `Shmem` on a tmpfs, `Hugetlb` on a hugetlbfs, `Device` on devtmpfs, sysfs and the like.
#[derive(Clone, Debug, Default)]
pub struct Filesystems {
    known: HashMap<Device, Kind>,
    /// Device number of the kernel's internal tmpfs, if known: memfd, System V segments, shared
    /// anonymous memory.
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
            let kind = match mount.fs_type.as_slice() {
                b"tmpfs" | b"ramfs" | b"rootfs" => Kind::Shmem,
                b"hugetlbfs" => Kind::Hugetlb,
                b"devtmpfs" | b"devpts" | b"proc" | b"sysfs" | b"debugfs" | b"tracefs" | b"bpf"
                | b"mqueue" => Kind::Device,
                _ => Kind::File,
            };
            self.known.insert(mount.device, kind);
        }
    }

    /// Treats `device` as a disk from now on, because no mount has this number.
    pub(crate) fn give_up(&mut self, device: Device) {
        self.known.entry(device).or_insert(Kind::File);
    }

    /// Returns what a mapping of a file on this device maps; `None` if the device is unknown.
    #[must_use]
    pub fn kind(&self, device: Device) -> Option<Kind> {
        if self.internal == Some(device) {
            return Some(Kind::Shmem);
        }
        // Only block devices (and pmem) have a major number other than 0; a tmpfs has none.
        if device.major != 0 {
            return Some(Kind::File);
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
        assert_eq!(filesystems.kind(device("/dev/shm")), Some(Kind::Shmem));
        assert_eq!(filesystems.kind(device("/proc")), Some(Kind::Device));
        assert_eq!(filesystems.kind(device("/usr/bin")), Some(Kind::File));
        let internal = internal_tmpfs().unwrap();
        assert_eq!(filesystems.kind(internal), Some(Kind::Shmem));
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
        assert_eq!(filesystems.kind(device), None);
        filesystems.give_up(device);
        assert_eq!(filesystems.kind(device), Some(Kind::File));
        filesystems.learn(b"1 2 0:99 / /x rw - tmpfs none rw\n");
        assert_eq!(filesystems.kind(device), Some(Kind::Shmem));
    }
}
