//! What this host and this user allow for reading ages and for paging, and how to get the rest.
//!
//! Invariant: what can be tried is tried, on ourselves alone; versions decide nothing. Nothing is changed
//! but our own accessed bits. Each module gathers the facts of one matter and judges them by a pure
//! function; whatever is not as it should be carries a remedy, or says that there is none.

mod forks;
mod groups;
mod kernel;
mod memory;
mod others;
mod rights;
mod source;
mod walls;

use std::path::Path;

use serde::Serialize;

use crate::report::AgeSource;
use crate::system::Proc;
use crate::system::process::Stat;

/// How well a thing is there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, with less.
    Limited,
    /// It does not work.
    Missing,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub topic: &'static str,
    /// How it is.
    pub state: State,
    /// What was found, and what that means.
    pub detail: String,
    /// What to type or to ask for, unless all is well.
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(topic: &'static str, detail: impl Into<String>) -> Finding {
        Finding {
            topic,
            state: State::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn limited(
        topic: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            state: State::Limited,
            remedy: Some(remedy.into()),
            ..Finding::ok(topic, detail)
        }
    }

    fn missing(
        topic: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            state: State::Missing,
            ..Finding::limited(topic, detail, remedy)
        }
    }
}

/// All that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examined {
    /// For reading ages, in the order in which people should read them.
    pub reading: Vec<Finding>,
    /// For paging out, and for limits.
    pub paging: Vec<Finding>,
    /// The best source of ages that works here.
    pub source: AgeSource,
}

/// Looks at everything. Takes well under half a second: the longest is the 0.2 s that the kernel
/// may keep silent when it is asked for events.
#[must_use]
pub fn examine() -> Examined {
    crate::watch::own::stay_readable();
    let proc = Proc::system().ok();
    let mountinfo = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let all = proc.as_ref().map(processes).unwrap_or_default();
    let found = source::Found::gather();
    let rights = rights::Rights::gather();
    let events = crate::system::Events::open().map(drop);
    let memory = memory::Memory::gather(proc.as_ref());
    let mut reading = found.judge();
    reading.extend(rights.judge(events.is_ok()));
    reading.extend(walls::Walls::gather(&mountinfo).judge(rights.has(rights::SYS_PTRACE)));
    reading.push(others::Others::gather(&all).judge());
    reading.push(forks::judge(&events));
    reading.push(memory.judge_pressure());
    reading.extend(kernel::Kernel::gather().judge());
    let mut paging = memory.judge();
    paging.insert(1, rights.judge_acting());
    paging.insert(2, groups::Access::gather(proc.as_ref()).judge());
    Examined {
        reading,
        paging,
        source: found.source,
    }
}

/// All processes that we are shown, kernel threads among them.
fn processes(proc: &Proc) -> Vec<Stat> {
    let pids = proc.pids().unwrap_or_default();
    pids.into_iter()
        .filter_map(|pid| proc.stat(pid).ok().flatten())
        .collect()
}

/// A file of one line, as the kernel has many.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// `always [madvise] never` -> `madvise`.
fn chosen(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn this_host_is_examined_quickly_and_every_lack_has_a_remedy() {
        let begin = Instant::now();
        let examined = examine();
        // Twice what is promised: these builds are slow, and others use this machine.
        assert!(begin.elapsed() < Duration::from_secs(1), "{begin:?}");
        assert!(examined.reading.len() > 6, "{examined:?}");
        let paging: Vec<&str> = examined
            .paging
            .iter()
            .map(|finding| finding.topic)
            .collect();
        assert_eq!(
            paging,
            [
                "swap",
                "right to act",
                "control groups",
                "memory given back",
                "locked memory"
            ]
        );
        for finding in examined.reading.iter().chain(&examined.paging) {
            let is_ok = finding.state == State::Ok;
            assert_eq!(finding.remedy.is_none(), is_ok, "{finding:?}");
            assert!(!finding.detail.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn the_chosen_word() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("always"), None);
        assert_eq!(chosen("a [b"), None);
    }
}
