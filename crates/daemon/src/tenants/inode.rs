//! Inode numbers: each names one directory or file of one tenant.
//!
//! Invariant: a number never names another file later, even after its tenant is gone: each tenant
//! gets a new serial.

use super::file::File;

/// Inode numbers for each directory: one for the directory itself, the others for its files.
const FILES: u64 = 64;
/// From this serial on, serials stand for nodes' directories, not for tenants.
const NODES: u64 = 1 << 48;

/// What an inode number names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inode {
    /// A tenant's directory, by its serial.
    Tenant(u64),
    /// A tenant's file, by the tenant's serial.
    File(u64, File),
    /// The directory `node<N>`, by the node's index.
    Node(u32),
    /// The directory `node<N>/workingset_report`, by the node's index.
    NodeReport(u32),
    /// A file in `node<N>/workingset_report`, by the node's index.
    NodeFile(u32, File),
}

impl Inode {
    /// Returns the inode number. The root's is 1, as FUSE requires.
    pub(super) fn number(self) -> u64 {
        let (serial, file) = match self {
            Inode::Tenant(serial) => (serial, 0),
            Inode::File(serial, file) => (serial, file as u64),
            Inode::Node(node) => (NODES + 2 * u64::from(node), 0),
            Inode::NodeReport(node) => (NODES + 2 * u64::from(node) + 1, 0),
            Inode::NodeFile(node, file) => (NODES + 2 * u64::from(node) + 1, file as u64),
        };
        serial * FILES + file + 1
    }

    /// Whether the inode is a directory.
    pub(super) fn is_directory(self) -> bool {
        !matches!(self, Inode::File(..) | Inode::NodeFile(..))
    }

    pub(super) fn of(number: u64) -> Option<Inode> {
        let number = number.checked_sub(1)?;
        let (serial, file) = (number / FILES, u8::try_from(number % FILES).ok()?);
        let file = match file {
            0 => None,
            file => Some(File::of_number(file)?),
        };
        let Some(of_nodes) = serial.checked_sub(NODES) else {
            return Some(file.map_or(Inode::Tenant(serial), |file| Inode::File(serial, file)));
        };
        let node = u32::try_from(of_nodes / 2).ok()?;
        match (of_nodes % 2, file) {
            (0, None) => Some(Inode::Node(node)),
            (1, None) => Some(Inode::NodeReport(node)),
            (1, Some(file)) => Some(Inode::NodeFile(node, file)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decoded_again() {
        assert_eq!(Inode::Tenant(0).number(), 1);
        for one in [
            Inode::Tenant(0),
            Inode::Tenant(77),
            Inode::File(77, File::Procs),
            Inode::File(0, File::NodeReportThreshold),
            Inode::Node(0),
            Inode::NodeReport(3),
            Inode::NodeFile(3, File::NodePageAge),
        ] {
            assert_eq!(Inode::of(one.number()), Some(one));
        }
        assert_eq!(Inode::of(0), None);
    }
}
