//! Notes on control groups, as extended attributes of their directories.
//!
//! Invariant: where we may write attributes that nobody but the host's root can (`trusted.`, xattr(7)), no others are read or written. (The story:
//! root of a container wrote a user's attribute on its own group, and had `serve` lift its limit.) Whoever may not has the users' kind.
//! What is shown besides, to say whose a group is, has a name of its own, by which nobody believes anything else. A
//! user's attribute counts only where nobody but root and our user can have written it.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{XattrFlags, fgetxattr, fgetxattr_query, fremovexattr, fsetxattr, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities};

use crate::system::rights::other_user_namespace;

/// Notes this; nothing is noted by an empty text.
pub(super) fn set(dir: &OwnedFd, name: &str, text: &[u8]) -> Result<(), Errno> {
    if text.is_empty() {
        return remove(dir, name);
    }
    fsetxattr(dir, whole(name), text, XattrFlags::empty())
}

/// What stands there.
pub(super) fn get(dir: &OwnedFd, name: &str) -> Option<Vec<u8>> {
    let name = whole(name);
    if !counts(dir, &name) {
        return None;
    }
    let length = fgetxattr_query(dir, &name).ok()?;
    let mut text = vec![0; length];
    let length = fgetxattr(dir, &name, &mut text[..]).ok()?;
    text.truncate(length);
    Some(text)
}

/// Says once more that something is noted, where every pagetide sees it, with whatever rights, and none believes more than that. (The story: by
/// the note's own name it was believed by who has the users' kind, and took up another's tenants without what had been asked for them.)
pub(super) fn show(dir: &OwnedFd, name: &str) {
    // It may be there already, and where groups take none nobody could see it.
    let _ = fsetxattr(dir, shown(name), b"1", XattrFlags::empty());
}

/// Whether a pagetide of root or of our user has noted something by this name. (The stories: a DaemonSet, which may not read what the
/// host's root notes, took its walls for groups of nobody's, and both cleared bits of the same programs. A user noted it on a group of
/// its own, and root's `serve` left the programs in it out, silently.)
pub(super) fn is_shown(dir: &OwnedFd, name: &str) -> bool {
    let kinds = ["trusted", "user"].into_iter();
    let names = kinds.map(|kind| format!("{kind}.pagetide.{name}"));
    let mut names = names.chain([shown(name)]);
    names.any(|name| fgetxattr_query(dir, &name).is_ok() && counts(dir, &name))
}

/// Whether an attribute of this whole name can have been written only by root or our user: a user's attribute is writable to whoever may
/// write the directory.
fn counts(dir: &OwnedFd, name: &str) -> bool {
    name.starts_with("trusted.")
        || fstat(dir).is_ok_and(|stat| {
            let is_ours = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
            is_ours && stat.st_mode & 0o022 == 0
        })
}

fn shown(name: &str) -> String {
    format!("user.pagetide.{name}.shown")
}

/// Takes it away, if it is there.
pub(super) fn remove(dir: &OwnedFd, name: &str) -> Result<(), Errno> {
    match fremovexattr(dir, whole(name)) {
        Err(Errno::NODATA) => Ok(()),
        done => done,
    }
}

fn whole(name: &str) -> String {
    static IS_TRUSTED: OnceLock<bool> = OnceLock::new();
    let kind = match IS_TRUSTED.get_or_init(may_be_trusted) {
        true => "trusted",
        false => "user",
    };
    format!("{kind}.pagetide.{name}")
}

/// Whether this process is the host's root, with all that takes: CAP_SYS_ADMIN counts in the first user namespace alone.
fn may_be_trusted() -> bool {
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

    /// Regression: a user set `user.pagetide.wall.shown` on a control group of its own, and root's `serve` left out what was in it.
    /// (A directory of any file system that takes attributes of users stands for the group.)
    #[test]
    fn what_a_user_can_write_counts_for_nothing() {
        let path = std::env::temp_dir().join(format!("pagetide-shown-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a free name");
        let dir = OwnedFd::from(std::fs::File::open(&path).expect("it is there"));
        let mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("it is ours");
        };
        let is_anybodys = || is_shown(&dir, "wall");
        mode(0o755);
        let before = is_anybodys();
        let noted = fsetxattr(&dir, shown("wall"), b"1", XattrFlags::empty());
        let roots = is_anybodys();
        mode(0o777);
        let writable = is_anybodys();
        mode(0o755);
        let given = chown(&path, Some(ANOTHER), None);
        let users = is_anybodys();
        std::fs::remove_dir(&path).expect("it was made");
        assert_eq!((noted, given.is_ok()), (Ok(()), true), "as root");
        assert_eq!(
            (before, roots, writable, users),
            (false, true, false, false)
        );
    }
}
