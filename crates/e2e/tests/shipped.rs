//! Files that ship with the program: rules and a dashboard for Prometheus, a manifest for
//! Kubernetes, a unit for systemd.
//!
//! promtool(1) checks the form and the results of the rules. The tests here check that they query
//! existing series and labels, by the names that `docs/interfaces.md` fixes.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::guard::{Run, Running, send};
use e2e::idle_program::IdleProgram;
use e2e::packages::done;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Groups;
use e2e::{pagetide, wait};
use rustix::process::Signal;
use serde_json::Value;

/// Time limit of commands that take well under a second.
const LIMIT: Duration = Duration::from_secs(60);

/// Names of series that do not change, so that scripts may rely on them.
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
/// Suffixes of the series of a histogram.
const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_count", "_sum"];

/// Path of a file that ships, in the directory `dist`.
fn dist_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../dist")
        .join(name)
}

/// The names of pagetide's series in a text.
fn series_in(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let words = text.split(|c| !is_name(c));
    // `tenant:pagetide_...` is no series of pagetide, but recorded by a rule.
    let names = words.filter(|word| word.starts_with("pagetide_"));
    names
        .map(|name| {
            let ends = HISTOGRAM_SUFFIXES
                .iter()
                .find_map(|end| name.strip_suffix(end));
            ends.unwrap_or(name).to_owned()
        })
        .collect()
}

/// The names in [`SERIES`].
fn expected_series() -> BTreeSet<String> {
    SERIES.map(str::to_owned).into()
}

#[test]
fn rules_compute_the_right_values_from_existing_series() {
    let _serial = serial();
    let rules = dist_path("prometheus/pagetide.rules.yml");
    let tests = dist_path("prometheus/pagetide.rules.test.yml");
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
    let unknown: Vec<String> = series_in(&code)
        .difference(&expected_series())
        .cloned()
        .collect();
    assert_eq!(unknown, [""; 0]);
    // Each alert has a test.
    let tests = std::fs::read_to_string(tests).expect("their tests are there");
    let alerts = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let untested: Vec<&str> = alerts.filter(|name| !tests.contains(*name)).collect();
    assert_eq!(untested, [""; 0]);
}

/// The recommender of vertical-pod-autoscaler 1.8.1 must find its history in the recorded series;
/// the queries here are those of its `GetClusterHistory`.
///
/// Regression: with the flags of our page it read no history: "expected query to return a matrix".
/// It sends the query of its flag for pods' labels as it is, so the flag must contain a range; its
/// default contains none.
#[test]
fn the_recommender_queries_series_that_the_rules_record() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/kubernetes.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let flags: Vec<(&str, &str)> = page
        .lines()
        .filter(|line| line.starts_with("    --"))
        .flat_map(str::split_whitespace)
        .filter_map(|flag| flag.strip_prefix("--")?.split_once('='))
        .collect();
    let flag = |name: &str| {
        let found = flags.iter().find(|(flag, _)| *flag == name);
        found
            .unwrap_or_else(|| panic!("--{name} is not in {flags:?}"))
            .1
    };
    let (pod, container) = (
        flag("container-pod-name-label"),
        flag("container-name-label"),
    );
    let query = format!(
        r#"{}{{job="{}", {pod}=~".+", {container}!="POD", {container}!=""}}"#,
        flag("history-memory-metric"),
        flag("prometheus-cadvisor-job-name"),
    );
    let tests = std::fs::read_to_string(dist_path("prometheus/pagetide.rules.test.yml"));
    let tests = tests.expect("the rules' tests are there");
    assert!(tests.contains(&format!("expr: '{query}'")), "{query}");
    for label in [pod, container, flag("container-namespace-label")] {
        assert!(tests.contains(&format!(r#"{label}=""#)), "{label}");
    }
    let labels = flag("metric-for-pod-labels");
    let range = labels
        .rsplit_once('[')
        .and_then(|(_, range)| range.strip_suffix(']'));
    assert_eq!(range, Some("8d"), "as long as the recommender's history");
    let folder = TempDir::new();
    let file = folder.file("recommender.yml");
    let rules = format!(
        "groups: [{{name: asked, rules: [{{record: a, expr: {}}}, {{record: b, expr: {}}}]}}]\n",
        Value::from(query),
        Value::from(format!("count_over_time({labels})")),
    );
    std::fs::write(&file, rules).expect("a file can be written");
    let _ = done(&Run::new(["promtool", "check", "rules", &file]));
}

#[test]
fn the_dashboard_queries_all_series_and_no_others() {
    let _serial = serial();
    let text = std::fs::read_to_string(dist_path("grafana/pagetide.json")).expect("it is there");
    let board: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = board["panels"].as_array().expect("it has panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let requested: Vec<&str> = targets
        .filter_map(|target| target["expr"].as_str())
        .collect();
    assert!(requested.len() >= panels.len(), "{requested:?}");
    assert_eq!(series_in(&requested.join("\n")), expected_series());
    // The figures of a tenant include those of all tenants below it, so no query may sum over
    // tenants. Regression: memory three levels deep was counted four times in the heat map.
    let sums_up = |expr: &str| expr.contains("sum(") || expr.contains("sum by (le)");
    let twice: Vec<&&str> = requested
        .iter()
        .filter(|expr| sums_up(expr) && expr.contains("tenant=~"))
        .collect();
    assert!(twice.is_empty(), "{twice:?}");
    // promtool can check queries only as rules; the variables that Grafana replaces are replaced
    // first.
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (number, expr) in requested.iter().enumerate() {
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

/// A cluster may allow its highest priorities only in namespaces with a quota for them. Without
/// such a quota it silently makes no pod of that priority.
#[test]
fn the_manifest_is_allowed_its_priority() {
    let text =
        std::fs::read_to_string(dist_path("kubernetes/daemonset.yaml")).expect("it is there");
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

/// Path of the systemd unit.
fn unit_path() -> String {
    dist_path("pagetide.service").to_string_lossy().into_owned()
}

/// Highest accepted exposure of the unit (systemd-analyze(1), `--threshold`): 30 is 3.0 of 10.
const EXPOSURE_MAX: &str = "--threshold=30";

/// Regression: the unit had no confinement. Any code in the process of `serve` had root's rights on
/// the host, and systemd-analyze rated its exposure as 9.6 of 10.
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
    let judged = judge(&unit_path());
    assert_eq!(judged.status.code(), Some(0), "{}", judged.stdout);
    // The check must be able to fail: systemd-analyze finds an error in a broken unit.
    let text = std::fs::read_to_string(unit_path()).expect("it is there");
    let folder = TempDir::new();
    let open = folder.file("open.service");
    let (key, other) = ("CapabilityBoundingSet=", "X-CapabilityBoundingSet=");
    std::fs::write(&open, text.replace(key, other)).expect("a file can be written");
    assert_ne!(judge(&open).status.code(), Some(0));
}

/// Adds the names of all system calls in a systemd group (`@...`) and in the groups inside it to
/// `calls`.
fn add_calls_of(group: &str, calls: &mut BTreeSet<String>) {
    let reported = done(&Run::new([
        "systemd-analyze",
        "--no-pager",
        "syscall-filter",
        group,
    ]))
    .stdout;
    for word in reported.lines().skip(1).map(str::trim) {
        match word.starts_with('@') {
            true => add_calls_of(word, calls),
            false => _ = calls.insert(word.to_owned()),
        }
    }
}

/// Names of the system calls that a unit allows.
fn allowed_calls(unit: &str) -> BTreeSet<String> {
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
                true => add_calls_of(word, &mut named),
                false => _ = named.insert(word.to_owned()),
            }
        }
        match is_denied {
            true => all.retain(|call| !named.contains(call)),
            false => all.extend(named),
        }
    }
    // In addition to the list, systemd allows every unit the calls that a process needs to begin
    // and to end (systemd.exec(5), `@default`).
    add_calls_of("@default", &mut all);
    all
}

/// `serve` with the options of the unit, under strace(1). The test waits for its mount; `Drop`
/// removes the mount.
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

    /// Path of a file below the mount of `serve`.
    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("tenants").join(path)
    }

    /// Uses all functions of the service: its mount, a tenant with a limit and a process, reclaim,
    /// HTTP, and a reload of the configuration.
    fn use_all_functions(&self) {
        let (socket, mount) = (self.folder.file("mount.sock"), self.folder.file("tenants"));
        let _ = done(&Run::new([
            pagetide::binary().as_str(),
            "__mount",
            &socket,
            &mount,
        ]));
        std::fs::create_dir(self.at("a")).expect("a tenant can be made");
        std::fs::write(self.at("a/memory.max"), "64M").expect("it has a limit");
        let idle_program = IdleProgram::start([], 8);
        let pid = idle_program.pid().to_string();
        std::fs::write(self.at("a/cgroup.procs"), pid).expect("it is moved");
        wait::until("its pages are known", LIMIT, || {
            let stat = std::fs::read_to_string(self.at("a/memory.stat")).unwrap_or_default();
            let anon = stat.lines().find_map(|line| line.strip_prefix("anon "));
            anon.and_then(|bytes| bytes.parse().ok()) >= Some(8_u64 << 20)
        });
        // Without swap this reclaim fails.
        let _ = std::fs::write(self.at("a/memory.reclaim"), "1M");
        let at = self.folder.file("metrics.sock");
        let mut stream = UnixStream::connect(at).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(head).expect("it reads");
        let mut reported = String::new();
        stream.read_to_string(&mut reported).expect("it answers");
        assert!(reported.starts_with("HTTP/1.1 200"), "{reported}");
        self.signal(Signal::HUP);
        wait::until("it is read once more", LIMIT, || {
            self.running.stdout().contains("is read once more")
        });
    }

    /// Sends a signal to `serve`, not to its strace.
    fn signal(&self, signal: Signal) {
        let all = self.running.named("pagetide");
        all.iter().for_each(|pid| send(*pid, signal));
    }

    /// Ends `serve`; returns the names of all system calls that it made.
    fn end_and_list_calls(mut self) -> BTreeSet<String> {
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
fn the_unit_allows_the_system_calls_of_serve() {
    let _serial = serial();
    let traced = Traced::start();
    traced.use_all_functions();
    let calls = traced.end_and_list_calls();
    // The trace must include the threads that read page tables and those that drop rights.
    assert!(
        calls.contains("bpf") && calls.contains("seccomp"),
        "{calls:?}"
    );
    let allowed = allowed_calls(&std::fs::read_to_string(unit_path()).expect("it is there"));
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
