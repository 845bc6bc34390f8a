//! What /proc says about a process, as numbers.

use super::inject::threads;
use keeper::layout::KEEPER_COMM;
use std::fs;

/// Anonymous resident bytes by the kernel's count; `None` once it is gone.
pub(crate) fn anon_bytes(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Processor time of a process, milliseconds.
pub(crate) fn cpu_ms(pid: i32) -> u64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return 0;
    };
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // After the name: state is field 3; utime and stime are 14 and 15, in ticks of 10 ms.
    let ticks = |i: usize| {
        fields
            .split_whitespace()
            .nth(i - 3)
            .and_then(|f| f.parse::<u64>().ok())
    };
    (ticks(14).unwrap_or(0) + ticks(15).unwrap_or(0)) * 10
}

/// Addresses inside the control blocks of all threads (see `uffd::process::robust_list`).
pub(crate) fn control_blocks(pid: i32) -> Vec<u64> {
    threads(pid)
        .into_iter()
        .filter_map(|t| uffd::process::robust_list(t).ok().flatten())
        .collect()
}

/// Live children of any thread of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let mut out = Vec::new();
    for tid in threads(pid) {
        let path = format!("/proc/{pid}/task/{tid}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        out.extend(
            text.split_whitespace()
                .filter_map(|p| p.parse::<i32>().ok()),
        );
    }
    out
}

/// Whether it is a keeper of ours.
pub(crate) fn is_keeper(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|c| c.trim().as_bytes() == KEEPER_COMM.to_bytes())
}
