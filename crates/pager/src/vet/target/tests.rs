//! Real processes of every kind that can be made without privileges.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::bpf::BpfInsn;
use super::*;
use crate::control::ControlServer;
use crate::error::ExitCode;

/// A source that answers with one filter, or with an error.
struct Filter(Option<BpfInsn>);

impl SeccompSource for Filter {
    fn filters(&self, _pid: u32) -> io::Result<Vec<Vec<BpfInsn>>> {
        let refused = || io::Error::from(ErrorKind::PermissionDenied);
        self.0.map(|insn| vec![vec![insn]]).ok_or_else(refused)
    }
}

const NONE: Filter = Filter(None);

/// `sleep`, ended and reaped when dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start(seconds: &str) -> Sleeper {
        let mut command = Command::new("sleep");
        command.arg(seconds).stdin(Stdio::null());
        let sleeper = Sleeper(command.spawn().expect("sleep is everywhere"));
        // `spawn` returns when the exec cannot fail any more, which is before the new program's
        // arguments are in place: its command line is empty for an instant.
        let cmdline = format!("/proc/{}/cmdline", sleeper.pid());
        let limit = Instant::now() + Duration::from_secs(10);
        // One that has ended already has none at all.
        let starting = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.pid()));
            let ended = stat.is_ok_and(|s| s.contains(") Z "));
            !ended && std::fs::read(&cmdline).is_ok_and(|line| line.is_empty())
        };
        while starting() {
            assert!(Instant::now() < limit, "sleep has no command line");
            std::thread::sleep(Duration::from_millis(1));
        }
        sleeper
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_plain_child_can_be_managed() {
    let child = Sleeper::start("1000");
    let target = target(child.pid(), &NONE).expect("our own child");
    assert_eq!(target.pid, child.pid());
    assert_eq!(target.command, ["sleep", "1000"]);
    assert_eq!(target.threads, 1);
}

#[test]
fn pids_that_are_nobody() {
    for pid in [0, 1 << 31, u32::MAX] {
        let refusal = target(pid, &NONE).expect_err("no such pid");
        assert_eq!(refusal, Refusal::NoSuchProcess { pid });
        assert_eq!(refusal.exit_code(), ExitCode::Failure);
    }
}

#[test]
fn ourselves_and_our_threads() {
    let me = std::process::id();
    assert_eq!(target(me, &NONE), Err(Refusal::Ourselves { pid: me }));
    let tid = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
    let tid = tid.join().expect("a thread").unsigned_abs();
    // The thread may still be there or be gone: both are refusals of the right kind.
    let refusal = target(tid, &NONE).expect_err("a thread");
    let thread = Refusal::IsThread {
        pid: tid,
        process: me,
    };
    assert!(
        refusal == thread || refusal == Refusal::NoSuchProcess { pid: tid },
        "{refusal}"
    );
}

#[test]
fn a_zombie_is_named_as_one() {
    let child = Sleeper::start("0");
    let pid = child.pid();
    let dead =
        || fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|s| s.contains("zombie"));
    while !dead() {
        std::thread::yield_now();
    }
    let refusal = target(pid, &NONE).expect_err("a zombie");
    assert!(matches!(refusal, Refusal::Zombie { .. }), "{refusal}");
}

#[test]
fn a_managed_process_names_its_manager() {
    let child = Sleeper::start("1000");
    let pid = child.pid();
    let server = ControlServer::bind(pid).expect("a free name");
    let manager = std::process::id();
    let refusal = Refusal::AlreadyManaged { pid, manager };
    assert_eq!(target(pid, &NONE), Err(refusal));
    drop(server);
    assert!(target(pid, &NONE).is_ok());
}

#[test]
fn the_first_reason_is_the_one_told() {
    let alive = Status {
        tgid: 5,
        state: 'S',
        ..Status::default()
    };
    let kthread = "5 (kswapd0) S 2 0 0 0 -1 2129984 0";
    let refusal = check_alive(5, &alive, kthread).expect_err("a kernel thread");
    assert!(matches!(refusal, Refusal::KernelThread { .. }));
    assert_eq!(check_alive(5, &alive, "5 (sh) S 2 0 0 0 -1 0 0"), Ok(()));
}

#[test]
fn each_rule_has_its_remedy() {
    for (owner, me, yama, part) in [
        (0, 1000, "1", "as that user"),
        (1000, 1000, "1", "ptrace_scope=0"),
        (1000, 1000, "3", "reboot"),
        (1000, 1000, "0", "as root"),
        (1000, 1000, "", "as root"),
        (0, 0, "", "container"),
    ] {
        let (why, remedy) = why_denied(owner, me, yama);
        assert!(
            remedy.contains(part),
            "{owner} {me} {yama}: {why}: {remedy}"
        );
    }
}

#[test]
fn seccomp_is_judged_and_doubt_is_a_no() {
    let with = |seccomp| Status {
        seccomp,
        ..Status::default()
    };
    let ret = |k| BpfInsn {
        code: 0x06,
        k,
        ..BpfInsn::default()
    };
    let (allow, deny) = (
        Filter(Some(ret(0x7fff_0000))),
        Filter(Some(ret(0x0005_0001))),
    );
    assert_eq!(check_seccomp(5, &with(0), &NONE), Ok(()));
    assert_eq!(check_seccomp(5, &with(2), &allow), Ok(()));
    let strict = check_seccomp(5, &with(1), &allow).expect_err("strict mode");
    assert!(strict.to_string().contains("strict"), "{strict}");
    let denied = check_seccomp(5, &with(2), &deny).expect_err("all denied");
    assert!(
        denied.to_string().contains("read, write, close"),
        "{denied}"
    );
    assert!(denied.to_string().contains("more"), "{denied}");
    let doubt = check_seccomp(5, &with(2), &NONE).expect_err("unreadable");
    assert_eq!(doubt.exit_code(), ExitCode::Missing);
}
