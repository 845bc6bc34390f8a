//! What a person wants to know of a process that hangs: where each thread waits, in the kernel too,
//! and what a keeper was about.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use keeper::layout::ctl;

use crate::proc;

/// The control words that tell what a keeper is at, with their names.
const WORDS: [(&str, usize); 20] = [
    ("command", ctl::CMD_SEQ),
    ("done", ctl::DONE_SEQ),
    ("op", ctl::CMD_OP),
    ("ranges", ctl::CMD_RANGES),
    ("hold until", ctl::HOLD_UNTIL),
    ("throttle", ctl::THROTTLE),
    ("budget", ctl::BUDGET),
    ("registered", ctl::REGS_USED),
    ("children", ctl::CHILDREN),
    ("takeovers", ctl::TAKEOVERS),
    ("faults", ctl::FAULTS),
    ("events", ctl::EVENTS),
    ("retries", ctl::RETRIES),
    ("halts", ctl::HALTS),
    ("let go", ctl::LET_GO),
    ("anomalies", ctl::ANOMALIES),
    ("last anomaly", ctl::ANOMALY_LAST),
    ("in transit", ctl::TRANSIT_ON),
    ("installing", ctl::INSTALL_ON),
    ("queue", ctl::QUEUE_LEN),
];
/// Events that are shown at most.
const EVENTS_SHOWN: usize = 32;

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
    if proc::is_keeper(pid) {
        text.push_str(&keeper(pid).unwrap_or_else(|| "\n    its table cannot be read".to_owned()));
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

/// What a keeper's table says: the words above, and the events it has read and not applied.
fn keeper(pid: u32) -> Option<String> {
    let table = File::open(format!("/proc/{pid}/fd/{}", keeper::layout::fd::TABLE)).ok()?;
    let word = |i: usize| {
        let mut bytes = [0; 8];
        table.read_exact_at(&mut bytes, i as u64 * 8).ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    let mut text = "\n   ".to_owned();
    for (name, at) in WORDS {
        text.push_str(&format!(" {name} {:#x},", word(at)?));
    }
    let queued = usize::try_from(word(ctl::QUEUE_LEN)?).ok()?;
    for event in 0..queued.min(EVENTS_SHOWN) {
        let at = |i| word(keeper::layout::QUEUE_OFF / 8 + event * 4 + i);
        let (a, b, c, d) = (at(0)?, at(1)?, at(2)?, at(3)?);
        text.push_str(&format!("\n      event {a:#x} {b:#x} {c:#x} {d:#x}"));
    }
    Some(text)
}
