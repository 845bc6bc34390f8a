//! `cargo xtask bench whatif [--part limit|record] [--watch 180] [--hold 180] [--json]`
//!
//! Part **limit** compares predictions of `report --curve` for less memory with measurements. Five
//! programs access their memory at a steady rate, all at the same time. `report` watches each of
//! them. Then `pagetide attach --memory-max` limits it to the two sizes that the curve names, first
//! the recommended size, then the bend of the curve. The kernel's count of major faults is compared
//! with the prediction. The swap is a zram of our own, so the kernel does not read ahead. At the
//! end every value in the programs must be right.
//!
//! Part **record** compares a recording with a trace of all accesses, and measures what recording
//! costs. A program writes each access into a trace while it is recorded; `pagetide mrc` reads each
//! file.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings};
use e2e::guard::Run;
use e2e::paced::{KeyPattern, Pace, Paced};
use e2e::temp::TempDir;
use e2e::zram::Swap;
use e2e::{pagetide, programs};
use serde_json::Value;

/// Time after which the programs have finished starting.
const WARM: Duration = Duration::from_secs(60);
/// Time after which a new limit is in effect: pages above a lower limit are paged out, and pages
/// that a higher limit allows are resident again.
const SETTLED: Duration = Duration::from_secs(60);
const MIB: f64 = 1_048_576.0;
/// Names of the sizes in the curve's JSON.
const RULES: [&str; 2] = ["recommended", "knee"];

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("whatif", &args);
    let part = args.text("--part");
    if part.as_deref().is_none_or(|part| part == "record") {
        record(&args, &mut found);
    }
    if part.as_deref().is_none_or(|part| part == "limit") {
        limit(&args, &mut found);
    }
    found.finish()
}

/// A size that the curve names.
#[derive(Clone, Copy)]
struct Chosen {
    /// The limit for `--memory-max`, bytes.
    limit: f64,
    /// For `--age-every`, seconds.
    age_every: f64,
    /// Predicted refaults per minute.
    per_minute: f64,
}

/// Runs part `limit`, which compares predicted refaults with measured ones.
fn limit(args: &Args, found: &mut Findings) {
    let (watch, hold) = (args.seconds("--watch", 180), args.seconds("--hold", 180));
    let swap = Swap::new(4096);
    let pace = Pace {
        values: 56_000,
        per_second: 6000,
        seconds: 4 * (watch + 2 * (hold + SETTLED)).as_secs(),
    };
    let of_redis = Pace {
        per_second: 3000,
        ..pace
    };
    let all = [
        Paced::array("rare", pace),
        Paced::python("python, a dict", "dict", pace),
        Paced::python("python, sqlite", "sqlite", pace),
        Paced::node(pace),
        Paced::redis(of_redis, KeyPattern::Half),
    ];
    sleep(WARM);
    let curves = curves(&all, watch);
    for (one, curve) in all.iter().zip(&curves) {
        let figure = |name: &str| curve[name].as_f64().unwrap_or(f64::NAN) / MIB;
        found.figure(
            &format!("{}: working set", one.name),
            figure("working_set_bytes"),
            "MiB",
        );
    }
    report_lateness(found, "watched", &all);
    for rule in RULES {
        let chosen: Vec<_> = curves
            .iter()
            .map(|curve| parse_chosen(&curve[rule]))
            .collect();
        measure_limits(found, rule, (&all, &chosen), hold);
    }
    assert!(
        all.iter().all(Paced::is_healthy),
        "a program found what it had not put there, or ended"
    );
    found.figure("most in swap at the end", swap.used() as f64 / MIB, "MiB");
}

/// Reports by how much requests to redis were late: a value that is not requested does not refault.
fn report_lateness(found: &mut Findings, when: &str, all: &[Paced]) {
    let most = all.iter().map(Paced::late_ms).max().unwrap_or(0);
    found.figure(
        &format!("{when}: redis was asked late by at most"),
        most as f64,
        "ms",
    );
}

/// Runs `report --curve` on all programs at the same time; returns the curve of each.
fn curves(all: &[Paced], watch: Duration) -> Vec<Value> {
    let time = format!("{}s", watch.as_secs());
    std::thread::scope(|scope| {
        let reports: Vec<_> = all
            .iter()
            .map(|one| {
                let words = [
                    "report",
                    "--curve",
                    "--json",
                    "--for",
                    &time,
                    &one.pid.to_string(),
                ];
                let report = pagetide::command(words);
                scope.spawn(move || {
                    let outcome = report.finish(watch + Duration::from_secs(60));
                    assert!(outcome.status.success(), "report: {}", outcome.stderr);
                    let mut report: Value =
                        serde_json::from_str(&outcome.stdout).expect("the report is JSON");
                    report["curve"].take()
                })
            })
            .collect();
        let ended = reports.into_iter().map(|report| report.join());
        ended.map(|curve| curve.expect("a curve")).collect()
    })
}

/// Parses a named size; `None` if the curve has none of this name.
fn parse_chosen(value: &Value) -> Option<Chosen> {
    Some(Chosen {
        limit: value["limit_bytes"].as_f64()?,
        age_every: value["age_every_ms"].as_f64()? / 1000.0,
        per_minute: value["refaults_per_minute"].as_f64()?,
    })
}

/// Limits each program to its size for `time`, and compares its refaults with the prediction.
fn measure_limits(
    found: &mut Findings,
    rule: &str,
    (all, chosen): (&[Paced], &[Option<Chosen>]),
    time: Duration,
) {
    let both = || {
        let both = all.iter().zip(chosen);
        both.filter_map(|(one, chosen)| Some((one, (*chosen)?)))
    };
    let managers: Vec<_> = both()
        .map(|(one, chosen)| {
            let (size, every) = (
                format!("{:.0}", chosen.limit),
                format!("{:.0}s", chosen.age_every),
            );
            let pid = one.pid.to_string();
            let words = ["attach", "--age-every", &every, "--memory-max", &size, &pid];
            pagetide::command(words).start()
        })
        .collect();
    sleep(SETTLED);
    let mark = || -> Vec<(Instant, [f64; 2])> {
        let marks = both().map(|(one, _)| {
            let ours = pagetide::report(one.pid)["refaulted_pages"].as_f64();
            (
                Instant::now(),
                [one.major_faults() as f64, ours.unwrap_or(f64::NAN)],
            )
        });
        marks.collect()
    };
    let before = mark();
    sleep(time);
    for ((one, chosen), (then, now)) in both().zip(before.into_iter().zip(mark())) {
        let minutes = (now.0 - then.0).as_secs_f64() / 60.0;
        let [kernel, ours] = [0, 1].map(|at| (now.1[at] - then.1[at]) / minutes);
        let name = format!("{}, {rule}", one.name);
        found.figure(&format!("{name}: limit"), chosen.limit / MIB, "MiB");
        found.figure(&format!("{name}: predicted"), chosen.per_minute, "a minute");
        found.figure(&format!("{name}: kernel's count"), kernel, "a minute");
        found.figure(&format!("{name}: ours"), ours, "a minute");
        let error = 100.0 * (kernel / chosen.per_minute - 1.0);
        found.figure(&format!("{name}: more than predicted"), error, "%");
        found.at_most(&format!("{name}: off by"), error.abs(), "%", 20.0);
    }
    // A program without a named size cannot miss a prediction, so their number is checked, too.
    let sizes = both().count() as f64;
    found.at_least(
        &format!("{rule}: programs with a size"),
        sizes,
        "",
        all.len() as f64,
    );
    report_lateness(found, rule, all);
    for (one, _) in both() {
        let done = pagetide::on("detach", one.pid);
        assert!(done.status.success(), "detach: {}", done.stderr);
    }
    drop(managers);
}

/// Runs part `record`, which compares recordings with traces.
fn record(args: &Args, found: &mut Findings) {
    let seconds = args.number("--seconds", 60);
    for (pattern, mib, rate) in [("tail", 128, 4000), ("zipf", 128, 4000), ("loop", 64, 4000)] {
        for every in ["500ms", "1s", "5s"] {
            compare_recording(found, (pattern, mib, rate, seconds), every);
        }
    }
    record_redis(found, seconds);
}

/// Measures what recording redis costs: the processor time of a manager that records and of one
/// that does not.
fn record_redis(found: &mut Findings, seconds: u64) {
    let folder = TempDir::new();
    let redis = Paced::redis(
        Pace {
            values: 60_000,
            per_second: 5000,
            seconds: 4 * seconds + 60,
        },
        KeyPattern::Half,
    );
    let (pid, time) = (redis.pid.to_string(), format!("{seconds}s"));
    let attached = |more: &[&str]| -> Value {
        let words = [
            "attach",
            "--dry-run",
            "--json",
            "--age-every",
            "1s",
            "--for",
            &time,
        ];
        let words = words
            .into_iter()
            .chain(more.iter().copied())
            .chain([pid.as_str()]);
        let outcome = pagetide::command(words).finish(Duration::from_secs(seconds + 60));
        assert!(outcome.status.success(), "attach: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).expect("the report is JSON")
    };
    let plain = attached(&[]);
    let with = attached(&["--record", &folder.file("redis.rec")]);
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let share = |report: &Value, ms: &Value| 100.0 * number(ms) / number(&report["wall_ms"]);
    let reported = &with["recording"];
    let per_minute = number(&reported["bytes"]) / 1024.0 * 60_000.0 / number(&with["wall_ms"]);
    found.figure(
        "redis: resident",
        number(&with["resident_bytes"]) / MIB,
        "MiB",
    );
    found.figure("redis: recorded", per_minute, "KiB/min");
    found.figure(
        "redis: recorder",
        share(&with, &reported["took_ms"]),
        "% of a core",
    );
    let cpu = |report: &Value| share(report, &report["overhead"]["cpu_ms"]);
    found.figure("redis: manager that records", cpu(&with), "% of a core");
    found.figure("redis: manager that does not", cpu(&plain), "% of a core");
    assert!(redis.is_healthy(), "redis gave what nobody had put there");
}

/// Records a program that also writes a trace; compares refaults at several sizes by the recording
/// and by the trace.
fn compare_recording(
    found: &mut Findings,
    (pattern, mib, rate, seconds): (&str, u64, u64, u64),
    every: &str,
) {
    let folder = TempDir::new();
    let [trace, recording, report] =
        ["t.oracleGeneral", "t.rec", "report.json"].map(|name| folder.file(name));
    let program = programs::c("paced");
    let words = format!(
        "sleep {} | {} run --dry-run --age-every {every} --record {recording} --report {report} -- \
         {program} {pattern} {mib} {rate} {seconds} {trace}",
        seconds + 30,
        pagetide::binary()
    );
    let outcome = Run::new(["sh", "-c", &words]).finish(Duration::from_secs(seconds + 120));
    assert!(outcome.status.success(), "run --record: {}", outcome.stderr);
    let report = e2e::wait::poll(Duration::from_secs(20), || {
        let text = std::fs::read_to_string(&report).ok()?;
        serde_json::from_str::<Value>(&text).ok()
    });
    let report = report.expect("a report");
    let reported = &report["recording"];
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let elapsed_ms = number(&report["wall_ms"]);
    let name = format!("{pattern}, a look each {every}");
    let minutes = elapsed_ms / 60_000.0;
    found.figure(
        &format!("{name}: recorded"),
        number(&reported["bytes"]) / 1024.0 / minutes,
        "KiB/min",
    );
    let share = 100.0 * number(&reported["took_ms"]) / elapsed_ms;
    found.figure(&format!("{name}: recorder"), share, "% of a core");
    let whole = 100.0 * number(&report["overhead"]["cpu_ms"]) / elapsed_ms;
    found.figure(&format!("{name}: manager with it"), whole, "% of a core");
    let sizes: Vec<String> = (2..10)
        .map(|tenth| format!("{}M", mib * tenth / 10))
        .collect();
    let (of_scans, of_all) = (misses(&recording, &sizes), misses(&trace, &sizes));
    for ((size, scans), all) in sizes.iter().zip(&of_scans).zip(&of_all) {
        let error = 100.0 * (scans / all - 1.0);
        found.figure(
            &format!("{name}: refaults at {size}, of the trace's {all:.0}"),
            error,
            "% more",
        );
    }
}

/// Number of refaults at each size by `pagetide mrc`: misses that are not the first access to a
/// page.
fn misses(file: &str, sizes: &[String]) -> Vec<f64> {
    let words = ["mrc", "--json", "--sizes", &sizes.join(","), file];
    let outcome = pagetide::command(words).finish(Duration::from_secs(120));
    assert!(outcome.status.success(), "mrc: {}", outcome.stderr);
    let curve: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let (references, pages) = (number(&curve["references"]), number(&curve["pages"]));
    let sizes = curve["sizes"].as_array().expect("sizes").iter();
    sizes
        .map(|size| number(&size["miss_ratio"]["lru"]) * references - pages)
        .collect()
}
