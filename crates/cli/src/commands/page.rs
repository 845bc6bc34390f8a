//! A file that is written as a whole, again and again.
//!
//! Invariant: who reads the file sees one whole page, never a part; a file that is no regular one (a
//! pipe, /dev/null) is written to, not replaced. Nothing is left beside the page.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use daemon::rights::as_user;

use crate::failure::Failure;

/// Where the page goes.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Written beside it, and renamed.
    Draft(PathBuf),
    /// No regular file, or one without a name: written to as it was opened. (The story: where /dev/stdout leads to a pipe it has
    /// no path, and root's link was replaced by a file.)
    Open(File),
}

impl Page {
    /// Checks that it can be written.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn open(path: &Path) -> Result<Page, Failure> {
        as_user(|| Page::open_as_user(path))
    }

    fn open_as_user(path: &Path) -> Result<Page, Failure> {
        let told = |error: io::Error| unwritable(path, &error);
        // The kernel says whether it may be written by this name: links of others in /tmp are not followed (fs.protected_symlinks),
        // and finding out where they lead would go around that.
        let path = match File::options().write(true).open(path) {
            Ok(file) => match named(path, &file) {
                Some(real) => real,
                None => {
                    let (path, place) = (path.to_owned(), Place::Open(file));
                    return Ok(Page { path, place });
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(told(error)),
        };
        let draft = draft_of(&path);
        create(&draft).map_err(told)?;
        fs::remove_file(&draft).map_err(told)?;
        let place = Place::Draft(draft);
        Ok(Page { path, place })
    }

    /// Puts `text` there.
    ///
    /// # Errors
    /// It cannot be written (any more).
    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        as_user(|| self.put(text)).map_err(|error| unwritable(&self.path, &error))
    }

    fn put(&self, text: &str) -> io::Result<()> {
        let draft = match &self.place {
            Place::Draft(draft) => draft,
            Place::Open(file) => {
                let mut file = file;
                return file.write_all(text.as_bytes());
            }
        };
        let mut file = create(draft)?;
        let done = file.write_all(text.as_bytes());
        let done = done.and_then(|()| fs::rename(draft, &self.path));
        if done.is_err() {
            let _ = fs::remove_file(draft);
        }
        done
    }
}

/// The path of a regular file that was opened by this one; none where there is no such file by that path.
fn named(path: &Path, file: &File) -> Option<PathBuf> {
    let opened = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let real = fs::canonicalize(path).ok()?;
    let there = fs::metadata(&real).ok()?;
    let is_same = (there.dev(), there.ino()) == (opened.dev(), opened.ino());
    is_same.then_some(real)
}

/// Of this process alone.
fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// A new file: never through a link that somebody else put there.
fn create(draft: &Path) -> io::Result<File> {
    let new = || File::options().write(true).create_new(true).open(draft);
    match new() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(draft)?;
            new()
        }
        other => other,
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(
        format!("cannot write the page to {}: {error}", path.display()),
        "give another file with --html",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> PathBuf {
        let name = format!("pagetide-page-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a temporary directory");
        dir
    }

    #[test]
    fn the_page_is_replaced_as_a_whole_and_nothing_is_left() {
        let dir = dir("whole");
        let path = dir.join("page.html");
        let page = Page::open(&path).expect("writable");
        assert!(!path.exists(), "nothing before the first report");
        page.write("first, and long").expect("written");
        page.write("second").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "second");
        assert_eq!(fs::read_dir(&dir).expect("there").count(), 1);
        fs::remove_dir_all(dir).expect("ours");
    }

    #[test]
    fn links_are_followed_and_devices_stay() {
        let dir = dir("links");
        let (real, link) = (dir.join("real.html"), dir.join("link.html"));
        fs::write(&real, "old").expect("written");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        Page::open(&link)
            .and_then(|page| page.write("new"))
            .expect("written");
        assert_eq!(fs::read_to_string(&real).expect("there"), "new");
        assert!(link.is_symlink());
        let null = Page::open(Path::new("/dev/null")).expect("a device");
        null.write("gone").expect("written");
        assert!(!Path::new("/dev/null").is_file());
        fs::remove_dir_all(dir).expect("ours");
    }

    /// (The story: `sudo pagetide report --html /dev/stdout | ...` put a file in the place of /dev/stdout.)
    #[test]
    fn a_link_to_a_pipe_stays_and_the_pipe_has_the_page() {
        use std::io::Read;
        use std::os::fd::AsRawFd;

        let dir = dir("pipe");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let link = dir.join("out");
        let fd = format!("/proc/self/fd/{}", writer.as_raw_fd());
        std::os::unix::fs::symlink(&fd, &link).expect("a link");
        for path in [&link, Path::new(&fd)] {
            let page = Page::open(path).expect("writable");
            page.write("page").expect("written");
        }
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("a pipe");
        assert_eq!(text, "pagepage");
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(&dir).expect("there").count(), 1);
        fs::remove_dir_all(dir).expect("ours");
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        for path in ["/nonexistent/page.html", "/tmp/", "/proc/page.html"] {
            let told = Page::open(Path::new(path)).expect_err(path);
            assert!(
                format!("{told:?}").contains("cannot write the page"),
                "{path}"
            );
        }
    }
}
