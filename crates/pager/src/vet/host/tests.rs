//! Hosts that are not here, made of facts.

use super::facts::{Errno, chosen};
use super::*;
use crate::manage::Kernel;

/// A probe whose every answer is the same.
struct Fake(Option<i32>);

impl Fake {
    fn answer<T>(&self, good: T) -> io::Result<T> {
        match self.0 {
            None => Ok(good),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Probe for Fake {
    fn userfaultfd_features(&self) -> io::Result<u64> {
        self.answer(u64::MAX)
    }
    fn event_fork(&self) -> io::Result<()> {
        self.answer(())
    }
    fn move_page(&self) -> io::Result<()> {
        self.answer(())
    }
    fn pagemap_scan(&self) -> io::Result<()> {
        self.answer(())
    }
    fn kcmp(&self) -> io::Result<()> {
        self.answer(())
    }
}

fn good() -> Facts {
    Facts {
        release: "6.8.0-31-generic".to_owned(),
        uid: 0,
        cap_sys_ptrace: true,
        cap_sys_admin: true,
        cap_ipc_lock: true,
        userfaultfd: Ok(u64::MAX),
        event_fork: Ok(()),
        move_page: Ok(()),
        pagemap_scan: Ok(()),
        kcmp: Ok(()),
        memfd: Ok(()),
        unprivileged_userfaultfd: Some(0),
        device: Device::Opens,
        yama: Some(1),
        memlock: None,
        nofile: Some(1 << 20),
        overcommit: Some(0),
        thp: Some("madvise".to_owned()),
        swaps: 0,
    }
}

/// The findings that are not ok.
fn complaints(facts: &Facts) -> Vec<(&'static str, State)> {
    let findings = judge(facts);
    for finding in &findings {
        let well = finding.state == State::Ok;
        assert_eq!(finding.remedy.is_none(), well, "{finding:?}");
        assert!(!finding.detail.is_empty(), "{finding:?}");
    }
    let not_ok = findings.into_iter().filter(|f| f.state != State::Ok);
    not_ok.map(|f| (f.topic, f.state)).collect()
}

#[test]
fn a_good_host_has_no_complaints() {
    assert!(complaints(&good()).is_empty());
    assert!(ready(&judge(&good())));
}

#[test]
fn versions_are_compared_as_numbers() {
    for (release, fine) in [
        ("6.18.44-x", true),
        ("6.8.0", true),
        ("6.8-rc1", true),
        ("7.0", true),
        ("6.7.12-amd64", false),
        ("5.19.0", false),
        ("", false),
        ("weird", false),
    ] {
        let facts = Facts {
            release: release.to_owned(),
            ..good()
        };
        assert_eq!(complaints(&facts).is_empty(), fine, "{release}");
    }
}

#[test]
fn an_ordinary_user_learns_what_to_ask_for() {
    let denied = || Errno {
        number: Some(1),
        text: "Operation not permitted".to_owned(),
    };
    let facts = Facts {
        uid: 1000,
        cap_sys_ptrace: false,
        cap_sys_admin: false,
        cap_ipc_lock: false,
        userfaultfd: Err(denied()),
        event_fork: Err(denied()),
        move_page: Err(denied()),
        device: Device::Denied,
        memlock: Some(64 << 10),
        nofile: Some(1024),
        ..good()
    };
    let missing = State::Missing;
    assert_eq!(
        complaints(&facts),
        [
            ("userfaultfd", missing),
            ("userfaultfd features", missing),
            ("UFFDIO_MOVE", missing),
            ("fork events", missing),
            ("CAP_SYS_PTRACE", missing),
            ("ptrace scope", State::Limited),
            ("seccomp filters", State::Limited),
            ("RLIMIT_MEMLOCK", State::Limited),
            ("RLIMIT_NOFILE", State::Limited),
        ]
    );
    let findings = judge(&facts);
    assert!(!ready(&findings));
    let remedies: String = findings.into_iter().filter_map(|f| f.remedy).collect();
    for part in [
        "sysctl vm.unprivileged_userfaultfd=1",
        "setcap cap_sys_ptrace+ep",
        "/dev/userfaultfd",
        "ulimit -l",
    ] {
        assert!(remedies.contains(part), "{part}");
    }
}

#[test]
fn a_kernel_without_the_options_names_them() {
    let facts = Facts::gather(&Fake(Some(rustix::io::Errno::NOSYS.raw_os_error())));
    let text: String = judge(&facts).into_iter().filter_map(|f| f.remedy).collect();
    assert!(text.contains("CONFIG_USERFAULTFD") && text.contains("CONFIG_KCMP"));
}

#[test]
fn a_missing_feature_is_named() {
    let facts = Facts {
        userfaultfd: Ok(!(1 << 16)),
        ..good()
    };
    let findings = judge(&facts);
    let features = findings
        .iter()
        .find(|f| f.topic == "userfaultfd features")
        .expect("always there");
    assert_eq!(features.detail, "no MOVE");
}

#[test]
fn strict_settings_limit_or_forbid() {
    let strict = Facts {
        overcommit: Some(2),
        yama: Some(3),
        ..good()
    };
    assert_eq!(
        complaints(&strict),
        [
            ("ptrace scope", State::Missing),
            ("overcommit", State::Limited)
        ]
    );
}

#[test]
fn this_host_is_gathered_without_failing() {
    let facts = Facts::gather(&Fake(None));
    assert!(facts.version().is_some(), "{}", facts.release);
    assert_eq!(judge(&facts).len(), 16);
    assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
    assert_eq!(chosen("never"), None);
}

#[test]
fn the_probes_agree_with_each_other_here() {
    let facts = Facts::gather(&Kernel);
    // Whatever this host offers, no probe may say more than the one it builds on.
    if facts.userfaultfd.is_err() {
        assert!(facts.event_fork.is_err() && facts.move_page.is_err());
    }
    let version = facts.version().expect("a Linux");
    if version >= (6, 8) && facts.userfaultfd.is_ok() {
        assert_eq!(facts.move_page, Ok(()));
        assert_eq!(facts.pagemap_scan, Ok(()));
    }
}
