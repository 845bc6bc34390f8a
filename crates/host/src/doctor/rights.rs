//! Which capabilities we have, and what does not work without a missing one.
//!
//! Invariant: only the effective set counts. What fails without a capability was found by trying
//! (probes, "Rights"). The kernel checks some capabilities in the initial user namespace, where a
//! capability of another namespace does not count.

use super::Finding;
use crate::system::rights::{effective, other_user_namespace};

/// Members: the capability's number as in linux/capability.h, and its name (capabilities(7)).
const DAC_OVERRIDE: Capability = Capability(1, "CAP_DAC_OVERRIDE");
const DAC_READ_SEARCH: Capability = Capability(2, "CAP_DAC_READ_SEARCH");
const NET_ADMIN: Capability = Capability(12, "CAP_NET_ADMIN");
const IPC_LOCK: Capability = Capability(14, "CAP_IPC_LOCK");
/// The right to inspect other users' processes.
pub(super) const SYS_PTRACE: Capability = Capability(19, "CAP_SYS_PTRACE");
const SYS_ADMIN: Capability = Capability(21, "CAP_SYS_ADMIN");
const SYS_NICE: Capability = Capability(23, "CAP_SYS_NICE");
const PERFMON: Capability = Capability(38, "CAP_PERFMON");
const BPF: Capability = Capability(39, "CAP_BPF");

/// A capability: its number in the kernel, and its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Capability(u32, &'static str);

/// The capabilities that one topic of the doctor needs.
struct Need {
    topic: &'static str,
    /// The needed capabilities, each with a text on what does not work without it.
    of: &'static [(Capability, &'static str)],
}

const EVENTS: &str = "right to events";

/// Capabilities for reading ages. Those for paging out are in [`ACTING`].
const NEEDS: [Need; 3] = [
    Need {
        topic: "right to page tables",
        of: &[
            (BPF, "no BPF program is loaded"),
            (PERFMON, "a BPF program may not read the kernel's memory"),
        ],
    },
    Need {
        topic: "right to others",
        of: &[
            (DAC_READ_SEARCH, "other users' pagemap may not be read"),
            (SYS_PTRACE, "other users' maps and sizes may not be read"),
            (
                DAC_OVERRIDE,
                "other users' bits may not be cleared: no ages",
            ),
        ],
    },
    Need {
        topic: EVENTS,
        of: &[(NET_ADMIN, "the kernel does not report forks and exits")],
    },
];

/// Capabilities for paging out. Without the first of the list, no page can be paged out.
const ACTING: Need = Need {
    topic: "right to act",
    of: &[
        (SYS_NICE, "no process's memory may be paged out"),
        (
            IPC_LOCK,
            "pagetide's own memory is locked only up to the limit",
        ),
    ],
};

/// Remedy: file capabilities with which ordinary users may manage their own processes. The right to
/// switch swap on is not included, as every user would have it.
const OF_FILE: &str = "run as root, or, to let users manage their own processes: setcap cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock+ep \"$(command -v pagetide)\"";

/// Our rights as found on this host.
pub(super) struct Rights {
    /// The effective set of capabilities, one bit each.
    effective: u64,
    user: u32,
    /// Text of `/proc/self/uid_map`; `None` in the initial user namespace.
    namespace: Option<String>,
}

impl Rights {
    pub(super) fn gather() -> Rights {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Rights {
            effective: effective(&status),
            user: rustix::process::geteuid().as_raw(),
            namespace: other_user_namespace(),
        }
    }

    pub(super) fn has(&self, capability: Capability) -> bool {
        self.effective >> capability.0 & 1 == 1
    }

    /// Judges the rights that reading ages needs. `has_events`: whether process events could be
    /// received. Since Linux 6.6 that needs no capability.
    pub(super) fn judge(&self, has_events: bool) -> Vec<Finding> {
        let matters = |need: &&Need| !(has_events && need.topic == EVENTS);
        let lacks = NEEDS.iter().filter(matters);
        let mut findings: Vec<Finding> = lacks.filter_map(|need| self.lack(need)).collect();
        if findings.is_empty() {
            let where_to = match self.namespace {
                None => "all that pagetide needs are held",
                Some(_) => "all that pagetide needs are held, but only in its own user namespace",
            };
            findings.push(Finding::ok("capabilities", where_to));
        }
        findings.push(match &self.namespace {
            None => Finding::ok("user namespace", "the initial one"),
            Some(map) => Finding::limited(
                "user namespace",
                format!("not the initial one (uid_map: {map}): its capabilities do not reach page tables"),
                "run outside of it: not under `unshare -U`, nor in a rootless container",
            ),
        });
        findings
    }

    /// Judges the rights that paging out needs.
    pub(super) fn judge_acting(&self) -> Finding {
        let Some(lack) = self.lack(&ACTING) else {
            return match self.has(SYS_ADMIN) {
                true => Finding::ok(
                    ACTING.topic,
                    "CAP_SYS_NICE is held: memory may be paged out; swap may be switched on",
                ),
                false => Finding::limited(
                    ACTING.topic,
                    "memory may be paged out; swap may not be switched on",
                    "sudo pagetide swap on",
                ),
            };
        };
        let state = match self.has(SYS_NICE) {
            true => lack.state,
            false => super::State::Missing,
        };
        Finding {
            state,
            remedy: Some(OF_FILE.to_owned()),
            ..lack
        }
    }

    /// Returns a finding if a capability of `need` is missing; else `None`.
    fn lack(&self, need: &Need) -> Option<Finding> {
        // The kernel accepts CAP_SYS_ADMIN for two of them as well, and CAP_DAC_OVERRIDE includes
        // the right to read.
        let by_another = |capability| match capability {
            BPF | PERFMON => self.has(SYS_ADMIN),
            DAC_READ_SEARCH => self.has(DAC_OVERRIDE),
            _ => false,
        };
        let lacking: Vec<_> = need
            .of
            .iter()
            .filter(|(capability, _)| !self.has(*capability) && !by_another(*capability))
            .collect();
        if lacking.is_empty() {
            return None;
        }
        let detail: Vec<_> = lacking
            .iter()
            .map(|(Capability(_, name), means)| format!("no {name}: {means}"))
            .collect();
        let names: Vec<_> = lacking
            .iter()
            .map(|(Capability(_, name), _)| *name)
            .collect();
        Some(Finding::limited(
            need.topic,
            format!("user {}: {}", self.user, detail.join("; ")),
            format!("run as root, or with {}", names.join(", ")),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn rights(without: &[Capability]) -> Rights {
        let none = without
            .iter()
            .fold(0, |bits, capability| bits | 1 << capability.0);
        Rights {
            effective: !none,
            user: 7,
            namespace: None,
        }
    }

    #[test]
    fn missing_capabilities_are_named_with_their_consequences() {
        let findings = rights(&[BPF, SYS_ADMIN]).judge(true);
        assert_eq!(findings[0].topic, "right to page tables");
        assert!(findings[0].detail.contains("CAP_BPF: no BPF program"));
        assert!(!findings[0].detail.contains("PERFMON"), "{findings:?}");
        let remedy = findings[0].remedy.as_deref().unwrap_or_default();
        assert!(remedy.ends_with("with CAP_BPF"), "{remedy}");
    }

    #[test]
    fn nothing_is_paged_out_without_the_right_to() {
        let of = |without: &[Capability]| rights(without).judge_acting().state;
        use super::super::State;
        assert_eq!(of(&[]), State::Ok);
        assert_eq!(of(&[SYS_ADMIN]), State::Limited);
        assert_eq!(of(&[SYS_NICE]), State::Missing);
    }

    #[test]
    fn capabilities_that_are_not_needed_are_not_reported() {
        let rights = rights(&[NET_ADMIN]);
        assert_eq!(rights.judge(true)[0].topic, "capabilities");
        assert_eq!(rights.judge(false)[0].topic, EVENTS);
    }

    #[test]
    fn cap_sys_admin_suffices_to_load_programs() {
        let findings = rights(&[BPF, PERFMON]).judge(true);
        assert!(
            findings.iter().all(|finding| finding.state == State::Ok),
            "{findings:?}"
        );
        assert_eq!(findings[0].topic, "capabilities");
    }

    #[test]
    fn cap_dac_override_includes_the_right_to_read() {
        let findings = rights(&[DAC_READ_SEARCH]).judge(true);
        assert_eq!(findings[0].topic, "capabilities");
        let findings = rights(&[DAC_READ_SEARCH, DAC_OVERRIDE]).judge(true);
        assert!(
            findings[0].detail.contains("CAP_DAC_READ_SEARCH"),
            "{findings:?}"
        );
    }
}
