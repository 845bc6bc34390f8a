//! A client of managers' control sockets: sends a line and receives a line. The managers of these
//! tests run as root.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// Folder of the sockets of root's managers.
const SOCKETS: &str = "/run/pagetide/control";

/// Sends a line to the manager of process `pid`; returns its answer. `None` without a manager, or
/// without a valid answer.
#[must_use]
pub fn request(pid: u32, line: &str) -> Option<Value> {
    let answer = request_at(&process_socket(pid), line)?;
    serde_json::from_str(&answer).ok()
}

/// Path of the control socket of the manager of process `pid`; it need not exist.
#[must_use]
pub fn process_socket(pid: u32) -> PathBuf {
    Path::new(SOCKETS).join(pid.to_string())
}

/// Sends a line to the manager at `socket`; returns its answer as text, or `None` if it does not
/// answer in 10 s.
#[must_use]
pub fn request_at(socket: &Path, line: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .ok()?;
    stream.write_all(format!("{line}\n").as_bytes()).ok()?;
    let mut answer = String::new();
    BufReader::with_capacity(64 << 10, stream)
        .read_line(&mut answer)
        .ok()?;
    Some(answer)
}

/// Path of the control socket on which the process `pid`, a `pagetide serve`, listens; `None` if it
/// has none.
#[must_use]
pub fn tree_socket(pid: u32) -> Option<PathBuf> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = open
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let own: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let sockets = std::fs::read_to_string("/proc/net/unix").ok()?;
    let trees = format!("{SOCKETS}/tree.");
    let mut found = sockets.lines().filter_map(|line| {
        let (before, path) = line.rsplit_once(' ')?;
        let inode = before.rsplit(' ').next()?;
        let is_own = own.contains(&format!("socket:[{inode}]"));
        (is_own && path.starts_with(&trees)).then(|| PathBuf::from(path))
    });
    found.next()
}

/// Whether a manager listens on the control socket for process `pid`.
#[must_use]
pub fn has_listener(pid: u32) -> bool {
    UnixStream::connect(process_socket(pid)).is_ok()
}
