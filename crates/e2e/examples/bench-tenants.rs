//! `cargo xtask bench tenants [--tenants 128] [--mib 24] [--rounds 12] [--ask MIB] [--slower 2]
//! [--only memcg-lru] [--json]`
//!
//! Measures whether reclaim from many tenants is fair. Runs the test of the kernel's memcg LRU
//! (`tests/programs/memcg_lru.sh`) with real fio processes in two ways: by the memcg LRU, and by
//! the iterator that it replaced in the kernel. Reports the kernel's count of swapped-out pages,
//! too.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use e2e::bench::{Args, Findings};
use e2e::guard::Run;
use e2e::proc;
use e2e::programs;
use e2e::tenants::Tree;
use e2e::zram::Swap;

/// Time limit beyond the time for which the script sleeps.
const SLACK: Duration = Duration::from_secs(300);

/// Results of one run; numbers are pages.
struct Ran {
    /// Reclaimed pages of each tenant.
    steals: Vec<f64>,
    /// Reclaimed pages of files, of all tenants together.
    files: f64,
    /// Pages that the kernel has swapped out.
    swapped_out: f64,
    /// Number of reclaim requests that were not fulfilled.
    refused: usize,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants", &args);
    let tenants = args.number("--tenants", 128);
    let mib = args.number("--mib", 24);
    // A process touches each page once in `15 * slower` seconds. The original test is as fast
    // (slower is 1): it reads and writes 1920 MiB with 64 MiB/s of reads and 64 MiB/s of writes.
    // Two processors do not have time for 128 such processes.
    let slower = args.number("--slower", 2);
    let rate = mib * 1024 / 30 / slower;
    // Each page is touched ten times first (forty times in the original test). Pages that were read
    // but not yet written are dropped, not swapped out.
    let (warm, rest) = (150 * slower, 6 * slower);
    let rounds = args.number("--rounds", 12);
    let ask = args.number("--ask", 2 * tenants);
    let only = args.text("--only");
    let numbers = [tenants, mib, rate, warm, rounds].map(|number| number.to_string());
    let rest_of = [format!("{ask}m"), rest.to_string()];
    let words: Vec<String> = numbers.into_iter().chain(rest_of).collect();
    let limit = Duration::from_secs(tenants + warm + rounds * (rest + 5)) + SLACK;
    for how in ["memcg-lru", "iterator"] {
        if only.as_ref().is_none_or(|only| only == how) {
            let _swap = Swap::new(tenants * mib * 2);
            let ran = run(how, &words, limit);
            assert_eq!(ran.steals.len() as u64, tenants, "a line of each");
            tell(&mut found, how, &ran, (rounds * ask * 256) as f64);
        }
    }
    found.finish()
}

/// Runs the test with reclaim by `how` (`memcg-lru` or `iterator`).
fn run(how: &str, words: &[String], limit: Duration) -> Ran {
    let tree = Tree::serve(&["--global", how]);
    let script = programs::source("memcg_lru.sh");
    let own = [script, tree.at("").display().to_string()];
    let before = swapped_out();
    let outcome = Run::new(own.into_iter().chain(words.iter().cloned())).finish(limit);
    Ran {
        swapped_out: swapped_out() - before,
        // Counts all tenants that have existed: the root keeps the counts of removed ones.
        files: tree.line("memory.stat", "pgsteal_file") as f64,
        steals: outcome.stdout.lines().filter_map(pgsteal).collect(),
        refused: outcome.stderr.matches("temporarily unavailable").count(),
    }
}

/// Adds the figures of a run to the results. Only the memcg LRU has goals; the iterator's figures
/// are for comparison.
fn tell(found: &mut Findings, how: &str, ran: &Ran, requested: f64) {
    let sum: f64 = ran.steals.iter().sum();
    let mean = sum / ran.steals.len() as f64;
    let squares = ran.steals.iter().map(|one| (one - mean) * (one - mean));
    let deviation = (squares.sum::<f64>() / ran.steals.len() as f64).sqrt();
    let has_goals = how == "memcg-lru";
    let mut within = |what: &str, value: f64, [least, most]: [Option<f64>; 2]| {
        let name = format!("{how}: {what}");
        if let Some(least) = least.filter(|_| has_goals) {
            found.at_least(&name, value, "%", least);
        }
        match most.filter(|_| has_goals) {
            Some(most) => found.at_most(&name, value, "%", most),
            None => found.figure(&name, value, "%"),
        }
    };
    let spread = 100.0 * deviation / mean;
    within(
        "stddev(pgsteal) / mean(pgsteal)",
        spread,
        [None, Some(10.0)],
    );
    let got = 100.0 * sum / requested;
    within(
        "sum(pgsteal) / sum(requested)",
        got,
        [Some(97.0), Some(103.0)],
    );
    let of_kernel = 100.0 * (sum - ran.files) / ran.swapped_out;
    let what = "sum(pgsteal), no files / swapped out";
    within(what, of_kernel, [Some(98.0), Some(102.0)]);
    within("pages of files", 100.0 * ran.files / sum, [None, None]);
    found.figure(
        &format!("{how}: requests that got less"),
        ran.refused as f64,
        "",
    );
}

/// Number of reclaimed pages in a line `pgsteal NUMBER` of the script.
fn pgsteal(line: &str) -> Option<f64> {
    line.strip_prefix("pgsteal ")?.trim().parse().ok()
}

/// Pages that the kernel has swapped out on the whole host since it started, including pages of
/// zeros, which are recorded but not written (since Linux 6.12). A page of /dev/zero that was only
/// read is such a page.
fn swapped_out() -> f64 {
    (proc::vmstat("pswpout") + proc::vmstat("swpout_zero")) as f64
}
