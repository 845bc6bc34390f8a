//! Threads that try what they gave up, beside threads that gave up nothing.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Child, Command};

use super::*;

/// A process of another program, ended with this.
struct Other(Child);

impl Other {
    fn start() -> Other {
        Other(Command::new("sleep").arg("60").spawn().expect("sleep"))
    }

    /// A file below its `/proc` folder.
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

/// The result of a new thread, which ends with it.
fn in_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(act).join().expect("it does not panic"))
}

/// The hexadecimal or decimal text of a line of the calling thread's status.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.expect("the kernel tells it").trim().to_owned()
}

/// Regression: a file of the host was read and written through `/proc/PID/root` by whatever ran in `serve`'s process, the
/// thread that answers strangers by HTTP among them.
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
        // What is open stays usable: the thread reads of itself when it is confined.
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
