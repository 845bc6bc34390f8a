//! The directories of the kernel's trees and of our records.
//!
//! Invariant: every path of the module `swap` begins at one of these roots. So a test can use a
//! tree of its own, and cannot change the machine's swap by mistake.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::Serializer;

use super::error::SwapError;
use super::header::Uuid;
use crate::system::Proc;

/// The root directories: of the kernel (`proc`, `sys`, `dev`) and of our records (`run`).
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
    pub(super) dev: PathBuf,
    pub(super) run: PathBuf,
}

impl Places {
    /// Returns the directories of the machine itself.
    pub(super) fn system() -> Places {
        Places {
            proc: "/proc".into(),
            sys: "/sys".into(),
            dev: "/dev".into(),
            run: "/run/pagetide".into(),
        }
    }

    pub(super) fn proc(&self) -> Result<Proc, SwapError> {
        Ok(Proc::at(&self.proc)?)
    }

    /// Returns a new random uuid, which the kernel makes.
    pub(super) fn new_uuid(&self) -> Result<Uuid, SwapError> {
        self.uuid("sys/kernel/random/uuid")
    }

    /// Returns the uuid of this boot, the same until the machine restarts.
    pub(super) fn boot(&self) -> Result<Uuid, SwapError> {
        self.uuid("sys/kernel/random/boot_id")
    }

    /// Reads the uuid in the file `name` of `/proc`.
    fn uuid(&self, name: &str) -> Result<Uuid, SwapError> {
        let path = self.proc.join(name);
        let what = || format!("cannot read {}", path.display());
        let text = line(&path).map_err(|error| SwapError::io(what(), &error))?;
        let odd = |()| {
            SwapError::failed(
                what(),
                format!("`{text}` is not a UUID"),
                "is /proc mounted?",
            )
        };
        text.parse().map_err(odd)
    }

    /// Returns `vm.page-cluster`: the kernel reads `1 << page_cluster` pages from swap together.
    /// `None` if it cannot be read.
    pub(super) fn page_cluster(&self) -> Option<u32> {
        line(&self.proc.join("sys/vm/page-cluster"))
            .ok()?
            .parse()
            .ok()
    }
}

/// Reads a file of one line; returns the line without white space at its ends.
pub(super) fn line(path: &Path) -> io::Result<String> {
    Ok(std::fs::read_to_string(path)?.trim().to_owned())
}

/// Writes to an existing file of the kernel, in one system call.
pub(super) fn put(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Writes as [`put`] does, and repeats that while the kernel returns `busy`. Returns that error if
/// the kernel still returns it at `end`.
pub(super) fn put_in_time(path: &Path, text: &str, busy: Errno, end: Instant) -> io::Result<()> {
    loop {
        match put(path, text) {
            Err(error) if Errno::from_io_error(&error) == Some(busy) && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Writes a path as text; invalid UTF-8 is replaced.
pub(super) fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
