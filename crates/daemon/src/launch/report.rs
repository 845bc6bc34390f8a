//! The file for the last report: opened before anything starts, and written by the manager at the
//! end.
//!
//! Invariant: nothing that another process writes is truncated or overwritten. A file that this
//! process has open already, such as a log behind `/dev/stderr`, is not the report's own: there the
//! report is written at the position of the open descriptor.

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
    /// Whether only the report is written to the file: then an earlier run's report is removed
    /// first.
    pub(super) is_own: bool,
}

/// Returns the path of the report if the manager will outlive the program, so that the manager can
/// write the report.
///
/// # Errors
/// This process is process 1 of its pid namespace: when it ends, the kernel kills all processes of
/// the namespace, and so the manager.
pub(super) fn require_writer(path: &Path) -> Result<&Path, Error> {
    if std::process::id() != 1 {
        return Ok(path);
    }
    Err(Error::failed(
        format!(
            "cannot report to {}: the program is process 1 of its pid namespace, so the manager ends with it",
            path.display()
        ),
        "start it below an init (docker run --init, tini), or omit --report and call `pagetide report 1` while it runs",
    ))
}

/// Creates or opens the report's file; an existing file keeps its content for now.
///
/// # Errors
/// The file cannot be written.
pub(super) fn create(path: &Path) -> Result<ReportFile, Error> {
    let opened = record::open_to_write(path).and_then(own_or_open);
    opened.map_err(|error| {
        Error::failed(
            format!("cannot write the report to {}: {error}", path.display()),
            "give another file with --report",
        )
    })
}

/// If this process has the file open already, uses that descriptor. Opening `/dev/stderr` by its
/// name would open the log anew at its beginning, and overwrite what the program writes there.
fn own_or_open(file: File) -> io::Result<ReportFile> {
    let Some(given) = open_writer_of(&file)? else {
        return Ok(ReportFile { file, is_own: true });
    };
    let stdio = match given {
        1 => Some(rustix::stdio::stdout()),
        2 => Some(rustix::stdio::stderr()),
        _ => None,
    };
    let file = match stdio {
        // A duplicate shares the position: other writers of the log continue after the report.
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

/// Returns the lowest other descriptor of this process that can write to the same file; `None` if
/// there is none.
fn open_writer_of(file: &File) -> io::Result<Option<i32>> {
    let identity = |meta: &Metadata| (meta.dev(), meta.ino());
    let (opened, own) = (identity(&file.metadata()?), file.as_raw_fd());
    // If /proc is missing there is no manager either.
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let same = entries.flatten().filter_map(|entry| {
        let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
        // The mode of the link in /proc/self/fd shows how the descriptor was opened.
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
    fn a_file_of_other_writers_is_appended_to() {
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
        // A descriptor that only reads does not count.
        let _reader = File::open(&path).expect("it is there");
        assert!(create(&path).expect("it can be written").is_own);
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn a_missing_file_is_made_and_a_directory_refused() {
        let path = path("report-new");
        assert!(create(&path).expect("it can be made").is_own);
        std::fs::remove_file(&path).expect("it was made");
        let refused = create(Path::new("/")).map(drop).expect_err("a folder");
        assert!(refused.to_string().contains("cannot write the report"));
    }
}
