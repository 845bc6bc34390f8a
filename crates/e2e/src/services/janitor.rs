//! Removes what a benchmark would not remove itself if it were killed or interrupted. A shell in
//! another session does it, which waits for the end of the benchmark.
//!
//! Invariant: the shell acts when the benchmark has ended, in whatever way, and only on what the
//! benchmark named. It kills the processes in the named control groups, and removes these groups,
//! swap devices and folders (names of folders may be patterns). A benchmark that has removed them
//! itself leaves nothing to do.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The shell's program. It reads lines `group PATH`, `swap DEVICE` and `folder PATH` until the pipe
/// ends, and then removes these things.
const SCRIPT: &str = r#"
trap '' INT HUP TERM
while read -r kind what; do
    case $kind in
    group) groups="$what $groups" ;;
    swap) swaps="$swaps $what" ;;
    folder) folders="$folders $what" ;;
    esac
done
# A postmaster that is killed leaves its shared memory: it is asked to end first.
signal=INT
for turn in 1 2 3 4 5 6 7 8 9 10 11 12; do
    for group in $groups; do
        for procs in $(find "$group" -name cgroup.procs 2>/dev/null); do
            for pid in $(cat "$procs" 2>/dev/null); do kill -$signal "$pid" 2>/dev/null; done
        done
        [ -d "$group" ] && find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
        [ -d "$group" ] && left=yes
    done
    [ -z "$left" ] && break
    left=
    sleep 0.5
    [ $turn = 2 ] && signal=KILL
done
for swap in $swaps; do
    grep -q "^$swap " /proc/swaps && swapoff "$swap" && echo "${swap#/dev/zram}" > /sys/class/zram-control/hot_remove
done
for folder in $folders; do rm -rf "$folder"; done
"#;

/// The shell that cleans up; when this is dropped, the shell does its work.
#[derive(Debug)]
pub struct Janitor {
    shell: Child,
    /// The pipe that the shell reads; `None` once it is closed.
    orders: Option<ChildStdin>,
}

impl Janitor {
    /// Starts the shell.
    ///
    /// # Panics
    /// If there is no shell.
    #[must_use]
    pub fn start() -> Janitor {
        // The shell has a session of its own, so ^C reaches only the benchmark.
        let shell = Command::new("setsid")
            .args(["sh", "-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut shell = shell.expect("util-linux has setsid");
        let orders = shell.stdin.take();
        Janitor { shell, orders }
    }

    /// Registers a thing to be removed; `kind` is `group`, `swap` or `folder`.
    ///
    /// # Panics
    /// If the shell has ended.
    pub fn register(&mut self, kind: &str, what: &str) {
        let orders = self.orders.as_mut().expect("it waits");
        writeln!(orders, "{kind} {what}").expect("it reads");
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.shell.wait();
    }
}
