//! Requests a transient systemd scope that is delegated to us, by systemd's own program busctl(1).
//!
//! Invariant: if systemd does not run, nothing is requested. The scope is in our own slice, so the
//! slice's limits hold for it. systemd removes the scope when no process is in it.
//!
//! We run a program instead of linking a D-Bus library: there is one call per start, every systemd
//! has busctl, and even the smallest complete library (zbus) needs some fifty crates and an async
//! runtime.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::system::Group;

/// Directory that exists if systemd is the first process (sd_booted(3)).
const SYSTEMD_DIR: &str = "/run/systemd/system";
/// Link text of a host's first pid namespace (`PROC_PID_INIT_INO` of the kernel).
const FIRST_PIDS: &str = "pid:[4026531836]";
/// Maximum time that busctl may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns whether systemd runs and uses the same process numbers as we do. A container with its
/// own pid namespace may see the host's systemd, which would take our pids for other processes.
/// (With hidepid the first process is not visible. Then this is unknown, and the result is true.)
pub(crate) fn is_there() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    let is_the_hosts = namespace.is_ok_and(|name| name.as_os_str() == FIRST_PIDS);
    let first = || std::fs::read_to_string("/proc/1/comm");
    let is_ours = || first().map_or(true, |name| name.trim_end() == "systemd");
    Path::new(SYSTEMD_DIR).is_dir() && (is_the_hosts || is_ours())
}

/// Requests a scope `name` with these processes from systemd. systemd may move the processes only
/// after this function has returned.
pub(super) fn start(name: &str, own: &Group, pids: &[u32]) -> Result<(), String> {
    let is_root = rustix::process::geteuid().is_root();
    let mut child = Command::new("busctl")
        .args(arguments(name, own, pids, is_root))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("systemd made no scope: cannot start busctl: {error}"))?;
    let end = Instant::now() + CALL_TIMEOUT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("systemd made no scope: busctl: {status}")),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("systemd made no scope: busctl does not end".to_owned());
            }
            // If SIGCHLD is ignored (`trap '' CHLD`), the kernel discards the exit status. Whether
            // the call succeeded is then seen by the caller, which waits until the processes are
            // moved.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(format!("systemd made no scope: busctl: {error}")),
        }
    }
}

/// Returns busctl's arguments for StartTransientUnit(name, mode, properties, auxiliary units) of
/// org.freedesktop.systemd1(5).
fn arguments(name: &str, own: &Group, pids: &[u32], is_root: bool) -> Vec<String> {
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    // Only the memory controller is delegated: any other would also be enabled for cgroups beside
    // ours. The slice limits the number of tasks, as for a session.
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

/// Returns our slice from our cgroup's path. A user's systemd knows only slices below its own
/// service.
fn slice(path: &Path, is_root: bool) -> Option<String> {
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    let from = if is_root {
        0
    } else {
        names
            .iter()
            .position(|name| name.starts_with("user@") && name.ends_with(".service"))?
    };
    // Ends before the first name that is not a slice (a user's service, a container): another
    // manager owns the slices below it.
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
        // Regression: under sudo in a terminal of a desktop, pagetide requested from the host's
        // systemd a slice that only the user's systemd has.
        let of_root = slice(Path::new(inside), true);
        assert_eq!(of_root.as_deref(), Some("user-1000.slice"));
        assert_eq!(slice(Path::new("/"), true), None);
    }
}
