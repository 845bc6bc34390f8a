//! The processes of a step: their priority, where they wait, and how they are ended.
//!
//! Invariant: the list of a process's descendants is read anew each time, because it changes.

use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Time after which a running test binary is reported, with where it waits. The longest one took
/// 135 s beside two busy loops, except for the one that builds a package.
const LONG: Duration = Duration::from_secs(600);
/// Time after which a test binary is killed. (Without it, a test that waited for ever was reported
/// only when the whole run was ended from outside.)
const LIMIT: Duration = Duration::from_secs(1800);

/// A thread, as ps(1) reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Thread {
    pid: u32,
    parent: u32,
    tid: u32,
    nice: i32,
    /// Where it waits in the kernel, and its name.
    waits: String,
}

impl Thread {
    fn of_line(line: &str) -> Option<Thread> {
        let mut words = line.split_whitespace();
        let [pid, parent, tid] = [(); 3].map(|()| words.next().and_then(|id| id.parse().ok()));
        Some(Thread {
            pid: pid?,
            parent: parent?,
            tid: tid?,
            // A thread without this priority class has no number here.
            nice: words.next()?.parse().unwrap_or(0),
            waits: words.collect::<Vec<_>>().join(" "),
        })
    }
}

/// Returns the threads of a process and its descendants.
fn threads(pid: u32) -> Vec<Thread> {
    let mut ps = Command::new("ps");
    ps.args(["-eLo", "pid=,ppid=,tid=,ni=,wchan:32=,comm="]);
    let reported = ps.output().map(|output| output.stdout).unwrap_or_default();
    let reported = String::from_utf8_lossy(&reported);
    let all: Vec<Thread> = reported.lines().filter_map(Thread::of_line).collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        let children = all
            .iter()
            .filter(|one| one.parent == parent && one.tid == one.pid);
        family.extend(children.map(|one| one.pid));
        next += 1;
    }
    let is_family = |one: &Thread| family.contains(&one.pid);
    all.into_iter().filter(is_family).collect()
}

/// Sets a process and its descendants to normal priority, because the caller now waits for them: at
/// the lowest priority, beside two busy loops, they had a sixtieth of the machine. Without the
/// right to raise the priority they stay slow. Processes that start meanwhile may still have the
/// lowest priority, so a caller that waits for long calls this again.
pub(crate) fn set_normal_priority(pid: u32) {
    // Linux has a priority for each thread.
    let low = threads(pid).into_iter().filter(|one| one.nice > 0);
    run("renice -n 0 -p \"$@\"", low.map(|one| one.tid));
}

/// Runs a shell command with these ids, if there are any. It is no error if the processes have just
/// ended.
fn run(script: &str, ids: impl Iterator<Item = u32>) {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    if !ids.is_empty() {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).args(ids);
        let _ = shell.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Watches a process: reports it if it runs for long, and kills it and its descendants if it does
/// not end. Returns when the other end of `ended` is dropped, or after the kill; true if it was
/// killed.
pub(crate) fn watch(name: &str, pid: u32, ended: Receiver<()>) -> bool {
    watch_for(name, pid, &ended, [LONG, LIMIT])
}

fn watch_for(name: &str, pid: u32, ended: &Receiver<()>, [long, limit]: [Duration; 2]) -> bool {
    let is_over = |after| ended.recv_timeout(after) != Err(RecvTimeoutError::Timeout);
    if is_over(long) {
        return false;
    }
    println!("{name} has run for {} s:\n{}", long.as_secs(), waits(pid));
    if is_over(limit.saturating_sub(long)) {
        return false;
    }
    println!("{name} is ended:\n{}", waits(pid));
    run(
        "kill -KILL \"$@\"",
        threads(pid).into_iter().map(|one| one.pid),
    );
    true
}

/// Returns the threads of a process and of its descendants, each with where it waits.
fn waits(pid: u32) -> String {
    let lines = threads(pid).into_iter();
    let lines =
        lines.map(|one| format!("  process {}, thread {}: {}\n", one.pid, one.tid, one.waits));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ps_is_parsed() {
        let thread = Thread::of_line("    7    1    8  19 do_wait                          (a) b");
        let expected = Thread {
            pid: 7,
            parent: 1,
            tid: 8,
            nice: 19,
            waits: "do_wait (a) b".to_owned(),
        };
        assert_eq!(thread, Some(expected));
        assert_eq!(Thread::of_line("7 1"), None);
    }

    #[test]
    fn what_does_not_end_is_ended_with_its_children() {
        let limits = [Duration::ZERO, Duration::from_millis(1)];
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", "sleep 600; :"]).spawn().expect("a shell");
        // Wait until the shell has started its child.
        while threads(child.id()).len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let family = threads(child.id());
        let (end, ended) = std::sync::mpsc::channel();
        assert!(watch_for("sh", child.id(), &ended, limits));
        assert!(!child.wait().expect("it was started").success());
        // A process that has ended and was not waited for yet has an empty command line.
        let words = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        while family.iter().any(|one| !words(one.pid).is_empty()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A process that ends in time is not killed.
        drop(end);
        assert!(!watch_for("sh", child.id(), &ended, [LIMIT; 2]));
    }
}
