//! What this host and this user allow for reading ages and for paging, and how to get the rest.
//!
//! Invariant: everything that can be tried is tried, on this process only; the kernel's version
//! decides nothing. Nothing is changed except the accessed bits of this process. Each module
//! gathers the facts on one topic and judges them by a pure function. A finding that is not `Ok`
//! has a remedy, or says that there is none.

mod forks;
mod groups;
mod kernel;
mod memory;
mod others;
mod restrictions;
mod rights;
mod source;

use std::path::Path;

use serde::Serialize;

use crate::report::AgeSource;
use crate::system::Proc;
use crate::system::process::Stat;

/// How well something works.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The examined feature works without restriction.
    Ok,
    /// The feature works with a restriction, which the finding names.
    Limited,
    /// The feature does not work.
    Missing,
}

/// Result of one examination.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was examined.
    pub topic: &'static str,
    /// How well it works.
    pub state: State,
    /// What was found on this host, and what that means for pagetide.
    pub detail: String,
    /// What to type, or which right to ask an administrator for; `None` if nothing can be improved.
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

/// All findings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examined {
    /// Findings on reading ages, in the order in which people should read them.
    pub reading: Vec<Finding>,
    /// Findings on paging out, and on limits.
    pub paging: Vec<Finding>,
    /// The best source of ages that works here.
    pub source: AgeSource,
}

/// Examines this host and this user. Takes less than 0.5 s, of which at most 0.2 s are spent
/// waiting for the kernel to report a process event.
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
    reading.extend(
        restrictions::Restrictions::gather(&mountinfo).judge(rights.has(rights::SYS_PTRACE)),
    );
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

/// Returns all processes that are visible to us, including kernel threads.
fn processes(proc: &Proc) -> Vec<Stat> {
    let pids = proc.pids().unwrap_or_default();
    pids.into_iter()
        .filter_map(|pid| proc.stat(pid).ok().flatten())
        .collect()
}

/// Returns the text of a file that has one line; `None` if it cannot be read.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Returns the word in brackets: `always [madvise] never` -> `madvise`.
fn chosen(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn this_host_is_examined_quickly_and_every_finding_has_a_remedy() {
        let begin = Instant::now();
        let examined = examine();
        // Twice the documented 0.5 s: test builds are slow, and other tests run on the machine.
        assert!(begin.elapsed() < Duration::from_secs(1), "{begin:?}");
        assert!(examined.reading.len() > 6, "{examined:?}");
        let paging: Vec<&str> = examined
            .paging
            .iter()
            .map(|finding| finding.topic)
            .collect();
        let always = [
            "swap",
            "right to act",
            "control groups",
            "memory given back",
            "locked memory",
        ];
        assert_eq!(paging[..always.len()], always);
        // Only on a host with zswap.
        assert!(
            matches!(paging[always.len()..], [] | ["zswap"]),
            "{paging:?}"
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
