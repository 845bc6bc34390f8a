//! A transient scope of systemd's, delegated to us, by its own program busctl(1).
//!
//! Invariant: nothing is asked for where systemd does not run. The scope is in the slice that we are in, so
//! the slice's limits hold; it ends by itself when nobody is in it.
//!
//! A program is called, and no library of D-Bus linked: it is one call a start, busctl is a part of every
//! systemd, and the smallest complete libraries (zbus) bring some fifty crates and a runtime.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::system::Group;

/// Exists where systemd is the first process (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// The namespace of pids that a host begins with (PROC_PID_INIT_INO of the kernel).
const FIRST_PIDS: &str = "pid:[4026531836]";
const LIMIT: Duration = Duration::from_secs(5);

/// And numbers processes as we do: a container with processes of its own may see the host's, which would take ours for others of these
/// numbers. (Where its first process may not be seen, as with hidepid, nobody can tell.)
pub(crate) fn is_there() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let is_the_hosts = namespace.is_ok_and(|name| name.as_os_str() == FIRST_PIDS);
    let first = || std::fs::read_to_string("/proc/1/comm");
    let is_ours = || first().map_or(true, |name| name.trim_end() == "systemd");
    Path::new(BOOTED).is_dir() && (is_the_hosts || is_ours())
}

/// Asks for a scope with these processes in it; returns when the call was answered, which may be before
/// they are moved.
pub(super) fn start(name: &str, own: &Group, pids: &[u32]) -> Result<(), String> {
    let is_root = rustix::process::geteuid().is_root();
    let mut child = Command::new("busctl")
        .args(arguments(name, own, pids, is_root))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("no scope of systemd's: cannot start busctl: {error}"))?;
    let end = Instant::now() + LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("no scope of systemd's: busctl: {status}")),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("no scope of systemd's: busctl does not end".to_owned());
            }
            // Where SIGCHLD is ignored the kernel has taken its status, whatever that was; who waits for the move sees. (The story, of a reading: after
            // `trap '' CHLD` nothing with a limit could be started.)
            Err(error) if Errno::from_io_error(&error) == Some(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(format!("no scope of systemd's: busctl: {error}")),
        }
    }
}

/// StartTransientUnit(name, mode, properties, auxiliary units) of org.freedesktop.systemd1(5).
fn arguments(name: &str, own: &Group, pids: &[u32], is_root: bool) -> Vec<String> {
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    // Memory alone: all other controllers would be switched on for whoever is beside us. How many tasks there may be the slice says, as for a session.
    let mut properties = vec![
        words("DelegateControllers as 1 memory"),
        words("TasksMax t 18446744073709551615"),
    ];
    let mut processes = words(&format!("PIDs au {}", pids.len()));
    processes.extend(pids.iter().map(u32::to_string));
    properties.push(processes);
    if let Some(slice) = slice(&own.path, is_root) {
        properties.push(words(&format!("Slice s {slice}")));
    }
    let instance = if is_root { "--system" } else { "--user" };
    let mut all = words(&format!(
        "{instance} --timeout=4 call org.freedesktop.systemd1"
    ));
    all.extend(words(
        "/org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StartTransientUnit",
    ));
    all.extend(words("ssa(sv)a(sa(sv))"));
    all.extend(words(&format!("{name}.scope fail {}", properties.len())));
    all.extend(properties.into_iter().flatten());
    all.push("0".to_owned());
    all
}

/// The slice that we are in. A user's systemd knows those below its own service only.
fn slice(path: &Path, is_root: bool) -> Option<String> {
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    let from = if is_root {
        0
    } else {
        names
            .iter()
            .position(|name| name.starts_with("user@") && name.ends_with(".service"))?
    };
    // What comes behind a unit of its own (a user's service, a container) is another manager's.
    let from = if is_root { from } else { from + 1 };
    let below = names[from..].iter().filter(|name| **name != "/");
    let slices = below.take_while(|name| name.ends_with(".slice"));
    let last = slices.last().filter(|name| !name.contains(' '));
    last.map(|&name| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(path: &str) -> Group {
        Group {
            path: path.into(),
            dir: path.into(),
        }
    }

    #[test]
    fn the_call_has_the_signature_of_the_manual() {
        let own = group("/system.slice/cron.service");
        let call = arguments("pagetide-7-8", &own, &[7, 9], true).join(" ");
        assert!(call.starts_with("--system --timeout=4 call "), "{call}");
        assert!(
            call.ends_with(
                "ssa(sv)a(sa(sv)) pagetide-7-8.scope fail 4 DelegateControllers as 1 memory TasksMax t 18446744073709551615 PIDs au 2 7 9 Slice s system.slice 0"
            ),
            "{call}"
        );
    }

    #[test]
    fn a_user_asks_for_slices_of_its_own() {
        let inside = "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope";
        assert_eq!(
            slice(Path::new(inside), false).as_deref(),
            Some("app.slice")
        );
        let session = "/user.slice/user-1000.slice/session-2.scope";
        assert_eq!(slice(Path::new(session), false), None);
        let of_root = slice(Path::new(session), true);
        assert_eq!(of_root.as_deref(), Some("user-1000.slice"));
        // (By sudo in a desktop's terminal the host's systemd was asked for a slice of the user's.)
        let of_root = slice(Path::new(inside), true);
        assert_eq!(of_root.as_deref(), Some("user-1000.slice"));
        assert_eq!(slice(Path::new("/"), true), None);
    }
}
