//! What is shipped beside the program: rules and a dashboard for Prometheus's figures, a manifest for Kubernetes.
//!
//! promtool(1) judges their form and what they say; that they ask for series and labels that there are is judged here, by the
//! names that `docs/interfaces.md` fixes.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use e2e::guard::Run;
use e2e::packages::done;
use e2e::temp::{TempDir, serial};
use serde_json::Value;

/// Series that scripts may rely on.
const SERIES: [&str; 8] = [
    "pagetide_build_info",
    "pagetide_overhead_cpu_seconds_total",
    "pagetide_page_age_bytes",
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
