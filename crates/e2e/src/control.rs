//! A manager's control socket, spoken to by hand: one line each way.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use serde_json::Value;

/// The answer of the manager of a process; none if there is no manager, or it is silent.
#[must_use]
pub fn ask(pid: u32, line: &str) -> Option<Value> {
    let answer = ask_by_name(&format!("pagetide.{pid}"), line)?;
    serde_json::from_str(&answer).ok()
}

/// The answer of whoever listens under a name, as it comes.
#[must_use]
pub fn ask_by_name(name: &str, line: &str) -> Option<String> {
    let address = SocketAddr::from_abstract_name(name).ok()?;
    let mut stream = UnixStream::connect_addr(&address).ok()?;
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

/// The name of the socket of a tree of tenants, of those that a process has open.
#[must_use]
pub fn name_of_tree(pid: u32) -> Option<String> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = open
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let own: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let sockets = std::fs::read_to_string("/proc/net/unix").ok()?;
    let mut trees = sockets.lines().filter_map(|line| {
        let (before, name) = line.split_once(" @")?;
        let inode = before.rsplit(' ').next()?;
        let is_own = own.contains(&format!("socket:[{inode}]"));
        (is_own && name.starts_with("pagetide.tree.")).then(|| name.to_owned())
    });
    trees.next()
}

/// Whether a manager of that process has its socket.
#[must_use]
pub fn is_there(pid: u32) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name = format!("@pagetide.{pid}");
    sockets.lines().any(|line| line.ends_with(&name))
}
