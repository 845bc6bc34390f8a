//! `cargo xtask bench promotion-rate [--keys 50000] [--per-second 2000] [--before 375] [--seconds
//! 300] [--history 300] [--json]`
//!
//! Runs redis under the policy `promotion-rate`. Measures the refaults in a time window as a
//! percentage of the memory in use, by the kernel's count.
//!
//! Four servers run at the same time. Two of them get requests for all their keys; the other two
//! get requests for half of their keys and for all of them in turn. In each pair, one server's
//! policy treats all minutes as one (`percentile=0%`), and the other's has the default percentile,
//! which keeps each minute below the rate. All times are a twelfth of the policy's defaults, so the
//! rate is twelve times its default: 2.4% in a minute is 0.2% in five seconds.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use e2e::bench::{Args, Findings, median};
use e2e::guard::Running;
use e2e::paced::{KeyPattern, Pace, Paced};
use e2e::zram::Swap;
use e2e::{pagetide, proc};
use serde_json::Value;

/// Factor by which all times are shorter than the policy's defaults.
const FASTER: u64 = 12;
/// Refaults allowed in a window, percent of the memory in use; the policy's default for a minute.
const RATE: f64 = 0.2;
/// Allowed deviation from the rate: 0.2 is 20% of the rate.
const WITHIN: f64 = 0.2;
/// Time in which refaults are counted, a minute in the policy's defaults.
const WINDOW: Duration = Duration::from_secs(60 / FASTER);
/// A page that was used within this time is in use, milliseconds.
const MIN_AGE_MS: u64 = 120_000 / FASTER;
/// Time for which half of the keys are requested, and then all of them.
const EACH: Duration = Duration::from_secs(900 / FASTER);

/// A redis server with its client and its manager.
struct Managed {
    name: String,
    /// The policy's percentile.
    percentile: u64,
    program: Paced,
    _manager: Running,
    /// Major faults of the server up to the last window.
    before: u64,
    /// Refaults of each window, percent of the memory in use.
    came: Vec<f64>,
    /// Memory in use at the end of each window, MiB.
    in_use: Vec<f64>,
}

impl Managed {
    fn start(
        (kind, requested): (&str, KeyPattern),
        (percentile, history): (u64, Duration),
        pace: Pace,
    ) -> Managed {
        let program = Paced::redis(pace, requested);
        let pid = program.pid.to_string();
        let rule = format!(
            "promotion-rate:rate={}%,percentile={percentile}%,min-age={}s,window={}s,warm-up={}s,history={}s",
            RATE * FASTER as f64,
            MIN_AGE_MS / 1000,
            WINDOW.as_secs(),
            600 / FASTER,
            history.as_secs()
        );
        let manager = pagetide::command(["attach", "--evict-by", &rule, &pid]).start();
        Managed {
            name: format!("{kind}, percentile {percentile}%"),
            percentile,
            program,
            _manager: manager,
            before: 0,
            came: Vec::new(),
            in_use: Vec::new(),
        }
    }

    /// Records the refaults of the window that has just ended, in percent of the memory in use.
    fn note(&mut self) {
        let faults = self.program.major_faults();
        let came = faults - std::mem::replace(&mut self.before, faults);
        let report = pagetide::report(self.program.pid);
        let bins = report["page_age"].as_array().into_iter().flatten();
        let bins = bins.filter_map(|node| node["bins"].as_array()).flatten();
        let young = bins.filter(|bin| bin["older_than_ms"].as_u64() < Some(MIN_AGE_MS));
        let bytes = |bin: &Value| bin["anon_bytes"].as_u64().unwrap_or(0);
        let in_use: u64 = young.map(bytes).sum::<u64>() / 4096;
        self.in_use.push(in_use as f64 / 256.0);
        self.came.push(100.0 * came as f64 / in_use.max(1) as f64);
    }
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("promotion-rate", &args);
    let (before, time) = (
        args.seconds("--before", 375),
        args.seconds("--seconds", 300),
    );
    let pace = Pace {
        values: args.number("--keys", 50_000),
        per_second: args.number("--per-second", 2000),
        seconds: 2 * (before + time).as_secs(),
    };
    let _swap = Swap::new(4096);
    let kinds = [
        ("steady", KeyPattern::All),
        ("doubles and halves", KeyPattern::Doubling(EACH)),
    ];
    let history = args.seconds("--history", 3600 / FASTER);
    let of = |kind| [0, 98].map(|percentile| Managed::start(kind, (percentile, history), pace));
    let mut all: Vec<Managed> = kinds.into_iter().flat_map(of).collect();
    std::thread::sleep(before);
    for one in &mut all {
        one.before = one.program.major_faults();
    }
    for _ in 0..time.as_secs() / WINDOW.as_secs() {
        std::thread::sleep(WINDOW);
        all.iter_mut().for_each(Managed::note);
    }
    for one in &all {
        assert!(
            one.program.is_healthy(),
            "{}: a wrong answer, or none",
            one.name
        );
        add_results(one, &mut found);
    }
    found.finish()
}

/// Adds a server's figures to the results.
fn add_results(one: &Managed, found: &mut Findings) {
    let name = |what: &str| format!("{}: {what}", one.name);
    let mean = one.came.iter().sum::<f64>() / one.came.len().max(1) as f64;
    let what = name("came back a window, of what is in use");
    // The default policy keeps each minute below the rate.
    found.at_most(&what, mean, "%", RATE * (1.0 + WITHIN));
    match one.percentile {
        0 => found.at_least(&what, mean, "%", RATE * (1.0 - WITHIN)),
        _ => found.figure(&what, mean, "%"),
    }
    // A window with less memory in use counts less.
    let together: f64 = (one.came.iter().zip(&one.in_use))
        .map(|(came, in_use)| came * in_use)
        .sum();
    let in_use: f64 = one.in_use.iter().sum();
    let what = name("the same of all windows together");
    found.figure(&what, together / in_use, "%");
    let above = one
        .came
        .iter()
        .filter(|came| **came > RATE * (1.0 + WITHIN))
        .count();
    let part = 100.0 * above as f64 / one.came.len().max(1) as f64;
    found.figure(&name("windows above"), part, "%");
    found.figure(&name("in use"), median(&one.in_use), "MiB");
    let swapped = proc::number(one.program.pid, "VmSwap").unwrap_or(0) >> 20;
    found.figure(&name("in swap at the end"), swapped as f64, "MiB");
    let policy = &pagetide::report(one.program.pid)["policy"];
    let threshold = policy["threshold_ms"].as_f64().unwrap_or(f64::NAN) / 1000.0;
    found.figure(&name("the threshold at the end"), threshold, "s");
    found.figure(
        &name("asked late by at most"),
        one.program.late_ms() as f64,
        "ms",
    );
}
