//! The file of the last report: opened before anything starts, and written by the manager when all is over.
//!
//! Invariant: nothing that somebody else writes is emptied or written over. What is open for us already, under whatever name (`/dev/stderr`
//! of a log), is no file of the report's own: the report goes on where that ends.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};

use crate::error::Error;
use crate::record;

/// An open file of a report.
pub(super) struct ReportFile {
    pub(super) file: File,
    /// Nobody else writes there: what an earlier run left is emptied.
    pub(super) is_own: bool,
}

/// The path, if somebody will be there to write. The story: as process 1 of a container the program took the manager along when it ended, and each
/// report was an empty file.
///
/// # Errors
/// We are process 1 of our pid namespace: the kernel kills all that is in it as that one ends.
pub(super) fn has_a_writer(path: &Path) -> Result<&Path, Error> {
    if std::process::id() != 1 {
        return Ok(path);
    }
    Err(Error::failed(
        format!(
            "cannot report to {}: as process 1 of its pid namespace the program takes the manager along when it ends",
            path.display()
        ),
        "start it below an init (docker run --init, tini), or leave out --report and ask `pagetide report 1` while it runs",
    ))
}

/// Makes it, or opens it; what is in it stays.
///
/// # Errors
/// It cannot be written.
pub(super) fn create(path: &Path) -> Result<ReportFile, Error> {
    let opened = record::open_to_write(path).and_then(own_or_given);
    opened.map_err(|error| {
        Error::failed(
            format!("cannot write the report to {}: {error}", path.display()),
            "give another file with --report",
        )
    })
}

/// Whether we were given the file as an open one. The story: `--report /dev/stderr` of a log that the shell appends to. That name opens the
/// file anew, at its beginning; the log was emptied, and what the program said was written over.
fn own_or_given(file: File) -> io::Result<ReportFile> {
    let Some(given) = given(&file)? else {
        return Ok(ReportFile { file, is_own: true });
    };
    let stdio = match given {
        1 => Some(rustix::stdio::stdout()),
        2 => Some(rustix::stdio::stderr()),
        _ => None,
    };
    let file = match stdio {
        // Also where who has it after us writes on: it is one position for all.
        Some(fd) => fd.try_clone_to_owned()?.into(),
        None => {
            fcntl_setfl(&file, OFlags::APPEND)?;
            file
        }
    };
    Ok(ReportFile {
        file,
        is_own: false,
    })
}

/// The lowest other descriptor of ours by which the same file can be written.
fn given(file: &File) -> io::Result<Option<i32>> {
    let identity = |meta: &Metadata| (meta.dev(), meta.ino());
    let (opened, own) = (identity(&file.metadata()?), file.as_raw_fd());
    // Without /proc nothing starts anyway.
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let same = entries.flatten().filter_map(|entry| {
        let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
        // The mode of the link itself is how it was opened.
        let is_writable = entry.metadata().ok()?.mode() & 0o200 != 0;
        let is_same = std::fs::metadata(entry.path()).is_ok_and(|meta| identity(&meta) == opened);
        (fd != own && is_writable && is_same).then_some(fd)
    });
    Ok(same.min())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("pagetide-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_somebody_else_writes_is_appended_to() {
        use std::io::Write;
        let path = path("report-given");
        let mut log = File::create(&path).expect("a file");
        log.write_all(b"before\n").expect("room");
        let mut report = create(&path).expect("it can be written");
        assert!(!report.is_own);
        report.file.write_all(b"{}\n").expect("room");
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(text, "before\n{}\n");
        drop((log, report));
        // Who only reads it has no part in it.
        let _reader = File::open(&path).expect("it is there");
        assert!(create(&path).expect("it can be written").is_own);
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_file_that_is_not_there_is_made_and_a_folder_refused() {
        let path = path("report-new");
        assert!(create(&path).expect("it can be made").is_own);
        std::fs::remove_file(&path).expect("it was made");
        let refused = create(Path::new("/")).map(drop).expect_err("a folder");
        assert!(refused.to_string().contains("cannot write the report"));
    }
}
