//! A file (`--html`) that is replaced as a whole, repeatedly.
//!
//! Invariant: a reader of the file sees one whole HTML page, never a part. A file that is not
//! regular (a pipe, /dev/null) is written to, not replaced. No temporary file remains.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use daemon::rights::as_user;

use crate::failure::Failure;

/// Where the HTML file is written.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
    place: PageFile,
}

#[derive(Debug)]
enum PageFile {
    /// A temporary file in the directory of the HTML file. It is written, and then renamed to the
    /// HTML file's name.
    Draft(PathBuf),
    /// A file that is not regular or has no name, which is written through the open descriptor. For
    /// example, /dev/stdout may be a link to a pipe: replacing that path would replace the system's
    /// link.
    Open(File),
}

impl Page {
    /// Opens the HTML file at `path`, and checks that it can be written.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn open(path: &Path) -> Result<Page, Failure> {
        as_user(|| Page::open_as_user(path))
    }

    fn open_as_user(path: &Path) -> Result<Page, Failure> {
        let reported = |error: io::Error| unwritable(path, &error);
        // The kernel decides whether this path may be written: it does not follow links of other
        // users in /tmp (fs.protected_symlinks). If we resolved the links ourselves, that
        // protection would be bypassed.
        let path = match File::options().write(true).open(path) {
            Ok(file) => match named(path, &file) {
                Some(real) => real,
                None => {
                    let (path, place) = (path.to_owned(), PageFile::Open(file));
                    return Ok(Page { path, place });
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(reported(error)),
        };
        let draft = draft_of(&path);
        create(&draft).map_err(reported)?;
        fs::remove_file(&draft).map_err(reported)?;
        let place = PageFile::Draft(draft);
        Ok(Page { path, place })
    }

    /// Replaces the content of the HTML file by `text`.
    ///
    /// # Errors
    /// The file cannot be written, or no longer.
    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        as_user(|| self.put(text)).map_err(|error| unwritable(&self.path, &error))
    }

    fn put(&self, text: &str) -> io::Result<()> {
        let draft = match &self.place {
            PageFile::Draft(draft) => draft,
            PageFile::Open(file) => {
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

/// Returns the resolved path of an open regular file; `None` if no such file is at `path`.
fn named(path: &Path, file: &File) -> Option<PathBuf> {
    let opened = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let real = fs::canonicalize(path).ok()?;
    let resolved = fs::metadata(&real).ok()?;
    let is_same = (resolved.dev(), resolved.ino()) == (opened.dev(), opened.ino());
    is_same.then_some(real)
}

/// Returns the path of the temporary file; only this process uses that path.
fn draft_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// Creates a new file. A link that another user has put at this path is never followed.
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
    fn the_page_is_replaced_as_a_whole_and_no_draft_remains() {
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

    /// Regression: `sudo pagetide report --html /dev/stdout | ...` replaced /dev/stdout by a file.
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
    fn a_path_that_cannot_be_written_is_an_error() {
        for path in ["/nonexistent/page.html", "/tmp/", "/proc/page.html"] {
            let reported = Page::open(Path::new(path)).expect_err(path);
            assert!(
                format!("{reported:?}").contains("cannot write the page"),
                "{path}"
            );
        }
    }
}
