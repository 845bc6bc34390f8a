//! A copy of `/proc/vmstat` for one `serve`, in which a test lets the kernel's counters of reclaim
//! rise: reclaim of the whole host cannot be caused without taking all of its memory.
//!
//! Invariant: the text keeps its length and is written in one piece, so that no reader sees a
//! counter fall.

use std::fs::{File, OpenOptions};
use std::io::Write;

use crate::temp::TempDir;

/// The copy, which is mounted over `/proc/vmstat` in the mount namespace of `serve`.
#[derive(Debug)]
pub struct Vmstat {
    folder: TempDir,
    lines: Vec<(String, u64)>,
}

impl Vmstat {
    /// Copies the present counters.
    ///
    /// # Panics
    /// If the file cannot be copied.
    #[must_use]
    pub fn new() -> Vmstat {
        let text = std::fs::read_to_string("/proc/vmstat").expect("the kernel has it");
        let line = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let vmstat = Vmstat {
            folder: TempDir::new(),
            lines: text.lines().filter_map(line).collect(),
        };
        File::create(vmstat.path()).expect("a file can be made");
        vmstat.write();
        vmstat
    }

    /// The shell command that mounts the copy over `/proc/vmstat`.
    #[must_use]
    pub fn mount(&self) -> String {
        format!("mount --bind {} /proc/vmstat", self.path())
    }

    /// Lets a counter rise.
    ///
    /// # Panics
    /// If the kernel has no such counter.
    pub fn add(&mut self, name: &str, pages: u64) {
        let found = self.lines.iter_mut().find(|(found, _)| found == name);
        let (_, value) = found.unwrap_or_else(|| panic!("no counter {name}"));
        *value += pages;
        self.write();
    }

    fn path(&self) -> String {
        self.folder.file("vmstat")
    }

    fn write(&self) {
        let lines = self.lines.iter();
        let text: String = lines
            .map(|(name, value)| format!("{name} {value:020}\n"))
            .collect();
        let file = OpenOptions::new().write(true).open(self.path());
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.expect("the copy can be written");
    }
}

impl Default for Vmstat {
    fn default() -> Vmstat {
        Vmstat::new()
    }
}
