//! Foreign clearers on this host. They clear accessed bits before we read them, so we miss
//! accesses.
//!
//! Invariant: they are found by names of threads and by settings; none of their files is opened.

use crate::system::Proc;
use crate::system::process::Stat;
use crate::system::text::printable;

use super::{Finding, line};

/// Foreign clearers as found on this host.
#[derive(Default)]
pub(super) struct Others {
    /// PIDs of DAMON's kernel threads.
    damon: Vec<u32>,
    /// PIDs of other processes of pagetide that read ages.
    pagetides: Vec<u32>,
    /// Whether we can see kernel threads; if not, DAMON's are not found.
    sees_kernel: bool,
    /// Whether the multi-gen LRU is on.
    multi_gen: bool,
    /// Whether `kernel.numa_balancing` is on.
    numa: bool,
}

impl Others {
    pub(super) fn gather(all: &[Stat]) -> Others {
        let pids = |is: &dyn Fn(&Stat) -> bool| -> Vec<u32> {
            all.iter()
                .filter(|stat| is(stat))
                .map(|stat| stat.pid)
                .collect()
        };
        let us = std::process::id();
        Others {
            damon: pids(&|stat| stat.is_kernel() && stat.comm.starts_with("kdamond.")),
            pagetides: pids(&|stat| {
                stat.pid != us && stat.comm == "pagetide" && reads_ages(&command(stat.pid))
            }),
            sees_kernel: all.iter().any(|stat| stat.comm == "kthreadd"),
            multi_gen: line("/sys/kernel/mm/lru_gen/enabled").is_some_and(|text| is_on(&text)),
            numa: line("/proc/sys/kernel/numa_balancing").is_some_and(|text| text != "0"),
        }
    }

    pub(super) fn judge(&self) -> Finding {
        let topic = "who else clears";
        let list = |pids: &[u32]| {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            pids.join(", ")
        };
        let mut bad = Vec::new();
        let mut remedies = Vec::new();
        if !self.damon.is_empty() {
            bad.push(format!(
                "DAMON does (kdamond, pid {}): the kernel's own marks mostly make up for it, but \
                 some pages may be younger than reported",
                list(&self.damon)
            ));
            remedies.push("stop it while ages are read (/sys/kernel/mm/damon, or damo stop)");
        }
        if !self.pagetides.is_empty() {
            bad.push(format!(
                "another pagetide does (pid {}): pages of processes that both watch may be much \
                 younger than reported",
                list(&self.pagetides)
            ));
            remedies.push("run only one at a time");
        }
        let known = self.known();
        if bad.is_empty() {
            let nobody = match self.sees_kernel {
                true => "no other program found",
                false => {
                    "no other program found; the kernel's threads (DAMON) are hidden from pagetide"
                }
            };
            return Finding::ok(topic, format!("{nobody}{known}"));
        }
        Finding::limited(topic, bad.join("; ") + &known, remedies.join("; "))
    }

    /// Returns text on the kernel's own mechanisms that may clear accessed bits on this host.
    fn known(&self) -> String {
        let mut text = match self.multi_gen {
            true => {
                "; under memory pressure the multi-gen LRU does, in all page tables that it walks"
            }
            false => {
                "; under memory pressure the kernel's reclaim does, of the pages that it checks"
            }
        }
        .to_owned();
        if self.numa {
            text += "; NUMA balancing is on, but does not change accessed bits";
        }
        text
    }
}

/// Parses `lru_gen/enabled`: `0x0007`, or `y` or `n` in the first kernels that had the file.
fn is_on(text: &str) -> bool {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).is_ok_and(|bits| bits & 1 == 1),
        None => text == "y" || text == "1",
    }
}

/// Returns the first two words of a process's command line.
fn command(pid: u32) -> [String; 2] {
    let bytes = Proc::system().and_then(|proc| proc.words(pid));
    // The command line of a process cannot be read while its mmap_lock is held.
    let bytes = bytes.unwrap_or_default();
    let mut words = bytes.split(|&byte| byte == 0).map(printable);
    [(); 2].map(|()| words.next().unwrap_or_default())
}

/// Returns whether the command line `[program, verb]` of a pagetide is one that reads accessed
/// bits.
fn reads_ages([_, verb]: &[String; 2]) -> bool {
    matches!(verb.as_str(), "report" | "top")
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn running_clearers_are_named() {
        let mut others = Others {
            sees_kernel: true,
            ..Others::default()
        };
        assert_eq!(others.judge().state, State::Ok);
        others.damon = vec![7, 9];
        let finding = others.judge();
        assert_eq!(finding.state, State::Limited);
        assert!(finding.detail.contains("kdamond, pid 7, 9"), "{finding:?}");
        others.pagetides = vec![11];
        assert!(others.judge().detail.contains("pid 11"));
    }

    #[test]
    fn hidden_kernel_threads_are_not_reported_as_absent() {
        let finding = Others::default().judge();
        assert!(
            finding.detail.contains("hidden from pagetide"),
            "{finding:?}"
        );
    }

    #[test]
    fn the_multi_gen_switch_is_a_mask() {
        for (text, on) in [
            ("0x0007", true),
            ("0x0000", false),
            ("0x0002", false),
            ("y", true),
            ("", false),
        ] {
            assert_eq!(is_on(text), on, "{text}");
        }
    }

    #[test]
    fn a_pagetide_that_reads_no_ages_is_ignored() {
        let words = |verb: &str| ["pagetide".to_owned(), verb.to_owned()];
        assert!(reads_ages(&words("top")) && reads_ages(&words("report")));
        assert!(!reads_ages(&words("doctor")) && !reads_ages(&words("")));
    }
}
