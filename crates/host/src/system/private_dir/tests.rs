//! Tests with directories that another user has made before. They run as root, as they change
//! owners.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

/// A user that is not root.
const ANOTHER: u32 = 65_533;

/// A directory of one test; `Drop` removes it.
struct Base(PathBuf);

impl Base {
    fn new(name: &str, mode: u32) -> Base {
        let path = std::env::temp_dir().join(format!("pagetide-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a free name");
        let base = Base(path);
        base.set_mode("", mode);
        base
    }

    fn set_mode(&self, name: &str, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.0.join(name), mode).expect("it is ours");
    }

    fn mode(&self, name: &str) -> u32 {
        let meta = std::fs::symlink_metadata(self.0.join(name)).expect("it is there");
        meta.permissions().mode() & 0o7777
    }

    /// Opens `ours/sockets` in this directory as for `user`; the error is the reason for a refusal.
    fn open(&self, user: u32, make: Make) -> Result<PrivateDir, String> {
        open_in(&(self.0.clone(), "ours".to_owned()), "sockets", user, make)
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_directory_is_made_and_found_again() {
    let base = Base::new("made", 0o1777);
    assert!(base.open(ROOT, Make::Nothing).is_err(), "nothing was made");
    let dir = base.open(ROOT, Make::Missing).expect("it can be made");
    assert_eq!(dir.path(), base.0.join("ours/sockets"));
    assert_eq!(
        (base.mode("ours"), base.mode("ours/sockets")),
        (0o755, 0o755)
    );
    assert!(base.open(ROOT, Make::Nothing).is_ok());
}

/// Regression: any user could make a socket with the name of a manager's socket, and root trusted
/// the replies from that socket.
#[test]
fn a_directory_of_another_user_is_refused() {
    let base = Base::new("squat", 0o1777);
    let ours = base.0.join("ours");
    std::fs::create_dir(&ours).expect("a free name");
    chown(&ours, Some(ANOTHER), Some(ANOTHER)).expect("the test runs as root");
    let why = base.open(ROOT, Make::Missing).expect_err("it is not ours");
    assert_eq!(why, format!("it belongs to user {ANOTHER}"));
    // The directory is also refused if only the inner one belongs to another user.
    chown(&ours, Some(ROOT), Some(ROOT)).expect("the test runs as root");
    std::fs::create_dir(ours.join("sockets")).expect("a free name");
    chown(ours.join("sockets"), Some(ANOTHER), None).expect("the test runs as root");
    assert!(base.open(ROOT, Make::Missing).is_err());
    assert!(base.open(ROOT, Make::Nothing).is_err());
}

#[test]
fn a_link_is_not_followed() {
    let base = Base::new("link", 0o1777);
    std::fs::create_dir(base.0.join("real")).expect("a free name");
    symlink(base.0.join("real"), base.0.join("ours")).expect("a free name");
    let why = base.open(ROOT, Make::Missing).expect_err("it is a link");
    assert_eq!(why, "it is not a directory");
}

#[test]
fn the_directory_above_must_keep_our_entries() {
    let base = Base::new("above", 0o777);
    assert!(
        base.open(ROOT, Make::Missing).is_err(),
        "anybody could replace it"
    );
    base.set_mode("", 0o1777);
    assert!(base.open(ROOT, Make::Missing).is_ok());
    chown(&base.0, Some(ANOTHER), None).expect("the test runs as root");
    assert!(base.open(ROOT, Make::Missing).is_err(), "its owner could");
}

/// Volumes of Kubernetes are writable for all users; that permission is removed.
#[test]
fn write_permission_of_others_is_removed() {
    let base = Base::new("wide", 0o1777);
    drop(base.open(ROOT, Make::Missing).expect("it can be made"));
    base.set_mode("ours", 0o777);
    assert!(base.open(ROOT, Make::Nothing).is_err());
    assert!(base.open(ROOT, Make::Missing).is_ok());
    assert_eq!(base.mode("ours"), 0o755);
}

#[test]
fn entries_of_others_are_not_opened() {
    let base = Base::new("entries", 0o1777);
    let dir = base.open(ROOT, Make::Missing).expect("it can be made");
    let at = |name: &str| dir.path().join(name);
    let open = |name: &str| dir.open(name, FileType::RegularFile, OFlags::RDONLY);
    std::fs::write(at("own"), "").expect("a file");
    std::fs::write(at("given"), "").expect("a file");
    chown(at("given"), Some(ANOTHER), None).expect("the test runs as root");
    symlink(at("own"), at("link")).expect("a free name");
    assert!(open("own").is_ok());
    assert!(open("given").is_err() && open("link").is_err() && open("none").is_err());
    let mut names = dir.names().expect("it can be read");
    names.sort();
    assert_eq!(names, [".", "..", "given", "link", "own"]);
}
