//! Notes on control groups: texts that pagetide stores in extended attributes of their directories.
//!
//! Invariant: if we may write attributes that only the host's root can write (`trusted.`,
//! xattr(7)), we read and write no others. The root user of a container can write `user.`
//! attributes on its own cgroup, and could otherwise make `serve` lift its limit. Without that
//! right we use `user.` attributes. The public attribute, which says that a cgroup is ours
//! ([`publish`]), has another name and is never read as a note. A `user.` attribute is trusted only
//! if no user but root and our own can have written it.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{XattrFlags, fgetxattr, fgetxattr_query, fremovexattr, fsetxattr, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities};

use crate::system::rights::other_user_namespace;

/// Writes a note; an empty text removes it.
pub(super) fn set(dir: &OwnedFd, name: &str, text: &[u8]) -> Result<(), Errno> {
    if text.is_empty() {
        return remove(dir, name);
    }
    fsetxattr(dir, full_name(name), text, XattrFlags::empty())
}

/// Returns the text of a note; `None` if there is none.
pub(super) fn get(dir: &OwnedFd, name: &str) -> Option<Vec<u8>> {
    let name = full_name(name);
    if !is_trusted(dir, &name) {
        return None;
    }
    let length = fgetxattr_query(dir, &name).ok()?;
    let mut text = vec![0; length];
    let length = fgetxattr(dir, &name, &mut text[..]).ok()?;
    text.truncate(length);
    Some(text)
}

/// Publishes that there is a note `name`: writes a second attribute, which a pagetide with any
/// rights can read. It has another name than the note. Otherwise a manager that has only `user.`
/// attributes would take it for the note itself, and would claim the cgroup.
pub(super) fn publish(dir: &OwnedFd, name: &str) {
    // The attribute may exist already. If cgroups take no attributes, no manager can read any.
    let _ = fsetxattr(dir, public_name(name), b"1", XattrFlags::empty());
}

/// Returns whether a pagetide of root or of our user has written a note `name`, even if we may not
/// read the note. A cgroup with a note of the host's root is not ours to scan, also if we run in a
/// container. An attribute that another user wrote on its own cgroup is not trusted.
pub(super) fn is_published(dir: &OwnedFd, name: &str) -> bool {
    let kinds = ["trusted", "user"].into_iter();
    let names = kinds.map(|kind| format!("{kind}.pagetide.{name}"));
    let mut names = names.chain([public_name(name)]);
    names.any(|name| fgetxattr_query(dir, &name).is_ok() && is_trusted(dir, &name))
}

/// Returns whether only root or our user can have written the attribute with this full name: every
/// user with write access to the directory can write `user.` attributes.
fn is_trusted(dir: &OwnedFd, name: &str) -> bool {
    name.starts_with("trusted.")
        || fstat(dir).is_ok_and(|stat| {
            let is_ours = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
            is_ours && stat.st_mode & 0o022 == 0
        })
}

/// Returns the full name of the attribute that publishes that there is a note `name`.
fn public_name(name: &str) -> String {
    format!("user.pagetide.{name}.shown")
}

/// Removes a note, if there is one.
pub(super) fn remove(dir: &OwnedFd, name: &str) -> Result<(), Errno> {
    match fremovexattr(dir, full_name(name)) {
        Err(Errno::NODATA) => Ok(()),
        done => done,
    }
}

/// Returns the full name of a note's attribute: in `trusted.` if we may use that, otherwise in
/// `user.`.
fn full_name(name: &str) -> String {
    static IS_TRUSTED: OnceLock<bool> = OnceLock::new();
    let kind = match IS_TRUSTED.get_or_init(is_host_root) {
        true => "trusted",
        false => "user",
    };
    format!("{kind}.pagetide.{name}")
}

/// Returns whether this process is the host's root: effective user 0 with CAP_SYS_ADMIN. The right
/// counts in the first user namespace only.
fn is_host_root() -> bool {
    let has_right = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::SYS_ADMIN);
    geteuid().is_root()
        && capabilities(None).is_ok_and(has_right)
        && other_user_namespace().is_none()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    const ANOTHER: u32 = 65_533;

    /// Regression: a user set `user.pagetide.hard_limit.shown` on a control group of its own, and
    /// root's `serve` did not scan the processes in it. (Here a directory of any file system with
    /// `user.` attributes stands for the cgroup.)
    #[test]
    fn attributes_that_a_user_can_write_are_ignored() {
        let path = std::env::temp_dir().join(format!("pagetide-shown-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a free name");
        let dir = OwnedFd::from(std::fs::File::open(&path).expect("it is there"));
        let mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("it is ours");
        };
        let is_shown_now = || is_published(&dir, "wall");
        mode(0o755);
        let before = is_shown_now();
        let noted = fsetxattr(&dir, public_name("wall"), b"1", XattrFlags::empty());
        let roots = is_shown_now();
        mode(0o777);
        let writable = is_shown_now();
        mode(0o755);
        let given = chown(&path, Some(ANOTHER), None);
        let users = is_shown_now();
        std::fs::remove_dir(&path).expect("it was made");
        assert_eq!((noted, given.is_ok()), (Ok(()), true), "as root");
        assert_eq!(
            (before, roots, writable, users),
            (false, true, false, false)
        );
    }
}
