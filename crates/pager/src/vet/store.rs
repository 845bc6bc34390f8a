//! Can evicted pages be kept in this directory?
//!
//! Invariant: leaves nothing behind: the file that is tried never has a name (O_TMPFILE, open(2)).

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::refusal::Refusal;

/// Makes an unnamed file in `dir`, as the store will, and writes some pages to it.
///
/// # Errors
/// [`Refusal::Store`] with what is wrong: not a directory, read-only, full, no O_TMPFILE.
pub fn store_dir(dir: &Path) -> Result<(), Refusal> {
    let refuse = |why: String, remedy| Refusal::Store {
        dir: dir.to_owned(),
        why,
        remedy,
    };
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR).map_err(|errno| {
        let (why, remedy) = explain(errno);
        refuse(why, remedy)
    })?;
    let written = File::from(file).write_all(&[0x5a; 16 * 4096]);
    written.map_err(|error| {
        let remedy = "free some space there, or give another directory";
        refuse(error.to_string(), remedy)
    })
}

fn explain(errno: Errno) -> (String, &'static str) {
    match errno {
        Errno::NOENT => (
            "there is no such directory".to_owned(),
            "create it, or give another one, or --store mem",
        ),
        Errno::NOTDIR => (
            "it is not a directory".to_owned(),
            "give a directory, not a file",
        ),
        Errno::ROFS => (
            "its file system is read-only".to_owned(),
            "give a directory on a writable file system",
        ),
        Errno::ACCESS | Errno::PERM => (
            "you may not write there".to_owned(),
            "give a directory of your own, mode 0700",
        ),
        Errno::OPNOTSUPP | Errno::ISDIR => (
            "its file system has no unnamed files (O_TMPFILE)".to_owned(),
            "give a directory on ext4, xfs, btrfs or tmpfs",
        ),
        Errno::NOSPC | Errno::DQUOT => (
            "it is full".to_owned(),
            "free some space there, or give another directory",
        ),
        other => (other.to_string(), "give another directory, or --store mem"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn why(path: &str) -> String {
        store_dir(Path::new(path)).expect_err(path).to_string()
    }

    #[test]
    fn a_good_directory_stays_empty() {
        let dir = std::env::temp_dir().join(format!("pagetide-vet-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a fresh directory");
        let verdict = store_dir(&dir);
        let left = std::fs::read_dir(&dir).expect("still there").count();
        std::fs::remove_dir_all(&dir).expect("ours to remove");
        assert_eq!((verdict, left), (Ok(()), 0));
    }

    #[test]
    fn what_is_no_store_is_named() {
        assert!(why("/nonexistent/store").contains("no such directory"));
        assert!(why("/dev/null").contains("not a directory"));
        assert!(why("/proc").contains("O_TMPFILE"));
    }

    #[test]
    fn every_expected_failure_has_words() {
        for errno in [Errno::ROFS, Errno::ACCESS, Errno::NOSPC, Errno::DQUOT] {
            let (why, remedy) = explain(errno);
            let raw = errno.to_string();
            assert!(why != raw && !remedy.is_empty(), "{errno}");
        }
        let refusal = Refusal::Store {
            dir: PathBuf::from("/x"),
            why: "it is full".to_owned(),
            remedy: "free some",
        };
        assert_eq!(refusal.to_string(), "cannot use /x as a store: it is full");
    }
}
