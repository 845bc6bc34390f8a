//! Reads files of `/proc`, or of a directory tree that imitates it.
//!
//! Invariant: if a process disappears, before or while it is read, the result is `None`. Every
//! descriptor is close-on-exec and opened relative to one directory, so a later mount over `/proc`
//! changes nothing. Of the kernel's own /proc, this process itself reads only the files in
//! `LOCKLESS`. For all other files the kernel takes a lock of the process that is read, and another
//! task may hold that lock without end. So an access worker reads those files
//! ([`pagetables::access`]).

use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, RawDir, fstatfs, openat};
use rustix::io::Errno;

use super::error::Error;
use super::text::number32;

/// Names of the files of a process that the kernel prints without taking its mmap lock or exec
/// lock.
const LOCKLESS: [&str; 6] = ["statm", "status", "cgroup", "mountinfo", "comm", "loginuid"];

/// The directory tree in which processes are read. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Proc {
    dir: Arc<OwnedFd>,
    root: Arc<Path>,
    /// Whether the tree is the kernel's own, not a test's.
    is_real: bool,
}

/// Returns the path `PID/name`.
fn relative(pid: u32, name: &str) -> Vec<u8> {
    let mut path = Vec::with_capacity(48);
    // Writing to a vector cannot fail.
    let _ = write!(path, "{pid}/{name}");
    path
}

/// Returns whether the kernel's error means that there is no such process.
fn means_no_process(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::SRCH)
}

impl Proc {
    /// Opens the tree at `root`.
    ///
    /// # Errors
    /// It is not a readable directory.
    pub fn at(root: &Path) -> Result<Proc, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir =
            openat(CWD, root, flags, Mode::empty()).map_err(|errno| Error::reading(root, errno))?;
        let is_real = fstatfs(&dir).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC);
        Ok(Proc {
            dir: Arc::new(dir),
            root: root.into(),
            is_real,
        })
    }

    /// Opens `/proc`.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn system() -> Result<Proc, Error> {
        Proc::at(Path::new("/proc"))
    }

    /// Returns the pids of all processes (not threads) in this tree, ascending. The cost is one
    /// read of a directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn pids(&self) -> Result<Vec<u32>, Error> {
        self.numbers(b".")
            .map_err(|errno| Error::reading(&self.root, errno))
    }

    /// Returns the numbers of a process's threads, ascending; none if the process has ended. The
    /// cost is one read of a directory.
    ///
    /// # Errors
    /// The directory exists but may not be read.
    pub fn threads(&self, pid: u32) -> Result<Vec<u32>, Error> {
        match self.numbers(&relative(pid, "task")) {
            Err(errno) if means_no_process(errno) => Ok(Vec::new()),
            threads => threads.map_err(|errno| Error::reading(&self.path(pid, "task"), errno)),
        }
    }

    /// Returns the names in a directory that are numbers, ascending; 0 is not among them.
    fn numbers(&self, name: &[u8]) -> Result<Vec<u32>, Errno> {
        // Opened anew, as a descriptor has only one read position and threads share ours.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&*self.dir, name, flags, Mode::empty())?;
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 32 << 10];
        let mut entries = RawDir::new(dir, &mut buffer);
        let mut numbers = Vec::with_capacity(64);
        while let Some(entry) = entries.next() {
            numbers.extend(number32(entry?.file_name().to_bytes()).filter(|&number| number != 0));
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Appends the content of the file `name` of a process to `into`; returns whether the process
    /// existed.
    ///
    /// # Errors
    /// The file exists but may not be read.
    pub(crate) fn read(&self, pid: u32, name: &str, into: &mut Vec<u8>) -> Result<bool, Error> {
        self.read_up_to(pid, name, usize::MAX, into)
    }

    /// Reads as [`Proc::read`] does, but stops after about `limit` bytes.
    pub(crate) fn read_up_to(
        &self,
        pid: u32,
        name: &str,
        limit: usize,
        into: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let done = match self.is_real && !LOCKLESS.contains(&name) {
            true => pagetables::access::read(self.dir.as_fd(), (pid, name), limit, into)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            false => self.append_file(&relative(pid, name), limit, into),
        };
        self.is_there(done, (pid, name))
    }

    /// Like [`Proc::read`], but passes the content to `sink` in pieces. `sink` returns whether it
    /// needs more.
    pub(crate) fn read_pieces(
        &self,
        pid: u32,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        if !self.is_real {
            let mut text = Vec::new();
            let is_there = self.read(pid, name, &mut text)?;
            sink(&text);
            return Ok(is_there);
        }
        let done = pagetables::access::read_pieces(self.dir.as_fd(), (pid, name), sink);
        let done = done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        self.is_there(done, (pid, name))
    }

    /// Returns whether the process existed when its file `name` was read. `done`: the result of
    /// that read.
    fn is_there(&self, done: Result<(), Errno>, (pid, name): (u32, &str)) -> Result<bool, Error> {
        match done {
            Ok(()) => Ok(true),
            Err(errno) if means_no_process(errno) => Ok(false),
            Err(errno) => Err(Error::reading(&self.path(pid, name), errno)),
        }
    }

    /// Reads a file of the whole machine, such as `meminfo`; `None` if it does not exist or the
    /// kernel does not support it.
    pub(crate) fn read_own(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let mut text = Vec::with_capacity(4096);
        match self.append_file(name.as_bytes(), usize::MAX, &mut text) {
            Ok(()) => Ok(Some(text)),
            Err(errno) if means_no_process(errno) || errno == Errno::OPNOTSUPP => Ok(None),
            Err(errno) => Err(Error::reading(&self.root.join(name), errno)),
        }
    }

    /// Whether the tree is the kernel's own, not a test's.
    pub(crate) fn is_real(&self) -> bool {
        self.is_real
    }

    /// Whether the file `name` is the kernel's. In a container, a file of another file system may
    /// be mounted over it, as lxcfs does. True for a file that cannot be opened.
    pub(crate) fn is_kernels(&self, name: &str) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = openat(&*self.dir, name, flags, Mode::empty());
        let kind = file.and_then(|file| fstatfs(&file));
        !self.is_real || kind.map_or(true, |system| system.f_type == PROC_SUPER_MAGIC)
    }

    /// Calls `sink` with the target of each link in the directory `PID/name`, cut to about 64
    /// bytes, until `sink` returns false. Returns whether the process existed.
    ///
    /// # Errors
    /// The directory exists but may not be read, or the lock of the process's memory is held
    /// without end.
    pub fn read_links(
        &self,
        pid: u32,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        let done = pagetables::access::read_links(self.dir.as_fd(), (pid, name), sink);
        let done = done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        self.is_there(done, (pid, name))
    }

    /// Returns the path of a process's file, for messages.
    pub(crate) fn path(&self, pid: u32, name: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(name)
    }

    /// Returns the path of a file of the whole machine, for messages.
    pub(crate) fn own_path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Appends the content of the file `path` of this tree to `into`. This process reads it itself.
    fn append_file(&self, path: &[u8], limit: usize, into: &mut Vec<u8>) -> Result<(), Errno> {
        let file = openat(
            &*self.dir,
            path,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        read_all(&file, limit, into)
    }
}

/// Reads a file outside of the tree, such as a control group's; `None` if it does not exist or was
/// removed.
pub(crate) fn read_path(path: &Path) -> Result<Option<Vec<u8>>, Errno> {
    let mut text = Vec::with_capacity(4096);
    let read = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|file| read_all(&file, usize::MAX, &mut text));
    match read {
        Ok(()) => Ok(Some(text)),
        // Reading an open file of a control group that was removed returns ENODEV.
        Err(errno) if means_no_process(errno) || errno == Errno::NODEV => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Appends the content of a kernel file to `into`, up to about `limit` bytes. Each read(2) of such
/// a file returns about a page, and 0 bytes at the end.
pub(crate) fn read_all(file: &OwnedFd, limit: usize, into: &mut Vec<u8>) -> Result<(), Errno> {
    let before = into.len();
    while into.len() - before < limit {
        if into.spare_capacity_mut().len() < 1024 {
            into.reserve(into.len().max(4096));
        }
        match rustix::io::read(file, rustix::buffer::spare_capacity(into)) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_among_the_processes() {
        let proc = Proc::system().unwrap();
        let pids = proc.pids().unwrap();
        assert!(pids.contains(&std::process::id()) && pids.contains(&1));
        assert!(pids.is_sorted());
    }

    #[test]
    fn a_missing_process_is_none() {
        let proc = Proc::system().unwrap();
        let mut text = Vec::new();
        assert!(!proc.read(4_194_304, "stat", &mut text).unwrap());
        assert!(!proc.read_links(4_194_304, "fd", &mut |_| true).unwrap());
        assert!(proc.read_own("no such file").unwrap().is_none());
    }

    #[test]
    fn no_tree_is_an_error_with_a_hint() {
        let error = Proc::at(Path::new("/proc/none")).unwrap_err();
        assert!(error.to_string().contains("/proc/none"), "{error}");
        assert!(!error.hint().is_empty());
    }
}
