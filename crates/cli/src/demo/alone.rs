//! The first run: nobody manages it; its peak is measured from outside, by the kernel's figures.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pager::options::Bytes;

use super::outcome::{Outcome, ResultFile};
use super::{command, failed};
use crate::failure::Failure;

/// What was learnt.
pub(super) struct Alone {
    /// What the workload said.
    pub(super) outcome: Outcome,
    /// Highest anonymous resident size.
    pub(super) peak: Bytes,
}

/// Time between two looks. The workload keeps its memory to the end, so the peak is not missed.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the workload for `seconds`; `tick` gets its resident size and the milliseconds passed.
pub(super) fn run(seconds: u32, tick: &mut dyn FnMut(Bytes, u64)) -> Result<Alone, Failure> {
    let file = ResultFile::new()?;
    let argv = command(&file, ["--seconds".to_owned(), seconds.to_string()])?;
    let (program, args) = argv.split_first().ok_or_else(|| failed(0))?;
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .spawn();
    let child = child.map_err(|error| {
        Failure::new(
            format!("cannot start the workload: {error}"),
            "is the machine out of memory?",
        )
    })?;
    let mut child = Guard(child);
    let begin = Instant::now();
    let mut peak = Bytes(0);
    let status = loop {
        let ended = child.0.try_wait().map_err(|error| {
            Failure::new(
                format!("cannot wait for the workload: {error}"),
                "try again",
            )
        })?;
        if let Some(status) = ended {
            break status;
        }
        let resident = resident(child.0.id());
        peak = peak.max(resident);
        tick(
            resident,
            u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
        std::thread::sleep(LOOK);
    };
    if !status.success() {
        return Err(failed(status.code().unwrap_or(-1)));
    }
    Ok(Alone {
        outcome: file.read()?,
        peak,
    })
}

/// Ends the workload if we fail before it has ended.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Fails if it was waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// RssAnon of `/proc/PID/status` (proc_pid_status(5)); 0 once it has ended.
fn resident(pid: u32) -> Bytes {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    Bytes(kib.unwrap_or(0) << 10)
}
