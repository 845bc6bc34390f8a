//! Host settings that restrict even processes with capabilities: lockdown, the BPF switch,
//! `hidepid`.
//!
//! Invariant: the settings are reported only to explain failures. Whether page tables can be read
//! is tried by `doctor/source.rs`.

use crate::system::mountinfo;

use super::{Finding, chosen, line};

/// The restricting settings as found on this host.
pub(super) struct Restrictions {
    /// The word in brackets in `/sys/kernel/security/lockdown`; `None` if the file does not exist.
    lockdown: Option<String>,
    /// Value of `kernel.unprivileged_bpf_disabled`; `None` if it cannot be read.
    unprivileged_bpf: Option<String>,
    /// `hidepid` of the mount at `/proc`; `None` if that mount hides no process.
    hidepid: Option<String>,
}

impl Restrictions {
    pub(super) fn gather(mountinfo: &[u8]) -> Restrictions {
        Restrictions {
            lockdown: line("/sys/kernel/security/lockdown")
                .and_then(|words| chosen(&words).map(str::to_owned)),
            unprivileged_bpf: line("/proc/sys/kernel/unprivileged_bpf_disabled"),
            hidepid: hidepid(mountinfo),
        }
    }

    /// Judges the settings. `sees_all`: whether we have `CAP_SYS_PTRACE`, so that `hidepid` hides
    /// nothing from us.
    pub(super) fn judge(&self, sees_all: bool) -> Vec<Finding> {
        vec![
            self.judge_lockdown(),
            self.judge_bpf(),
            self.judge_hidden(sees_all),
        ]
    }

    fn judge_lockdown(&self) -> Finding {
        let topic = "lockdown";
        match self.lockdown.as_deref() {
            None => Finding::ok(topic, "none reported (/sys/kernel/security/lockdown)"),
            Some("confidentiality") => Finding::limited(
                topic,
                "confidentiality: no BPF program may read the kernel's memory, not even for root",
                "boot with lockdown=integrity, or without",
            ),
            Some(other) => Finding::ok(topic, format!("{other}: does not restrict pagetide")),
        }
    }

    fn judge_bpf(&self) -> Finding {
        let topic = "BPF for all users";
        match self.unprivileged_bpf.as_deref() {
            None => Finding::limited(
                topic,
                "kernel.unprivileged_bpf_disabled is not there: the kernel may have no bpf()",
                "boot a kernel with CONFIG_BPF_SYSCALL",
            ),
            // BPF programs of our type need CAP_BPF, also if unprivileged BPF is enabled.
            Some(value) => Finding::ok(
                topic,
                format!("kernel.unprivileged_bpf_disabled={value}: CAP_BPF is needed in any case"),
            ),
        }
    }

    fn judge_hidden(&self, sees_all: bool) -> Finding {
        let topic = "hidepid";
        match self.hidepid.as_deref() {
            None => Finding::ok(topic, "/proc shows all processes"),
            Some(value) if sees_all => Finding::ok(
                topic,
                format!("hidepid={value}, and CAP_SYS_PTRACE is held"),
            ),
            Some(value) => Finding::limited(
                topic,
                format!("hidepid={value}: other users' processes are not seen"),
                "run as root, or with CAP_SYS_PTRACE, or: mount -o remount,hidepid=0 /proc",
            ),
        }
    }
}

/// Returns the `hidepid` option of the topmost mount at `/proc`; `None` if it is the default.
fn hidepid(mountinfo: &[u8]) -> Option<String> {
    let mounts = mountinfo::parse(mountinfo);
    let mount = mounts.iter().rev().find(|mount| mount.point == b"/proc")?;
    let options = String::from_utf8_lossy(&mount.super_options).into_owned();
    let value = options
        .split(',')
        .find_map(|option| option.strip_prefix("hidepid="))?;
    (!matches!(value, "0" | "off")).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn restrictions(lockdown: Option<&str>, hidepid: Option<&str>) -> Restrictions {
        Restrictions {
            lockdown: lockdown.map(str::to_owned),
            unprivileged_bpf: Some("2".to_owned()),
            hidepid: hidepid.map(str::to_owned),
        }
    }

    #[test]
    fn only_confidentiality_matters() {
        for (word, state) in [
            (None, State::Ok),
            (Some("none"), State::Ok),
            (Some("integrity"), State::Ok),
            (Some("confidentiality"), State::Limited),
        ] {
            assert_eq!(
                restrictions(word, None).judge(false)[0].state,
                state,
                "{word:?}"
            );
        }
    }

    #[test]
    fn nothing_is_hidden_from_a_holder_of_cap_sys_ptrace() {
        let of = |sees_all| restrictions(None, Some("2")).judge(sees_all)[2].state;
        assert_eq!((of(true), of(false)), (State::Ok, State::Limited));
    }

    #[test]
    fn the_mount_on_top_counts() {
        let text = b"1 2 0:5 / /proc rw - proc proc rw,hidepid=invisible\n";
        assert_eq!(hidepid(text), Some("invisible".to_owned()));
        let over = [&text[..], b"3 1 0:6 / /proc rw - proc proc rw\n"].concat();
        assert_eq!(hidepid(&over), None);
        assert_eq!(
            hidepid(b"1 2 0:5 / /proc rw - proc proc rw,hidepid=0\n"),
            None
        );
    }
}
