//! What is shipped beside the program: rules and a dashboard for Prometheus's figures, a manifest for Kubernetes, a unit for systemd.
//!
//! promtool(1) judges their form and what they say; that they ask for series and labels that there are is judged here, by the
//! names that `docs/interfaces.md` fixes.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::guard::{Run, Running, send};
use e2e::packages::done;
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Groups;
use e2e::{pagetide, wait};
use rustix::process::Signal;
use serde_json::Value;

/// For what takes well under a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Series that scripts may rely on.
const SERIES: [&str; 11] = [
    "pagetide_build_info",
    "pagetide_needed_bytes",
    "pagetide_needed_confidence",
    "pagetide_overhead_cpu_seconds_total",
    "pagetide_page_age_bytes",
    "pagetide_refaults_predicted",
    "pagetide_refaults_total",
    "pagetide_resident_bytes",
    "pagetide_steals_total",
    "pagetide_swapped_bytes",
    "pagetide_walk_seconds",
];
/// What a histogram's own series end with.
const OF_HISTOGRAMS: [&str; 3] = ["_bucket", "_count", "_sum"];

fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../dist")
        .join(name)
}

/// The names of pagetide's series in a text.
fn series(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let words = text.split(|c| !is_name(c));
    // `tenant:pagetide_...` is a rule's own.
    let names = words.filter(|word| word.starts_with("pagetide_"));
    names
        .map(|name| {
            let ends = OF_HISTOGRAMS.iter().find_map(|end| name.strip_suffix(end));
            ends.unwrap_or(name).to_owned()
        })
        .collect()
}

fn expected() -> BTreeSet<String> {
    SERIES.map(str::to_owned).into()
}

#[test]
fn rules_say_what_they_should_of_series_that_there_are() {
    let _serial = serial();
    let rules = dist("prometheus/pagetide.rules.yml");
    let tests = dist("prometheus/pagetide.rules.test.yml");
    let _ = done(&Run::new([
        "promtool",
        "check",
        "rules",
        &rules.to_string_lossy(),
    ]));
    let _ = done(&Run::new([
        "promtool",
        "test",
        "rules",
        &tests.to_string_lossy(),
    ]));
    let text = std::fs::read_to_string(rules).expect("the rules are there");
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#') && !line.contains("name:"))
        .map(|line| format!("{line}\n"))
        .collect();
    let unknown: Vec<String> = series(&code).difference(&expected()).cloned().collect();
    assert_eq!(unknown, [""; 0]);
    // Each alert has a test.
    let tests = std::fs::read_to_string(tests).expect("their tests are there");
    let alerts = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let untested: Vec<&str> = alerts.filter(|name| !tests.contains(*name)).collect();
    assert_eq!(untested, [""; 0]);
}

#[test]
fn the_dashboard_asks_for_all_series_and_no_others() {
    let _serial = serial();
    let text = std::fs::read_to_string(dist("grafana/pagetide.json")).expect("it is there");
    let board: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = board["panels"].as_array().expect("it has panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let asked: Vec<&str> = targets
        .filter_map(|target| target["expr"].as_str())
        .collect();
    assert!(asked.len() >= panels.len(), "{asked:?}");
    assert_eq!(series(&asked.join("\n")), expected());
    // A tenant's figures have those below it in them: a sum that is not by tenant is of one of them. (The story: what lay three levels
    // deep was in the heat map four times.)
    let sums_up = |expr: &str| expr.contains("sum(") || expr.contains("sum by (le)");
    let twice: Vec<&&str> = asked
        .iter()
        .filter(|expr| sums_up(expr) && expr.contains("tenant=~"))
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
    // As rules they are something that promtool judges; what Grafana puts in comes first.
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (number, expr) in asked.iter().enumerate() {
        let expr = expr.replace("$__rate_interval", "5m");
        rules += &format!(
            "      - {{record: panel:{number}, expr: {}}}\n",
            Value::from(expr)
        );
    }
    let folder = TempDir::new();
    let file = folder.file("dashboard.yml");
    std::fs::write(&file, rules).expect("a file can be written");
    let _ = done(&Run::new(["promtool", "check", "rules", &file]));
}

/// A cluster that rations its highest priorities makes no pod of them where no quota of the namespace lets it, and nobody is told.
#[test]
fn the_manifest_may_have_the_priority_that_it_asks_for() {
    let text = std::fs::read_to_string(dist("kubernetes/daemonset.yaml")).expect("it is there");
    let of = |kind: &str| {
        let line = format!("kind: {kind}");
        let parts = text.split("\n---\n");
        parts
            .filter(|part| part.lines().any(|found| found == line))
            .collect::<Vec<&str>>()
    };
    for set in of("DaemonSet") {
        let value = |key: &str| set.lines().find_map(|line| line.trim().strip_prefix(key));
        let namespace = value("namespace: ").expect("a namespace");
        let Some(priority) = value("priorityClassName: ").filter(|one| one.starts_with("system-"))
        else {
            continue;
        };
        assert_ne!(namespace, "kube-system", "it has one of its own");
        let lets_it = |quota: &&str| {
            quota.contains(&format!("\n  namespace: {namespace}\n"))
                && quota.contains("scopeName: PriorityClass")
                && quota.contains(&format!("\"{priority}\""))
        };
        assert!(of("ResourceQuota").iter().any(lets_it), "{priority}");
    }
}

fn unit() -> String {
    dist("pagetide.service").to_string_lossy().into_owned()
}

/// Exposure that is at most allowed, tenths (systemd-analyze(1), `--threshold`).
const EXPOSURE_MAX: &str = "--threshold=30";

/// Regression: the unit had no limits at all: whatever ran in `serve`'s process was root of its host, and systemd judged it 9.6.
#[test]
fn the_unit_is_confined() {
    let judge = |unit: &str| {
        let words = [
            "systemd-analyze",
            "security",
            "--offline=true",
            "--no-pager",
        ];
        let run = Run::new(words.into_iter().chain([EXPOSURE_MAX, unit]));
        run.finish(LIMIT)
    };
    let judged = judge(&unit());
    assert_eq!(judged.status.code(), Some(0), "{}", judged.stdout);
    // It can find something.
    let text = std::fs::read_to_string(unit()).expect("it is there");
    let folder = TempDir::new();
    let open = folder.file("open.service");
    let (key, other) = ("CapabilityBoundingSet=", "X-CapabilityBoundingSet=");
    std::fs::write(&open, text.replace(key, other)).expect("a file can be written");
    assert_ne!(judge(&open).status.code(), Some(0));
}

/// The names of a group of system calls, and of all groups in it.
fn of_group(group: &str, calls: &mut BTreeSet<String>) {
    let told = done(&Run::new([
        "systemd-analyze",
        "--no-pager",
        "syscall-filter",
        group,
    ]))
    .stdout;
    for word in told.lines().skip(1).map(str::trim) {
        match word.starts_with('@') {
            true => of_group(word, calls),
            false => _ = calls.insert(word.to_owned()),
        }
    }
}

/// System calls that a unit lets through.
fn allowed(unit: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let lines = unit.lines();
    for line in lines.filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (is_denied, words) = match line.strip_prefix('~') {
            Some(words) => (true, words),
            None => (false, line),
        };
        let mut named = BTreeSet::new();
        for word in words.split(' ') {
            match word.starts_with('@') {
                true => of_group(word, &mut named),
                false => _ = named.insert(word.to_owned()),
            }
        }
        match is_denied {
            true => all.retain(|call| !named.contains(call)),
            false => all.extend(named),
        }
    }
    // Each unit may do what a process needs to begin and to end, whatever the list (systemd.exec(5), `@default`).
    of_group("@default", &mut all);
    all
}

/// `serve` as the unit has it, by strace(1): it waits for its mount, which is gone when this is.
struct Traced {
    running: Running,
    folder: TempDir,
    _groups: Groups,
}

impl Traced {
    fn start() -> Traced {
        let folder = TempDir::new();
        let file = |name: &str| folder.file(name);
        std::fs::create_dir(file("tenants")).expect("a folder can be made");
        let name = format!("pagetide-e2e-unit-{}", std::process::id());
        let options = [
            ["--mount", &file("tenants")],
            ["--mount-socket", &file("mount.sock")],
            ["--root", &name],
            ["--host", "none"],
            ["--age-every", "500ms"],
            ["--listen", &format!("unix:{}", file("metrics.sock"))],
            ["--history", &file("history")],
        ];
        let (program, trace) = (pagetide::binary(), file("trace"));
        let strace = ["strace", "-f", "-qq", "-o", &trace, &program, "serve"];
        let words = strace.into_iter().chain(options.into_iter().flatten());
        let groups = Groups::named(&name);
        let mut running = Run::new(words).start();
        wait::until("it serves", LIMIT, || {
            assert!(running.ended().is_none(), "{}", running.stderr());
            running.stdout().contains("serving at")
        });
        Traced {
            running,
            folder,
            _groups: groups,
        }
    }

    /// A place below its mount.
    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("tenants").join(path)
    }

    /// The mount comes, a tenant gets a limit and a process, gives memory, and is shown by HTTP; the configuration is read once more.
    fn ask_all(&self) {
        let (socket, mount) = (self.folder.file("mount.sock"), self.folder.file("tenants"));
        let _ = done(&Run::new([
            pagetide::binary().as_str(),
            "__mount",
            &socket,
            &mount,
        ]));
        std::fs::create_dir(self.at("a")).expect("a tenant can be made");
        std::fs::write(self.at("a/memory.max"), "64M").expect("it has a limit");
        let sleeper = Sleeper::start([], 8);
        let pid = sleeper.pid().to_string();
        std::fs::write(self.at("a/cgroup.procs"), pid).expect("it is moved");
        wait::until("its pages are known", LIMIT, || {
            let stat = std::fs::read_to_string(self.at("a/memory.stat")).unwrap_or_default();
            let anon = stat.lines().find_map(|line| line.strip_prefix("anon "));
            anon.and_then(|bytes| bytes.parse().ok()) >= Some(8_u64 << 20)
        });
        // Without swap it says that it cannot.
        let _ = std::fs::write(self.at("a/memory.reclaim"), "1M");
        let at = self.folder.file("metrics.sock");
        let mut stream = UnixStream::connect(at).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(head).expect("it reads");
        let mut told = String::new();
        stream.read_to_string(&mut told).expect("it answers");
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        self.signal(Signal::HUP);
        wait::until("it is read once more", LIMIT, || {
            self.running.stdout().contains("is read once more")
        });
    }

    /// To `serve`, not to strace.
    fn signal(&self, signal: Signal) {
        let all = self.running.named("pagetide");
        all.iter().for_each(|pid| send(*pid, signal));
    }

    /// The names of all system calls until its end.
    fn calls(mut self) -> BTreeSet<String> {
        self.signal(Signal::TERM);
        wait::until("it ends", LIMIT, || self.running.ended().is_some());
        let trace = std::fs::read_to_string(self.folder.file("trace")).expect("strace wrote it");
        let calls = trace.lines().filter_map(|line| {
            let (_, call) = line.split_once(' ')?;
            let (name, _) = call.trim_start().split_once('(')?;
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            name.bytes().all(is_name).then(|| name.to_owned())
        });
        calls.collect()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.running.kill_and_reap();
        let mount = self.at("");
        let _ = Command::new("umount").arg("--lazy").arg(mount).output();
    }
}

#[test]
fn the_unit_lets_through_what_serve_calls() {
    let _serial = serial();
    let traced = Traced::start();
    traced.ask_all();
    let calls = traced.calls();
    // It is the trace of what reads page tables, and of what gives up rights.
    assert!(
        calls.contains("bpf") && calls.contains("seccomp"),
        "{calls:?}"
    );
    let allowed = allowed(&std::fs::read_to_string(unit()).expect("it is there"));
    let refused: Vec<&String> = calls.difference(&allowed).collect();
    assert_eq!(refused, [""; 0], "its unit refuses what serve calls");
    for call in [
        "mount",
        "ptrace",
        "process_vm_writev",
        "init_module",
        "open_by_handle_at",
    ] {
        assert!(!allowed.contains(call), "{call}");
    }
}
