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

/// Returns the pids of a process and its descendants.
fn members(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&pid) = family.get(next) {
        // Each thread has children of its own: cargo starts the compiler from several.
        for thread in threads(pid) {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
            let children = children.unwrap_or_default();
            let children = children.split_whitespace();
            family.extend(children.filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next += 1;
    }
    family
}

/// Returns the threads of a process; none if it has ended.
fn threads(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"));
    let names = entries.into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Parses the nice value of a thread from its line in /proc; `None` if it has ended.
fn nice_of(stat: &str) -> Option<i32> {
    // The name of the program, in parentheses, may have spaces and parentheses. Nice is the 17th
    // word behind it.
    stat.rsplit_once(") ")?.1.split(' ').nth(16)?.parse().ok()
}

/// Sets a process and its descendants to normal priority, because the caller now waits for them: at
/// the lowest priority, beside two busy loops, they had a sixtieth of the machine. Without the
/// right to raise the priority they stay slow. Processes that start meanwhile may still have the
/// lowest priority, so a caller that waits for long calls this again.
pub(crate) fn set_normal_priority(pid: u32) {
    // Linux has a priority for each thread.
    let threads = members(pid)
        .into_iter()
        .flat_map(|pid| threads(pid).into_iter().map(move |tid| (pid, tid)));
    let low: Vec<String> = threads
        .filter(|(pid, tid)| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
            stat.is_ok_and(|stat| nice_of(&stat).is_some_and(|nice| nice > 0))
        })
        .map(|(_, tid)| tid.to_string())
        .collect();
    if low.is_empty() {
        return;
    }
    let mut renice = Command::new("renice");
    renice.args(["-n", "0", "-p"]).args(low);
    let _ = renice.stdout(Stdio::null()).stderr(Stdio::null()).status();
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
    // Every shell has a built-in kill(1).
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -KILL \"$@\"", "kill"])
        .args(members(pid).iter().map(u32::to_string));
    // It is no error if the process has just ended.
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
    true
}

/// Returns the threads of a process and of its descendants, each with its name and where it waits
/// in the kernel, as far as this user may read it.
fn waits(pid: u32) -> String {
    let mut text = String::new();
    for pid in members(pid) {
        for tid in threads(pid) {
            let of = |what| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{what}"));
            let [name, stack] = ["comm", "stack"].map(|what| of(what).unwrap_or_default());
            let stack: Vec<&str> = stack.split_whitespace().collect();
            let (name, stack) = (name.trim(), stack.join(" "));
            text.push_str(&format!("  process {pid}, thread {tid} {name}: {stack}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_of_a_thread_whose_name_has_parentheses_is_read() {
        let stat = "7 (a) (b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 39 19 1 0 123 4096";
        assert_eq!(nice_of(stat), Some(19));
        assert_eq!(nice_of("7 (a"), None);
    }

    #[test]
    fn what_does_not_end_is_ended_with_its_children() {
        let limits = [Duration::ZERO, Duration::from_millis(1)];
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600; :"])
            .spawn()
            .expect("there is a shell");
        // Wait until the shell has started its child.
        while members(child.id()).len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let family = members(child.id());
        let (end, ended) = std::sync::mpsc::channel();
        assert!(watch_for("sh", child.id(), &ended, limits));
        assert!(!child.wait().expect("it was started").success());
        // A process that has ended and was not waited for yet has an empty command line.
        let words = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        while family.iter().any(|pid| !words(*pid).is_empty()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // A process that ends in time is not killed.
        drop(end);
        assert!(!watch_for("sh", child.id(), &ended, [LIMIT; 2]));
    }
}
