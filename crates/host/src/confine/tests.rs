//! Tests: confined threads attempt what is forbidden to them, next to threads that are not
//! confined.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command};

use super::*;

/// A child process; `Drop` kills it.
struct Other(Child);

impl Other {
    fn start() -> Other {
        Other(Command::new("sleep").arg("60").spawn().expect("sleep"))
    }

    /// Returns `/proc/PID/path` of the child process.
    fn at(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{path}", self.0.id()))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `act` in a new thread, waits for the thread's end, and returns the result of `act`.
fn in_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join().expect("it does not panic"))
}

/// Returns the value of the line `name` in the text of `/proc/thread-self/status`.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.expect("the kernel tells it").trim().to_owned()
}

/// Regression: code in `serve`'s process, including the thread that serves untrusted HTTP clients,
/// could read and write files of the host through `/proc/PID/root`.
#[test]
fn no_process_root_leads_a_confined_thread_to_a_file() {
    let other = Other::start();
    let file = std::env::temp_dir().join(format!("pagetide-confined-{}", std::process::id()));
    std::fs::write(&file, "theirs").expect("a file can be written");
    let inner = other
        .at("root")
        .join(file.strip_prefix("/").expect("absolute"));
    let write = || OpenOptions::new().append(true).open(&inner).map(drop);
    write().expect("a thread that gave up nothing writes there");
    let tried = in_a_thread(|| {
        forbid_files().expect("this kernel has Landlock");
        [
            File::open(other.at("root/etc/passwd")).map(drop),
            File::open(other.at("cwd/Cargo.toml")).map(drop),
            File::open(other.at("mem")).map(drop),
            write(),
            std::fs::remove_file(&inner),
            File::open("/etc/passwd").map(drop),
        ]
    });
    for done in tried {
        let error = done.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
    write().expect("others may as before");
    std::fs::remove_file(file).expect("ours");
}

#[test]
fn a_confined_thread_has_no_capability_and_others_keep_theirs() {
    let before = std::fs::read_to_string("/proc/thread-self/status").expect("ours");
    let status = in_a_thread(|| {
        // Open descriptors stay usable: the confined thread reads its own status.
        let own = File::open("/proc/thread-self/status").expect("ours");
        let confined = confine_to_open_descriptors();
        assert!(confined.lacks.is_empty(), "{:?}", confined.lacks);
        std::io::read_to_string(own).expect("it is open")
    });
    let effective = u64::from_str_radix(&field(&status, "CapEff:"), 16).expect("a number");
    let lock = u64::from(getrlimit(Resource::Memlock).current.is_some()) << 14;
    assert_eq!(effective & !lock, 0, "{status}");
    assert_eq!(field(&status, "CapPrm:"), field(&status, "CapEff:"));
    assert_eq!(
        (field(&status, "NoNewPrivs:"), field(&status, "Seccomp:")),
        ("1".into(), "2".into())
    );
    let after = std::fs::read_to_string("/proc/thread-self/status").expect("ours");
    for name in ["CapEff:", "CapPrm:", "NoNewPrivs:", "Seccomp:"] {
        assert_eq!(field(&before, name), field(&after, name), "{name}");
    }
}

/// After the confinement a thread can write only files in its directory. Files elsewhere can be
/// read but not written, also through `/proc/PID/root`.
#[test]
fn a_thread_changes_files_beneath_its_directory_alone() {
    let other = Other::start();
    let name = format!("pagetide-beneath-{}", std::process::id());
    let (own, others) = (std::env::temp_dir().join(&name), std::env::temp_dir());
    let others = others.join(format!("{name}-others"));
    for directory in [&own, &others] {
        std::fs::create_dir_all(directory).expect("ours");
    }
    let root = others.strip_prefix("/").expect("absolute");
    let by_root = other.at("root").join(root).join("file");
    let tried = in_a_thread(|| {
        change_files_beneath(&own).expect("this kernel has Landlock");
        std::fs::write(own.join("file"), "ours").expect("beneath it all is as before");
        std::fs::rename(own.join("file"), own.join("renamed")).expect("beneath it");
        File::open("/etc/passwd")
            .map(drop)
            .expect("others are read");
        [
            std::fs::write(&by_root, "theirs"),
            std::fs::write(others.join("file"), "theirs"),
            std::fs::remove_dir(&others),
            std::fs::create_dir(others.join("directory")),
        ]
    });
    let left = std::fs::read_dir(&others).expect("ours").count();
    for directory in [&own, &others] {
        std::fs::remove_dir_all(directory).expect("ours");
    }
    assert_eq!(left, 0);
    for done in tried {
        let error = done.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
}

/// Regression: in a pod without a seccomp profile on its node, all threads of the manager could
/// trace processes.
#[test]
fn calls_that_no_manager_makes_are_refused_and_others_work() {
    let tried = in_a_thread(|| {
        never::forbid(false).expect("this kernel has seccomp");
        File::open("/proc/self/status")
            .map(drop)
            .expect("files are as before");
        Command::new("true")
            .status()
            .map(drop)
            .expect("programs, too");
        let failed = |errno: rustix::io::Errno| io::Error::from(errno);
        let names = File::open("/proc/self/ns/uts").expect("our own");
        [
            rustix::thread::move_into_link_name_space(names.as_fd(), None).map_err(failed),
            std::os::unix::fs::chown("/nowhere", Some(0), None),
            std::os::unix::fs::chroot("/nowhere"),
        ]
    });
    for done in tried {
        let error = done.expect_err("it is refused");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    }
}

#[test]
fn a_confined_thread_opens_starts_and_names_nothing() {
    let other = Other::start();
    let pid = rustix::process::Pid::from_child(&other.0);
    let tried = in_a_thread(|| {
        let confined = confine_to_open_descriptors();
        assert!(confined.lacks.is_empty(), "{:?}", confined.lacks);
        [
            ("open", File::open("/proc/self/status").map(drop)),
            ("socket", std::net::UdpSocket::bind("127.0.0.1:0").map(drop)),
            ("exec", Command::new("true").status().map(drop)),
            (
                "signal",
                rustix::process::test_kill_process(pid).map_err(io::Error::from),
            ),
            (
                "pidfd",
                rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
                    .map(drop)
                    .map_err(io::Error::from),
            ),
        ]
    });
    for (what, done) in tried {
        let error = done.expect_err(what);
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
    }
}
