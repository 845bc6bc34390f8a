//! Who else sets accessed bits back on this host: what they clear first is not seen by us.
//!
//! Invariant: found by names of threads and by settings; nothing of theirs is opened.

use crate::system::Proc;
use crate::system::process::Stat;
use crate::system::text::printable;

use super::{Finding, line};

/// What was found.
#[derive(Default)]
pub(super) struct Others {
    /// DAMON's threads.
    damon: Vec<u32>,
    /// Other pagetides that read ages.
    pagetides: Vec<u32>,
    /// Whether kernel threads are shown at all.
    sees_kernel: bool,
    /// The multi-gen LRU is on.
    multi_gen: bool,
    /// `kernel.numa_balancing` is on.
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
                "DAMON does (kdamond, pid {}): mostly made up for by the kernel's own marks, but some \
                 pages may be younger than they look",
                list(&self.damon)
            ));
            remedies.push("stop it while ages are read (/sys/kernel/mm/damon, or damo stop)");
        }
        if !self.pagetides.is_empty() {
            bad.push(format!(
                "another pagetide does (pid {}): pages of processes that both watch may be much younger \
                 than they look",
                list(&self.pagetides)
            ));
            remedies.push("let one watch at a time");
        }
        let known = self.known();
        if bad.is_empty() {
            let nobody = match self.sees_kernel {
                true => "nobody is seen to",
                false => "nobody that is seen; the kernel's threads (DAMON) are hidden from us",
            };
            return Finding::ok(topic, format!("{nobody}{known}"));
        }
        Finding::limited(topic, bad.join("; ") + &known, remedies.join("; "))
    }

    /// What every host does, more or less.
    fn known(&self) -> String {
        let mut text = match self.multi_gen {
            true => "; under memory pressure the multi-gen LRU does, of all it walks",
            false => "; under memory pressure reclaim does, of pages it looks at",
        }
        .to_owned();
        if self.numa {
            text += "; NUMA balancing is on, and leaves the bits as they are";
        }
        text
    }
}

/// `0x0007`, or `y` and `n` in the first kernels that had it.
fn is_on(text: &str) -> bool {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).is_ok_and(|bits| bits & 1 == 1),
        None => text == "y" || text == "1",
    }
}

/// Its first two words.
fn command(pid: u32) -> [String; 2] {
    let bytes = Proc::system().and_then(|proc| proc.words(pid));
    // A process whose memory is locked has none.
    let bytes = bytes.unwrap_or_default();
    let mut words = bytes.split(|&byte| byte == 0).map(printable);
    [(); 2].map(|()| words.next().unwrap_or_default())
}

/// Whether a pagetide was started to look at accessed bits.
fn reads_ages([_, verb]: &[String; 2]) -> bool {
    matches!(verb.as_str(), "report" | "top")
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn those_who_run_are_named() {
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
    fn what_is_hidden_is_not_said_to_be_absent() {
        let finding = Others::default().judge();
        assert!(finding.detail.contains("hidden from us"), "{finding:?}");
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
    fn a_pagetide_that_does_not_look_is_no_matter() {
        let words = |verb: &str| ["pagetide".to_owned(), verb.to_owned()];
        assert!(reads_ages(&words("top")) && reads_ages(&words("report")));
        assert!(!reads_ages(&words("doctor")) && !reads_ages(&words("")));
    }
}
