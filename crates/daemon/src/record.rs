//! The file for a recording: opened before anything is managed, and passed to the manager.
//!
//! Invariant: the file is a regular one, so that every write ends. A file that the user may not
//! write is not written to.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use host::manage::Recording;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::rights::as_user;

/// Most bytes of the command line in a recording; a longer one is cut off.
const COMMAND_MAX: usize = 4000;

/// What the writer of a recording needs to begin it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct About {
    /// Largest size of the file, in bytes.
    pub max_bytes: u64,
    /// The command of the recorded programs.
    pub command: String,
}

impl About {
    /// Returns the information for a recording of this command, with this size limit in bytes.
    #[must_use]
    pub fn command(words: &[OsString], max_bytes: u64) -> About {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let mut command = words.join(" ");
        let mut end = command.len().min(COMMAND_MAX);
        while !command.is_char_boundary(end) {
            end -= 1;
        }
        command.truncate(end);
        About { max_bytes, command }
    }

    /// Empties the file and returns the recording to be written there.
    #[must_use]
    pub fn begin(self, file: File) -> Recording {
        // This cannot fail: the file is regular and open for writing.
        let _ = file.set_len(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // Beyond RLIMIT_FSIZE the kernel kills the process that writes (SIGXFSZ): that would be the
        // manager.
        let of_file = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        Recording {
            file,
            max_bytes: self.max_bytes.min(of_file),
            command: self.command,
            begun_ms: since.map_or(0, |since| engine::Millis::from(since).0),
        }
    }
}

const NO_FILE: &str = "it is no regular file";

/// Opens the file, and creates it if it does not exist. Its content is removed only when the
/// recording begins, so that a failed start keeps the content.
///
/// # Errors
/// The file cannot be written, or is not a regular file.
pub fn create(path: &Path) -> Result<File, Error> {
    let refused = |why: String| {
        Error::failed(
            format!("cannot record to {}: {why}", path.display()),
            "give another file with --record",
        )
    };
    // Without O_NONBLOCK, opening a pipe would wait for a reader, and delay the program.
    let open = || {
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let at_once = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        options.custom_flags(at_once).open(path)
    };
    let file = as_user(open).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => refused(NO_FILE.to_owned()),
        _ => refused(error.to_string()),
    })?;
    match file.metadata() {
        Ok(meta) if meta.is_file() => Ok(file),
        Ok(_) => Err(refused(NO_FILE.to_owned())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Opens a file for writing, and creates it if needed, but unlike [`File::create`] keeps the
/// content.
pub(crate) fn open_to_write(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_goes_to_a_regular_file() {
        let refused = create(Path::new("/dev/null")).expect_err("a device");
        assert!(refused.to_string().contains("no regular file"), "{refused}");
        // Regression: with a pipe that no process read, the program waited for ever before it
        // began.
        let pipe = std::env::temp_dir().join(format!("pagetide-pipe-{}", std::process::id()));
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        );
        made.expect("a pipe");
        let refused = create(&pipe).expect_err("a pipe");
        std::fs::remove_file(&pipe).expect("it");
        assert!(refused.to_string().contains("no regular file"), "{refused}");
        let refused = create(Path::new("/nowhere/x")).expect_err("no directory");
        assert!(
            refused
                .to_string()
                .starts_with("cannot record to /nowhere/x")
        );
    }

    #[test]
    fn commands_are_cut_between_characters() {
        let words = [OsString::from("\u{e9}".repeat(3000))];
        let about = About::command(&words, 7);
        assert_eq!((about.command.len(), about.max_bytes), (4000, 7));
        let words = ["a".into(), "b c".into()];
        assert_eq!(About::command(&words, 7).command, "a b c");
    }
}
