//! Finds those of the kernel's page-table walks before which the walked program had not run since
//! the previous walk.
//!
//! The kernel skips the page tables of a program that has not run since the last walk. Only the
//! kernel's tracer shows in which order walks and context switches happen: two walks may happen
//! within one page fault.
//!
//! Invariant: tracing is off between two runs.

use std::path::{Path, PathBuf};

use crate::groups::{read, write};

const TRACING: &str = "/sys/kernel/tracing";
/// Probe of the kernel function that begins a walk. Each walk reads all page tables of a group, to
/// create a generation.
const PROBE: &str = "p:pagetide/walk try_to_inc_max_seq";
/// Size of the trace buffer in KiB: enough for the longest run.
const ROOM: &str = "16384";

/// A trace that is being recorded.
pub(crate) struct Trace;

/// Path of a file of the kernel's tracer.
fn path(name: &str) -> PathBuf {
    Path::new(TRACING).join(name)
}

impl Trace {
    /// Starts a trace of walks, and of the moments at which process `pid` gets the processor.
    pub(crate) fn start(pid: u32) -> Result<Trace, String> {
        let on = format!("next_pid=={pid}");
        for (name, text) in [
            ("tracing_on", "0"),
            ("events/enable", "0"),
            ("buffer_size_kb", ROOM),
            ("kprobe_events", PROBE),
            ("trace", ""),
            ("events/sched/sched_switch/filter", &on),
            ("events/sched/sched_switch/enable", "1"),
            ("events/pagetide/walk/enable", "1"),
            ("tracing_on", "1"),
        ] {
            write(&path(name), text)?;
        }
        Ok(Trace)
    }

    /// Ends the trace. Returns the numbers of those walks (the first walk is number 1) before which
    /// the program had not run since the previous walk.
    pub(crate) fn finish(self) -> Result<Vec<u64>, String> {
        write(&path("tracing_on"), "0")?;
        write(&path("events/enable"), "0")?;
        let text = read(&path("trace"))?;
        rested(&text).ok_or_else(|| "the trace is not whole".to_owned())
    }
}

/// Finds the walks that [`Trace::finish`] returns in the text of a trace; `None` if events were
/// lost.
fn rested(text: &str) -> Option<Vec<u64>> {
    let head = text.lines().find(|line| line.contains("entries-written"));
    let numbers = head?.split(':').nth(1)?.split_whitespace().next()?;
    let (kept, written) = numbers.split_once('/')?;
    if kept != written {
        return None;
    }
    let (mut has_run, mut walks, mut rested) = (true, 0, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.contains(": walk: ") {
            walks += 1;
            if !std::mem::take(&mut has_run) {
                rested.push(walks);
            }
        } else {
            has_run |= line.contains(": sched_switch: ");
        }
    }
    Some(rested)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_without_a_context_switch_before_them_are_found() {
        let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 5/5   #P:1\n";
        let walk = "  touches-91  [000] ...1.  7.1: walk: (try_to_inc_max_seq+0x0/0x570)\n";
        let switch =
            "  kworker/0:1-9  [000] d..2.  7.2: sched_switch: prev_comm=x ==> next_pid=91\n";
        let text = [head, walk, walk, switch, walk, walk].concat();
        assert_eq!(rested(&text), Some(vec![2, 4]));
        assert_eq!(rested(&text.replace("5/5", "5/6")), None);
        assert_eq!(rested(walk), None);
    }
}
