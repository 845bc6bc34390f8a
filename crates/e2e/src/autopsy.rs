//! What a person wants to know of a process that hangs: where each thread waits, in the kernel too.

use std::fs;
use std::path::Path;

use crate::proc;

/// A process with each thread's state and where it waits.
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
