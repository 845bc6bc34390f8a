//! Installs the Debian package of pagetide in a root file system, uses it as its systemd unit does,
//! removes it, and checks what remains.
//!
//! Invariant: only the service manager is a stand-in, which logs its commands and stops the service
//! on request; apt, dpkg and pagetide are the real ones. Each command makes its mounts in a mount
//! namespace of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::guard::{Outcome, Run, Running};
use crate::idle_program::IdleProgram;
use crate::root::{Root, differences};
use crate::temp::target_dir;
use crate::tenants::Groups;
use crate::{pagetide, wait};

/// Time limit of a command.
const LIMIT: Duration = Duration::from_secs(120);
/// Where the unit mounts the tenants, in the root file system.
const MOUNT: &str = "run/pagetide/tenants";
/// Path of the unit in the root file system.
const UNIT: &str = "lib/systemd/system/pagetide.service";
/// The stand-in for `systemctl`, a script: logs its arguments. On `stop` it ends the service and
/// waits until it is a zombie, which only its parent, the test, can remove. Debian's own scripts
/// call it.
const STAND_IN: &str = "#!/bin/sh
echo \"$*\" >> /var/log/systemd
case $* in
*'stop pagetide.service')
    read pid < /var/log/pid
    kill -TERM $pid
    while grep -q '^State:.[^Z]' /proc/$pid/status 2>/dev/null; do sleep 0.05; done
esac
";

/// Makes a Debian package with the binary under test in `folder`; returns the package's path.
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

/// Runs a command that must succeed; returns its output.
///
/// # Panics
/// If it fails, or does not end within two minutes.
#[must_use]
#[track_caller]
pub fn done(run: &Run) -> Outcome {
    done_within(run, LIMIT)
}

/// Runs a command that must succeed within `limit`; returns its output.
///
/// # Panics
/// If it fails or does not end in time.
#[must_use]
#[track_caller]
pub fn done_within(run: &Run, limit: Duration) -> Outcome {
    let outcome = run.finish(limit);
    let reported = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.status.success(), "{:?}: {reported}", run.argv());
    outcome
}

/// Installs, uses, removes and upgrades the package in a root file system where it is not
/// installed.
///
/// # Panics
/// If anything does not do what it should.
pub fn check_life_cycle(root: &Root, deb: &Path) {
    std::fs::copy(deb, root.at("tmp/pagetide.deb")).expect("the package can be copied");
    install_stand_in(root);
    prepare_apt(root);
    let before = root.listing();
    let apt = |words: &[&str]| apt(root, words);
    // Nothing is downloaded: all dependencies are installed, and no server could be reached.
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
    let reported = service.running.stderr();
    let is_well = ended.is_some_and(|status| status.success()) && reported.is_empty();
    assert!(is_well, "it was stopped: {ended:?}, {reported}");
    let reported = std::fs::read_to_string(root.at("var/log/systemd")).unwrap_or_default();
    let reported: Vec<&str> = reported.lines().collect();
    assert_eq!(
        reported,
        [
            "--system daemon-reload",
            "stop pagetide.service",
            "--no-reload --quiet disable pagetide.service",
        ]
    );
    // Regression: the configuration stayed, and so did two files in which dpkg records its owner.
    let left = || differences(&before, &root.listing());
    assert_eq!(left(), [""; 0]);
    // A configuration that an administrator has changed stays.
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
    check_upgrades(root, changed);
    apt(&["remove", "pagetide"]);
    std::fs::remove_file(root.at("etc/pagetide.toml")).expect("it is there");
    assert_eq!(left(), [""; 0]);
}

/// Checks upgrades to a newer version: a running service is restarted, an unchanged configuration
/// is replaced, and a changed configuration stays.
fn check_upgrades(root: &Root, changed: &str) {
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
    let reported = std::fs::read_to_string(root.at("var/log/systemd")).unwrap_or_default();
    let reported: Vec<&str> = reported.lines().collect();
    assert_eq!(
        reported,
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

/// Runs `apt-get --yes -q WORDS`.
#[track_caller]
fn apt(root: &Root, words: &[&str]) {
    let words = [&["apt-get", "--yes", "-q"], words].concat();
    let _ = done(&root.command(&words));
}

/// Installs and purges another package. On their first use apt, dpkg and their helpers make files,
/// which must not be counted as pagetide's.
fn prepare_apt(root: &Root) {
    let folder = root.at("tmp/nothing/DEBIAN");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let control = "Package: nothing\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: nothing\n";
    std::fs::write(folder.join("control"), control).expect("a file can be written");
    let build = ["dpkg-deb", "--build", "/tmp/nothing", "/tmp/nothing.deb"];
    let _ = done(&root.command(&build));
    apt(root, &["install", "/tmp/nothing.deb"]);
    apt(root, &["purge", "nothing"]);
}

/// Makes the files by which packages recognise systemd, and the stand-in for `systemctl`.
fn install_stand_in(root: &Root) {
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

/// Checks that `pagetide doctor` finds all that is needed for reading ages. Its exit status is 3 if
/// there is no swap.
fn doctor(root: &Root) {
    let outcome = root
        .command(&["pagetide", "doctor", "--json"])
        .finish(LIMIT);
    let code = outcome.status.code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {}", outcome.stderr);
    let said: Value = serde_json::from_str(&outcome.stdout).expect("it is JSON");
    assert_eq!(said["age_source"], "page-tables", "{said:#}");
}

/// `pagetide serve`, started as the unit starts it, with control groups for this test.
struct Service {
    running: Running,
    _groups: Groups,
}

impl Service {
    /// Starts the service with the commands of its unit, and waits until the tenants are mounted.
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
        // The machine's own control groups are not scanned. Its mounts stay as they are, too: the
        // mount commands run in this root file system.
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

    /// Checks that a tenant can be made, gets a process, has a report, and can be removed.
    fn has_tenants(&self) {
        // Only the service's own mount namespace shows what it mounted.
        let at = |path: &str| {
            let own = format!("/proc/{}/root", self.running.pid());
            Path::new(&own).join(MOUNT).join(path)
        };
        std::fs::create_dir(at("web")).expect("a tenant can be made");
        let idle_program = IdleProgram::start([], 8);
        std::fs::write(at("web/cgroup.procs"), idle_program.pid().to_string())
            .expect("it is moved");
        let read = |path: &str| std::fs::read_to_string(at(path)).expect(path);
        assert_eq!(
            read("web/cgroup.procs").trim(),
            idle_program.pid().to_string()
        );
        assert!(
            read("web/memory.stat").contains("\npgsteal "),
            "{}",
            read("web/memory.stat")
        );
        drop(idle_program);
        wait::until("the tenant can be removed", LIMIT, || {
            std::fs::remove_dir(at("web")).is_ok()
        });
    }
}
