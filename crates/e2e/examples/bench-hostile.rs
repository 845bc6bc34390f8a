//! `cargo xtask bench hostile [--seconds 600] [--mib 256] [--ops LIST] [--json]`
//!
//! Runs the hostile workload for ten minutes while all its cold memory is paged out ten times a
//! second. No byte of its memory may be wrong.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use e2e::bench::{Args, Findings};
use e2e::guard::tail;
use e2e::hostile::Hostile;
use e2e::notice::POLICY;
use e2e::pagetide;
use e2e::temp::TempDir;
use e2e::wait::Chance;
use e2e::zram::Swap;

/// Time that the workload may take longer: its own watchdog ends it after 60 s without progress.
const SLACK: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("hostile", &args);
    let swap = Swap::new(1024);
    let seconds = args.seconds("--seconds", 600);
    let seed = Chance::from_env("hostile").below(1 << 32);
    let mib = args.text("--mib").unwrap_or_else(|| "256".to_owned());
    let ops = args.text("--ops");
    let mut more = vec!["--mib", &mib];
    more.extend(ops.iter().flat_map(|ops| ["--ops", ops]));
    let hostile = Hostile::new(seconds.as_secs(), seed, &more);
    let folder = TempDir::new();
    let report = folder.file("report.json");
    let mut options = POLICY.to_vec();
    options.extend(["--report", &report]);
    let back = e2e::proc::vmstat("pswpin");
    let running = pagetide::run(&options, hostile.run()).start();
    if let Some(stuck) = hostile.watch(&running, seconds) {
        eprintln!("{stuck}");
    }
    let outcome = running.wait(seconds + SLACK);
    let status = outcome.status.code().unwrap_or(-1);
    if status != 0 {
        eprintln!("{}\n{}", outcome.stdout, tail(&outcome.stderr, 4000));
    }
    found.figure("seed", seed as f64, "");
    found.figure("operations", hostile.ops() as f64, "");
    found.figure("ran for", outcome.took.as_secs_f64(), "s");
    found.figure("exit status (99: a wrong byte)", f64::from(status), "");
    found.at_most(
        "exit status is not 0",
        f64::from(u8::from(status != 0)),
        "",
        0.0,
    );
    // Reports pagetide's counts beside the kernel's. No other program uses this swap, so each
    // counts only this workload.
    let out = (swap.written() / 4096) as f64;
    found.at_least(
        "pages written to its swap, by the kernel",
        out,
        "",
        100_000.0,
    );
    let back = e2e::proc::vmstat("pswpin") - back;
    found.figure("pages read back, by the kernel", back as f64, "");
    let report = std::fs::read_to_string(&report).unwrap_or_default();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap_or_default();
    for name in ["evicted_pages", "refaulted_pages"] {
        found.figure(name, report[name].as_f64().unwrap_or(f64::NAN), "");
    }
    found.finish()
}
