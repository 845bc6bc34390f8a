//! Finds virtual machines and devices that access a process's memory without its page tables. They
//! set no accessed bits there, so pages seem older than they are.
//!
//! Invariant: this is only a hint, from the descriptors that the process has open (proc_pid_fd(5)).
//! `None` proves nothing: a process can close a descriptor while the virtual machine lives on.

use crate::system::error::Error;
use crate::system::proc::Proc;

/// What accesses a process's memory without using its page tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SecondaryMmu {
    /// A virtual machine, which the process runs (`anon_inode:kvm-vm`, `kvm-vcpu`).
    Kvm,
    /// A device that the process drives by VFIO, and that accesses its memory (`/dev/vfio/N`,
    /// `[vfio-device]`).
    Vfio,
    /// A device that the process drives through `/dev/iommu`, and that accesses its memory.
    Iommufd,
}

/// Returns what a descriptor shows, by the target of its link in `/proc/PID/fd`; `None` for most
/// files.
#[must_use]
pub(super) fn parse_link(target: &[u8]) -> Option<SecondaryMmu> {
    let target = target.strip_suffix(b" (deleted)").unwrap_or(target);
    if let Some(name) = target.strip_prefix(b"anon_inode:") {
        let name = name.strip_prefix(b"[").unwrap_or(name);
        return if name.starts_with(b"kvm-vm") || name.starts_with(b"kvm-vcpu") {
            Some(SecondaryMmu::Kvm)
        } else if name.starts_with(b"vfio") {
            Some(SecondaryMmu::Vfio)
        } else {
            None
        };
    }
    if target == b"/dev/iommu" {
        return Some(SecondaryMmu::Iommufd);
    }
    target
        .starts_with(b"/dev/vfio/")
        .then_some(SecondaryMmu::Vfio)
}

impl Proc {
    /// Returns what accesses the memory of a process without its page tables; `None` if nothing is
    /// known, or the process has ended. Reads the links of its descriptors until one of them shows
    /// it; each takes about 1 us.
    ///
    /// # Errors
    /// The descriptors may not be read.
    pub fn secondary_mmu(&self, pid: u32) -> Result<Option<SecondaryMmu>, Error> {
        let mut found = None;
        self.read_links(pid, "fd", &mut |target| {
            found = parse_link(target);
            found.is_none()
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        assert_eq!(parse_link(b"anon_inode:kvm-vm"), Some(SecondaryMmu::Kvm));
        assert_eq!(
            parse_link(b"anon_inode:kvm-vcpu:3"),
            Some(SecondaryMmu::Kvm)
        );
        assert_eq!(
            parse_link(b"anon_inode:[vfio-device]"),
            Some(SecondaryMmu::Vfio)
        );
        assert_eq!(parse_link(b"/dev/vfio/12"), Some(SecondaryMmu::Vfio));
        assert_eq!(parse_link(b"/dev/iommu"), Some(SecondaryMmu::Iommufd));
        for other in [
            &b"/dev/kvm"[..],
            b"anon_inode:[eventfd]",
            b"socket:[1]",
            b"",
            b"/tmp/kvm-vm",
        ] {
            assert_eq!(parse_link(other), None);
        }
    }

    #[test]
    fn a_process_with_a_device() {
        let root = std::env::temp_dir().join(format!("pagetide-fd-{}", std::process::id()));
        std::fs::create_dir_all(root.join("7/fd")).unwrap();
        for (fd, target) in ["/dev/null", "anon_inode:[eventfd]", "/dev/vfio/1"]
            .iter()
            .enumerate()
        {
            std::os::unix::fs::symlink(target, root.join(format!("7/fd/{fd}"))).unwrap();
        }
        let proc = Proc::at(&root).unwrap();
        assert_eq!(proc.secondary_mmu(7).unwrap(), Some(SecondaryMmu::Vfio));
        assert_eq!(proc.secondary_mmu(8).unwrap(), None);
        std::fs::remove_dir_all(&root).unwrap();
        let here = Proc::system().unwrap();
        assert_eq!(here.secondary_mmu(std::process::id()).unwrap(), None);
    }
}
