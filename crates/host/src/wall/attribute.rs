//! Notes on control groups, as extended attributes of their directories.
//!
//! Invariant: where we may write attributes that nobody but the host's root can (`trusted.`, xattr(7)), no others are read or written. (The story:
//! root of a container wrote a user's attribute on its own group, and had `serve` lift its limit.) Whoever may not has the users' kind.
//! What is shown besides, to say whose a group is, has a name of its own, by which nobody believes anything else.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{XattrFlags, fgetxattr, fgetxattr_query, fremovexattr, fsetxattr};
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

/// Whether anybody has noted something by this name. (The story: a DaemonSet, which may not read what the host's root notes, took its walls for groups
/// of nobody's, and both cleared bits of the same programs.)
pub(super) fn is_shown(dir: &OwnedFd, name: &str) -> bool {
    let kinds = ["trusted", "user"].into_iter();
    let names = kinds.map(|kind| format!("{kind}.pagetide.{name}"));
    let mut names = names.chain([shown(name)]);
    names.any(|name| fgetxattr_query(dir, name).is_ok())
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
