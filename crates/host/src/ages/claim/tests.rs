//! Tests of claims: by two watches in one process, and by two processes. They run as root.

use std::process::{Child, Command};

use rustix::fs::{CWD, FlockOperation, Mode, flock, openat};

use super::*;

/// A sleeping process that tests claim; `Drop` kills it.
pub(in crate::ages) struct Asleep(Child);

impl Asleep {
    pub(in crate::ages) fn start() -> Asleep {
        Asleep(
            Command::new("sleep")
                .arg("600")
                .spawn()
                .expect("it is there"),
        )
    }

    /// Returns the identity of the process, with an assumed start time.
    pub(in crate::ages) fn identity(&self) -> Identity {
        let started = 1;
        Identity {
            pid: self.0.id(),
            started,
        }
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn only_one_claim_of_a_process_is_held() {
    let child = Asleep::start();
    let somebody = child.identity();
    let first = Claim::take(somebody);
    assert!(first.holds());
    assert!(matches!(Claim::take(somebody), Claim::Others));
    drop(first);
    assert!(Claim::take(somebody).holds());
}

/// Starts another process, which tries to claim the process `identity`; returns the result as text.
fn of_another_process(identity: Identity) -> String {
    const CLAIMS: &str = "PAGETIDE_TEST_CLAIMS";
    if let Ok(pid) = std::env::var(CLAIMS) {
        let pid = pid.parse().expect("a number");
        let claim = Claim::take(Identity { pid, started: 1 });
        return format!("{claim:?}");
    }
    let name = module_path!().trim_start_matches("host::");
    let output = Command::new(std::env::current_exe().expect("it has a path"))
        .args([
            "--exact",
            "--nocapture",
            &format!("{name}::another_process_is_refused"),
        ])
        .env(CLAIMS, identity.pid.to_string())
        .output()
        .expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn another_process_is_refused() {
    let child = Asleep::start();
    let somebody = child.identity();
    if std::env::var_os("PAGETIDE_TEST_CLAIMS").is_some() {
        println!("got {}", of_another_process(somebody));
        return;
    }
    let first = Claim::take(somebody);
    assert!(first.holds());
    let got = of_another_process(somebody);
    assert!(got.contains("got Others"), "{got}");
    drop(first);
    let got = of_another_process(somebody);
    assert!(got.contains("got Ours"), "{got}");
}

/// Regression: a program locked its own clear_refs. Root's pagetide took that lock for the claim of
/// another manager, and reported no ages of the program.
#[test]
fn a_lock_of_clear_refs_claims_nothing() {
    let child = Asleep::start();
    let somebody = child.identity();
    let path = format!("/proc/{}/clear_refs", somebody.pid);
    let own = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let own = own.expect("the test runs as root");
    flock(&own, FlockOperation::NonBlockingLockExclusive).expect("nobody else locks it");
    assert!(Claim::take(somebody).holds());
}

/// Only root may open the files in which claims are locked: any process that can open one could
/// lock any byte of it.
#[test]
fn others_cannot_open_the_claims() {
    let child = Asleep::start();
    let claim = Claim::take(child.identity());
    assert!(claim.holds());
    let dir = make(DIRECTORY).expect("the test runs as root");
    let name = file_of(child.identity()).to_string();
    let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).expect("it is there");
    assert_eq!((stat.st_uid, stat.st_mode & 0o077), (0, 0));
}

/// A pagetide of another user sees root's claims in `/proc/locks`, which all users may read.
#[test]
fn claims_are_seen_in_the_list_of_locks() {
    let child = Asleep::start();
    let byte = byte_of(child.identity());
    let seen = || RootsClaims::read().expect("it can be read").has(byte);
    assert!(!seen());
    let claim = Claim::take(child.identity());
    assert!(claim.holds() && seen());
    drop(claim);
    assert!(!seen());
}

#[test]
fn the_list_of_locks_is_read_by_its_format() {
    let text = "1: POSIX  ADVISORY  WRITE 7 00:1a:12 3 3\n\
        2: OFDLCK ADVISORY  WRITE -1 00:1a:12 5 9\n\
        2: -> OFDLCK ADVISORY  WRITE -1 00:1a:12 40 40\n\
        3: OFDLCK ADVISORY  READ  -1 00:1a:13 20 EOF\n\
        4: FLOCK  ADVISORY  WRITE 9 00:1a:12 0 EOF\n\
        nonsense\n\n";
    let claims = RootsClaims::parse(text, &["00:1a:12".to_owned()]);
    assert_eq!(claims.0, [(5, 9)]);
    assert!(claims.has(5) && claims.has(9) && !claims.has(4) && !claims.has(10));
}

#[test]
fn a_later_process_with_the_same_number_is_another() {
    let byte = |pid, started| byte_of(Identity { pid, started });
    assert_ne!(byte(7, 1), byte(7, 2));
    assert_ne!(byte(7, 1), byte(8, 1));
    let most = byte((1 << PID_BITS) - 1, u64::MAX);
    assert!(most > 0, "{most}");
}

/// Forty claims use fewer than forty descriptors: a watch of a thousand processes needs its
/// descriptors for walks, and so does the program that uses the library.
#[test]
fn claims_take_no_descriptor_each() {
    let children: Vec<Asleep> = (0..40).map(|_| Asleep::start()).collect();
    let count = || std::fs::read_dir("/proc/self/fd").expect("Linux").count();
    let claims: Vec<Claim> = children
        .iter()
        .map(|one| Claim::take(one.identity()))
        .collect();
    assert!(claims.iter().all(Claim::holds));
    let before = count();
    drop(claims);
    let after = count();
    // Other tests open and close some descriptors at the same time.
    assert!(before < after + 40, "{before} {after}");
}
