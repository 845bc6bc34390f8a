//! `/proc/PID/mountinfo` (proc_pid_mountinfo(5)): which file system is mounted where.
//!
//! Invariant: every returned mount is complete; lines of another format are skipped.

use pagetables::Device;

use super::text::{lines, number32, unescape, words};

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mount {
    /// Device of the file system. Its files have this number as `st_dev`, and mappings of them have
    /// it in `maps`.
    pub device: Device,
    /// The directory of the file system that is mounted. For control groups: the path of the
    /// mounted group in the reader's cgroup namespace, which may begin with `/..`.
    pub root: Vec<u8>,
    /// The directory on which the file system is mounted.
    pub point: Vec<u8>,
    /// Type of the file system: `tmpfs`, `cgroup2` ...
    pub fs_type: Vec<u8>,
    /// Options of the file system, such as the controllers of a version 1 hierarchy.
    pub super_options: Vec<u8>,
}

impl Mount {
    /// Returns whether `name` is among the options of the file system.
    #[must_use]
    pub fn has_option(&self, name: &str) -> bool {
        self.super_options
            .split(|&b| b == b',')
            .any(|option| option == name.as_bytes())
    }
}

/// Parses a mountinfo text; returns the mounts in its order.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Mount> {
    lines(text).filter_map(parse_line).collect()
}

/// Parses a line such as `36 35 98:0 /root /point rw,noatime master:1 ... - ext4 /dev/root
/// rw,errors=continue`.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = words(line);
    let device = parse_device(words.nth(2)?)?;
    let (root, point) = (unescape(words.next()?), unescape(words.next()?));
    // Before the dash there may be any number of optional fields.
    words.find(|&word| word == b"-")?;
    let fs_type = unescape(words.next()?);
    // Old kernels may write an empty source. Then the options are taken for the source, and are
    // lost; these file systems have no options that matter.
    let super_options = words.nth(1).map_or_else(Vec::new, unescape);
    Some(Mount {
        device,
        root,
        point,
        fs_type,
        super_options,
    })
}

/// Parses `major:minor` in decimal.
fn parse_device(word: &[u8]) -> Option<Device> {
    let colon = word.iter().position(|&b| b == b':')?;
    let (major, minor) = (number32(&word[..colon])?, number32(&word[colon + 1..])?);
    Some(Device { major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line() {
        let text = b"35 31 0:32 /a\\040b /sys/fs/cgroup/memory rw shared:9 master:3 - cgroup cgroup rw,memory\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 1);
        assert_eq!(
            mounts[0].device,
            Device {
                major: 0,
                minor: 32
            }
        );
        assert_eq!(mounts[0].root, b"/a b");
        assert_eq!(mounts[0].point, b"/sys/fs/cgroup/memory");
        assert_eq!(mounts[0].fs_type, b"cgroup");
        assert!(mounts[0].has_option("memory") && !mounts[0].has_option("mem"));
    }

    #[test]
    fn our_own() {
        let mounts = parse(&std::fs::read("/proc/self/mountinfo").unwrap());
        assert!(mounts.iter().any(|mount| mount.point == b"/"));
        assert!(mounts.iter().any(|mount| mount.fs_type == b"proc"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), text in "([0-9]{1,2} ){2}[0-9]:[0-9]{1,12} [/ \\\\0-9-]{0,20} - .*") {
            let _ = parse(&bytes);
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn what_is_written_is_read(major in any::<u32>(), minor in any::<u32>(), root in "/[a-z]{0,9}", optional in 0usize..3) {
            let tags = "shared:1 ".repeat(optional);
            let line = format!("1 2 {major}:{minor} {root} /x\\134y rw {tags}- tmpfs none rw,size=1\n");
            let mounts = parse(line.as_bytes());
            prop_assert_eq!(mounts.len(), 1);
            prop_assert_eq!(mounts[0].device, Device { major, minor });
            prop_assert_eq!(&mounts[0].root, root.as_bytes());
            prop_assert_eq!(&mounts[0].point, b"/x\\y");
            prop_assert!(mounts[0].has_option("size=1"));
        }
    }
}
