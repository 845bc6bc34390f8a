//! Where the kernel's trees and our records are.
//!
//! Invariant: every path of this module begins at one of these roots, so that a test can put a tree of its
//! own there, and no test touches the machine's swap by mistake.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::Serializer;

use super::error::SwapError;
use super::header::Uuid;
use crate::system::Proc;

/// The roots.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
    pub(super) dev: PathBuf,
    pub(super) run: PathBuf,
}

impl Places {
    /// The machine's own.
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

    /// A new one of each call: the kernel draws it.
    pub(super) fn new_uuid(&self) -> Result<Uuid, SwapError> {
        self.uuid("sys/kernel/random/uuid")
    }

    /// The same until the machine starts again.
    pub(super) fn boot(&self) -> Result<Uuid, SwapError> {
        self.uuid("sys/kernel/random/boot_id")
    }

    fn uuid(&self, name: &str) -> Result<Uuid, SwapError> {
        let path = self.proc.join(name);
        let what = || format!("cannot read {}", path.display());
        let text = line(&path).map_err(|error| SwapError::io(what(), &error))?;
        let odd =
            |()| SwapError::failed(what(), format!("`{text}` is no uuid"), "is /proc mounted?");
        text.parse().map_err(odd)
    }

    /// Pages that are read from swap together, as a power of two.
    pub(super) fn page_cluster(&self) -> Option<u32> {
        line(&self.proc.join("sys/vm/page-cluster"))
            .ok()?
            .parse()
            .ok()
    }
}

/// A file of one line, as the kernel has many.
pub(super) fn line(path: &Path) -> io::Result<String> {
    Ok(std::fs::read_to_string(path)?.trim().to_owned())
}

/// Writes to a file of the kernel's, in one call; it must be there.
pub(super) fn put(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// The same, once more for as long as the kernel answers with `busy`, until `end`; that is the error then.
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

/// A path as text, what is no UTF-8 in it replaced.
pub(super) fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
