//! Options do what they say: each of these tests fails when its option is ignored.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::compare::Case;
use e2e::guard::Run;
use e2e::report::Report;
use e2e::temp::{TempDir, serial};
use e2e::{pagetide, proc, programs, wait};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(120);

fn toucher(mib: u64, seconds: u64) -> Run {
    let (mib, seconds) = (mib.to_string(), seconds.to_string());
    let words = ["--mib", &mib, "--seconds", &seconds, "cold"];
    Run::new(std::iter::once(programs::c("toucher").as_str()).chain(words))
}

/// Runs it to its end, which must be a good one.
fn report_of(options: &[&str], program: &Run) -> Report {
    let folder = TempDir::new();
    let path = folder.file("report.json");
    let mut all = options.to_vec();
    all.extend(["--report", path.as_str()]);
    let outcome = pagetide::run(&all, program).finish(SOON);
    assert!(outcome.status.success(), "{options:?}: {}", outcome.stderr);
    Report::read(&folder.path().join("report.json"))
}

#[test]
fn above_high_it_is_reclaimed_and_not_stopped() {
    let _serial = serial();
    let grower = Run::new([programs::c("grower").as_str(), "--mib", "96"]);
    let report = report_of(&["--memory-high", "48M"], &grower);
    let resident = report.number("resident_bytes");
    assert!(resident < 52 * MIB, "{}", report.0);
    assert!(report.number("evicted_pages") > 10_000, "{}", report.0);
    // Where nothing may leave, `max` would be lifted and `high` slows; either way it ends.
    let options = ["--memory-high", "19M", "--swap-max", "0"];
    let report = report_of(&options, &toucher(20, 2));
    assert!(report.number("resident_bytes") > 19 * MIB, "{}", report.0);
    assert_eq!(report.number("evicted_pages"), 0, "{}", report.0);
}

#[test]
fn eviction_by_age_stops_at_min_and_low() {
    let _serial = serial();
    for option in ["--memory-min", "--memory-low"] {
        let by_age = ["--evict-older-than", "200ms", "--every", "300ms"];
        let mut options = by_age.to_vec();
        options.extend([option, "32M"]);
        let running = pagetide::run(&options, &toucher(64, 100)).start();
        let pid = || running.named("toucher").first().copied();
        let resident = || pid().and_then(proc::rss_anon).unwrap_or(0);
        // Eviction may begin before all is touched.
        let touched = || {
            let report = pid().and_then(pagetide::try_report).unwrap_or_default();
            let number = |name: &str| report[name].as_u64().unwrap_or(0);
            number("resident_bytes") + number("stored_bytes") > 63 * MIB
        };
        wait::until("64 MiB", SOON, touched);
        wait::until("eviction by age", SOON, || resident() < 40 * MIB);
        // Several periods more take nothing more.
        std::thread::sleep(Duration::from_secs(2));
        let left = resident();
        assert!((31 * MIB..40 * MIB).contains(&left), "{option}: {left}");
    }
}

#[test]
fn no_more_than_swap_max_is_stored() {
    let _serial = serial();
    let options = ["--memory-max", "16M", "--swap-max", "16M"];
    let report = report_of(&options, &toucher(64, 3));
    let stored = report.number("stored_bytes");
    assert!((8 * MIB..=16 * MIB).contains(&stored), "{}", report.0);
    // What may not go stays: the program is not stopped.
    assert!(report.number("resident_bytes") > 40 * MIB, "{}", report.0);
}

#[test]
fn with_swappiness_0_anonymous_memory_stays() {
    let _serial = serial();
    for (swappiness, leaves) in [("0", false), ("1", true)] {
        let options = [
            "--evict-older-than",
            "100ms",
            "--every",
            "200ms",
            "--swappiness",
            swappiness,
        ];
        let report = report_of(&options, &toucher(32, 4));
        let evicted = report.number("evicted_pages");
        assert_eq!(evicted > 0, leaves, "--swappiness {swappiness}: {evicted}");
    }
}

#[test]
fn the_classic_lists_hold_a_limit_too_and_know_no_ages() {
    let _serial = serial();
    let old = |report: &Report| {
        let bins = report.0["page_age"][0]["bins"].as_array();
        let bytes = bins.into_iter().flatten().skip(1);
        bytes
            .filter_map(|bin| bin["anon_bytes"].as_u64())
            .sum::<u64>()
    };
    // Pages are known, and get an age, at the first pass after they came.
    let options = [
        "--memory-max",
        "16M",
        "--age-every",
        "500ms",
        "--policy",
        "active-inactive",
    ];
    let report = report_of(&options, &toucher(48, 4));
    assert_eq!(report.0["policy"], "active-inactive");
    assert!(report.number("stored_bytes") > 30 * MIB, "{}", report.0);
    assert_eq!(old(&report), 0, "{}", report.0);
    let report = report_of(&options[..4], &toucher(48, 6));
    assert_eq!(report.0["policy"], "multi-gen");
    assert!(old(&report) > 4 * MIB, "{}", report.0);

    let command = [programs::c("grower").as_str(), "--mib", "64"].map(str::to_owned);
    Case::new("grower, classic", command)
        .options(&["--policy", "active-inactive"])
        .check();
}
