//! Describes a process that hangs: where in the kernel each of its threads waits.

use std::fs;
use std::path::Path;

use crate::proc;

/// Describes a process in a line for its name and state, and a line for each of its threads.
#[must_use]
pub fn describe(pid: u32) -> String {
    let mut text = format!(
        "pid {pid} {} state {:?}",
        proc::comm(pid).unwrap_or_default(),
        proc::state(pid)
    );
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        text.push_str("\n    ");
        text.push_str(&thread(&task.path()));
    }
    text
}

/// Describes a thread by the innermost four functions of its kernel stack, and its system call.
fn thread(task: &Path) -> String {
    let of = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let stack: Vec<String> = of("stack")
        .lines()
        .filter_map(|line| Some(line.split_once("] ")?.1.split('+').next()?.to_owned()))
        .take(4)
        .collect();
    let call: String = of("syscall").trim().chars().take(70).collect();
    let tid = task.file_name().unwrap_or_default().to_string_lossy();
    format!("{tid} in {} ({call})", stack.join(" < "))
}
