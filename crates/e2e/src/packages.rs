//! The .deb in a root: installed, used as its unit uses it, removed, and what stays.
//!
//! Invariant: the service manager is a stand-in that writes down what it is told, and stops what it is told to stop; all else
//! is apt, dpkg and pagetide as they are. What is mounted is mounted in the namespace of the command that mounts it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::guard::{Outcome, Run, Running};
use crate::root::{Root, differences};
use crate::sleeper::Sleeper;
use crate::temp::target_dir;
use crate::tenants::Groups;
use crate::{pagetide, wait};

const LIMIT: Duration = Duration::from_secs(120);
/// Where the unit has tenants mounted.
const MOUNT: &str = "run/pagetide/tenants";
const UNIT: &str = "lib/systemd/system/pagetide.service";
/// `systemctl`: writes down what it is told, and stops who is told to stop: until only its parent, the test, could tell that it was
/// there. What Debian asks it by is Debian's own.
const STAND_IN: &str = "#!/bin/sh
echo \"$*\" >> /var/log/systemd
case $* in
*'stop pagetide.service')
    read pid < /var/log/pid
    kill -TERM $pid
    while grep -q '^State:.[^Z]' /proc/$pid/status 2>/dev/null; do sleep 0.05; done
esac
";

/// Packages the binary under test, in a folder.
///
/// # Panics
/// If that fails.
#[must_use]
pub fn deb(folder: &Path) -> PathBuf {
    let built = std::env::var_os("PAGETIDE_XTASK").map(PathBuf::from);
    let xtask = built.unwrap_or_else(|| target_dir().join("debug/xtask"));
    let folder = folder.to_string_lossy().into_owned();
    let xtask = xtask.to_string_lossy().into_owned();
    let words = [
        xtask,
        "package".into(),
        "deb".into(),
        "--binary".into(),
        pagetide::binary(),
    ];
    let outcome = done(&Run::new(
        words.into_iter().chain(["--out".to_owned(), folder]),
    ));
    let last = outcome.stdout.lines().last().unwrap_or_default();
    assert!(last.ends_with(".deb"), "{}", outcome.stdout);
    PathBuf::from(last)
}

/// Runs a command that ends well.
///
/// # Panics
/// If it does not.
#[must_use]
#[track_caller]
pub fn done(run: &Run) -> Outcome {
    done_within(run, LIMIT)
}

/// The same, within a time of its own.
///
/// # Panics
/// As [`done`].
#[must_use]
#[track_caller]
pub fn done_within(run: &Run, limit: Duration) -> Outcome {
    let outcome = run.finish(limit);
    let told = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.status.success(), "{:?}: {told}", run.argv());
    outcome
}

/// The package's whole life in a root where it is not installed.
///
/// # Panics
/// Where it does not do what it should.
pub fn lives(root: &Root, deb: &Path) {
    std::fs::copy(deb, root.at("tmp/pagetide.deb")).expect("the package can be copied");
    stand_in(root);
    first_use(root);
    let before = root.listing();
    let apt = |words: &[&str]| apt(root, words);
    // Nothing is fetched, for what it depends on is there; and nobody could be found to fetch from.
    apt(&["install", "/tmp/pagetide.deb"]);
    let found = differences(&before, &root.listing());
    assert!(
        found.contains(&"new: usr/bin/pagetide".to_owned()),
        "{found:?}"
    );
    let verified = done(&root.command(&["dpkg", "--verify", "pagetide"]));
    assert_eq!(verified.stdout, "", "what is there is what was packaged");
    doctor(root);
    let mut service = Service::start(root);
    service.has_tenants();
    apt(&["remove", "pagetide"]);
    let ended = wait::poll(LIMIT, || service.running.ended());
    let told = service.running.stderr();
    let is_well = ended.is_some_and(|status| status.success()) && told.is_empty();
    assert!(is_well, "it was stopped: {ended:?}, {told}");
    let told = std::fs::read_to_string(root.at("var/log/systemd")).unwrap_or_default();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(
        told,
        [
            "--system daemon-reload",
            "stop pagetide.service",
            "--no-reload --quiet disable pagetide.service",
        ]
    );
    // The story: its configuration stayed, and two files by which dpkg knew whose that was.
    let left = || differences(&before, &root.listing());
    assert_eq!(left(), [""; 0]);
    // What an administrator has changed is his.
    apt(&["install", "/tmp/pagetide.deb"]);
    let changed = "age-every = \"30s\"\n";
    std::fs::write(root.at("etc/pagetide.toml"), changed).expect("it is there");
    apt(&["remove", "pagetide"]);
    assert_eq!(left(), ["new: etc/pagetide.toml"]);
    apt(&["install", "/tmp/pagetide.deb"]);
    let kept = std::fs::read_to_string(root.at("etc/pagetide.toml"));
    assert_eq!(kept.ok().as_deref(), Some(changed));
    apt(&["remove", "pagetide"]);
    std::fs::remove_file(root.at("etc/pagetide.toml")).expect("it is there");
    upgrades(root, changed);
    apt(&["remove", "pagetide"]);
    std::fs::remove_file(root.at("etc/pagetide.toml")).expect("it is there");
    assert_eq!(left(), [""; 0]);
}

/// A newer one over it: a service that runs is started anew, a configuration that nobody has changed is the newer one's, and another stays.
fn upgrades(root: &Root, changed: &str) {
    let newer = "dpkg-deb -R /tmp/pagetide.deb /tmp/newer &&
        sed -i 's/^Version: .*/&+newer/' /tmp/newer/DEBIAN/control &&
        echo '# newer' >>/tmp/newer/usr/share/pagetide/pagetide.toml &&
        dpkg-deb --build /tmp/newer /tmp/newer.deb && rm -r /tmp/newer";
    let _ = done(&root.command(&["sh", "-c", newer]));
    let configured = || std::fs::read_to_string(root.at("etc/pagetide.toml")).unwrap_or_default();
    apt(root, &["install", "/tmp/pagetide.deb"]);
    std::fs::write(root.at("var/log/systemd"), "").expect("it is there");
    apt(root, &["install", "/tmp/newer.deb"]);
    assert!(configured().ends_with("# newer\n"), "{}", configured());
    let told = std::fs::read_to_string(root.at("var/log/systemd")).unwrap_or_default();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(
        told,
        ["--system daemon-reload", "try-restart pagetide.service"]
    );
    std::fs::write(root.at("etc/pagetide.toml"), changed).expect("it is there");
    apt(
        root,
        &["install", "--allow-downgrades", "/tmp/pagetide.deb"],
    );
    apt(root, &["install", "/tmp/newer.deb"]);
    assert_eq!(configured(), changed);
    std::fs::remove_file(root.at("tmp/newer.deb")).expect("it was made");
}

#[track_caller]
fn apt(root: &Root, words: &[&str]) {
    let words = [&["apt-get", "--yes", "-q"], words].concat();
    let _ = done(&root.command(&words));
}

/// Another package comes and goes: what apt, dpkg and their helpers make when they are used for the first time is theirs.
fn first_use(root: &Root) {
    let folder = root.at("tmp/nothing/DEBIAN");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let control = "Package: nothing\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: nothing\n";
    std::fs::write(folder.join("control"), control).expect("a file can be written");
    let build = ["dpkg-deb", "--build", "/tmp/nothing", "/tmp/nothing.deb"];
    let _ = done(&root.command(&build));
    apt(root, &["install", "/tmp/nothing.deb"]);
    apt(root, &["purge", "nothing"]);
}

/// What is there where systemd is.
fn stand_in(root: &Root) {
    std::fs::create_dir_all(root.at("run/systemd/system")).expect("a folder can be made");
    for name in ["usr/bin/systemctl", "usr/bin/deb-systemd-invoke"] {
        std::fs::write(root.at(name), STAND_IN).expect("a file can be written");
        let _ = done(&Run::new([
            "chmod",
            "755",
            &root.at(name).to_string_lossy(),
        ]));
    }
}

/// It finds what reading ages takes; without swap it ends with 3.
fn doctor(root: &Root) {
    let outcome = root
        .command(&["pagetide", "doctor", "--json"])
        .finish(LIMIT);
    let code = outcome.status.code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {}", outcome.stderr);
    let said: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
    assert_eq!(said["age_source"], "page-tables", "{said:#}");
}

/// `pagetide serve` as the unit starts it, with control groups of the test's own.
struct Service {
    running: Running,
    _groups: Groups,
}

impl Service {
    fn start(root: &Root) -> Service {
        let name = format!("pagetide-e2e-root-{}", std::process::id());
        let unit = std::fs::read_to_string(root.at(UNIT)).expect("the unit is installed");
        let of = |key: &str| {
            let found = unit
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            found
                .unwrap_or_else(|| panic!("{key} in {unit}"))
                .to_owned()
        };
        // This machine's own groups are not ours to look at.
        // Nor are its mounts: what mounts does so in this root.
        let mounts = of("ExecStartPost");
        let (_, mounts) = mounts
            .split_once(" /usr/bin/pagetide")
            .expect("ours mounts");
        let socket = mounts.split(' ').nth(2).expect("its first argument");
        let script = format!(
            "{}; echo $$ > /var/log/pid
            (until [ -S {socket} ]; do sleep 0.05; done; exec pagetide{mounts}) &
            exec {} --root {name} --host none",
            of("ExecStartPre").trim_start_matches('-'),
            of("ExecStart")
        );
        let groups = Groups::named(&name);
        let mut running = root.command(&["sh", "-c", &script]).start();
        wait::until("it serves", LIMIT, || {
            let ended = running.ended();
            assert!(ended.is_none(), "{ended:?}: {}", running.stderr());
            running
                .stdout()
                .contains("serving at /run/pagetide/tenants")
        });
        wait::until("the tenants are mounted", LIMIT, || {
            let mounts = format!("/proc/{}/mounts", running.pid());
            let mounts = std::fs::read_to_string(mounts).unwrap_or_default();
            mounts.contains("/run/pagetide/tenants fuse")
        });
        Service {
            running,
            _groups: groups,
        }
    }

    /// A tenant is made, has a process, tells of it, and goes.
    fn has_tenants(&self) {
        // What it has mounted is seen by itself alone.
        let at = |path: &str| {
            let own = format!("/proc/{}/root", self.running.pid());
            Path::new(&own).join(MOUNT).join(path)
        };
        std::fs::create_dir(at("web")).expect("a tenant can be made");
        let sleeper = Sleeper::start([], 8);
        std::fs::write(at("web/cgroup.procs"), sleeper.pid().to_string()).expect("it is moved");
        let read = |path: &str| std::fs::read_to_string(at(path)).expect(path);
        assert_eq!(read("web/cgroup.procs").trim(), sleeper.pid().to_string());
        assert!(
            read("web/memory.stat").contains("\npgsteal "),
            "{}",
            read("web/memory.stat")
        );
        drop(sleeper);
        wait::until("the tenant can be removed", LIMIT, || {
            std::fs::remove_dir(at("web")).is_ok()
        });
    }
}
