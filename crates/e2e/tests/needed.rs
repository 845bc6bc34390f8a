//! `report` states how much memory a program needs: one size, checked on programs with known needs.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::temp::{TempDir, serial};
use e2e::web::{float, listening, samples};
use e2e::{pagetide, programs, wait};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
/// Range of right results, bytes: the program uses two fifths of 64 MiB again and again (25.6 MiB).
const NEEDED_RANGE: std::ops::Range<u64> = 23 * MIB..30 * MIB;

/// Starts a program that uses two fifths of its 64 MiB again and again; returns it, and its pid as
/// text.
fn start_hotcold() -> (Running, String) {
    let program = programs::c("paced");
    let command = format!("exec {program} hotcold 64 20000 90 < <(exec sleep 90 2>/dev/null)");
    let running = Run::new(["bash", "-c", &command]).start();
    let pid = wait::poll(SOON, || {
        let text = running.stdout();
        text.strip_prefix("ready pid=")?.trim().parse::<u32>().ok()
    });
    (running, pid.expect("it is ready").to_string())
}

/// The JSON output of a command, which must have succeeded.
fn json(outcome: &Outcome) -> Value {
    assert!(outcome.status.success(), "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", outcome.stdout))
}

/// The needed bytes in the object `needed` of a report.
fn needed_bytes(needed: &Value) -> u64 {
    needed["bytes"]
        .as_u64()
        .unwrap_or_else(|| panic!("{needed}"))
}

#[test]
fn a_report_states_the_needed_size() {
    let _turn = serial();
    let (_running, pid) = start_hotcold();
    let watched = || {
        let words = ["report", &pid, "--for", "8s", "--json"];
        json(&pagetide::command(words).finish(SOON))
    };
    let mut report = watched();
    // On a busy machine ages are unknown for most of these 8 s; `watched_ms` in the report says so.
    for _ in 0..2 {
        if report["needed"]["watched_ms"].as_u64() < Some(4000) {
            report = watched();
        }
    }
    let needed = &report["needed"];
    assert!(NEEDED_RANGE.contains(&needed_bytes(needed)), "{needed}");
    assert_eq!(
        needed["confidence"], "low",
        "it was watched for seconds: {needed}"
    );
    assert!(
        needed["cost_percent"].as_f64().expect("a cost") <= 0.11,
        "{needed}"
    );
    let high = needed["suggest"]["memory_high_bytes"].as_u64();
    let max = needed["suggest"]["memory_max_bytes"].as_u64();
    assert!(
        needed_bytes(needed) < high.expect("a size") && high < max,
        "{needed}"
    );
    let plain = pagetide::command(["report", &pid, "--for", "3s"]).finish(SOON);
    let first = plain.stdout.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("needs ") && first.contains(" now"),
        "{}",
        plain.stdout
    );
    let text = plain.stdout.replace('\n', " ");
    assert!(
        text.contains("low confidence: watched "),
        "{}",
        plain.stdout
    );
}

/// Regression: a report began while another one watched the same program. When the other report
/// ended, the pages that it had watched counted as used: 224 of 229 MiB were needed, while 21 MiB
/// were in use.
#[test]
fn pages_that_a_second_report_took_over_do_not_count_as_used() {
    let _turn = serial();
    let (_running, pid) = start_hotcold();
    let first = pagetide::command(["report", &pid, "--for", "10s", "--json"]).start();
    std::thread::sleep(Duration::from_secs(2));
    let words = ["report", &pid, "--for", "20s", "--curve", "--json"];
    let report = json(&pagetide::command(words).finish(SOON));
    let first = json(&first.wait(SOON));
    assert!(
        NEEDED_RANGE.contains(&needed_bytes(&first["needed"])),
        "{}",
        first["needed"]
    );
    let needed = &report["needed"];
    assert!(NEEDED_RANGE.contains(&needed_bytes(needed)), "{needed}");
    let blind = report["curve"]["blind_ms"].as_u64().expect("a time");
    assert!(blind > 0, "the first one was there: {}", report["curve"]);
    let points = report["curve"]["points"].as_array().expect("points");
    let rate = |point: &Value| point["refaults_per_minute"].as_f64().expect("a rate");
    assert!(
        points.is_sorted_by(|one, next| rate(one) >= rate(next)),
        "{points:?}"
    );
}

/// Regression: if a program began in a new tenant, all of its memory counted as the working set.
#[test]
fn a_tenant_needs_what_its_programs_use() {
    let _turn = serial();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    tree.make("web");
    // The tenant has been scanned some times before the program begins.
    std::thread::sleep(Duration::from_secs(2));
    let (_running, pid) = start_hotcold();
    tree.write("web/cgroup.procs", &pid);
    let gauge = |name: &str| -> Option<f64> {
        let text = place.get("/metrics").body;
        let key = format!("{name}{{tenant=\"/web\"}}");
        samples(&text).get(&key).copied()
    };
    // At first all new memory counts as needed. On a busy machine this lasts longer.
    let mut last = None;
    let is_right = wait::poll(SOON, || {
        last = gauge("pagetide_needed_bytes");
        let is_right = last.is_some_and(|bytes| {
            (float(NEEDED_RANGE.start)..float(NEEDED_RANGE.end)).contains(&bytes)
        });
        is_right.then_some(())
    });
    is_right.unwrap_or_else(|| panic!("the number of the tenant was {last:?} at last"));
    assert_eq!(gauge("pagetide_needed_confidence"), Some(0.0));
    assert!(gauge("pagetide_refaults_predicted").is_some());
}

/// The report prints the needed size in all forms in which limits are set.
#[test]
fn the_needed_size_is_printed_in_all_forms_of_limits() {
    let _turn = serial();
    let (_running, pid) = start_hotcold();
    let answer = |format: &str| {
        let words = ["recommend", &pid, "--for", "10s", "--format", format];
        let outcome = pagetide::command(words).finish(SOON);
        assert!(outcome.status.success(), "{}", outcome.stderr);
        outcome
    };
    let reported = json(&answer("json"));
    let needed = &reported["parts"][0]["needed"];
    assert!(NEEDED_RANGE.contains(&needed_bytes(needed)), "{reported}");
    let systemd = answer("systemd").stdout;
    assert!(
        systemd.contains("[Service]\nMemoryHigh=") && systemd.contains("\nMemoryMax="),
        "{systemd}"
    );
    let k8s = answer("k8s").stdout;
    assert!(
        k8s.contains("resources:\n  requests:\n    memory: ") && k8s.contains("Mi\n"),
        "{k8s}"
    );
    let table = answer("table").stdout;
    assert!(
        table.starts_with("name ") && table.contains(" low"),
        "{table}"
    );
}
