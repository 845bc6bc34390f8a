//! A manager's control socket, spoken to by hand: one line each way.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use serde_json::Value;

/// The answer of the manager of a process; none if there is no manager, or it is silent.
#[must_use]
pub fn ask(pid: u32, line: &str) -> Option<Value> {
    let address = SocketAddr::from_abstract_name(format!("pagetide.{pid}")).ok()?;
    let mut stream = UnixStream::connect_addr(&address).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .ok()?;
    stream.write_all(format!("{line}\n").as_bytes()).ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    serde_json::from_str(&answer).ok()
}

/// Whether a manager of that process has its socket.
#[must_use]
pub fn is_there(pid: u32) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let name = format!("@pagetide.{pid}");
    sockets.lines().any(|line| line.ends_with(&name))
}
