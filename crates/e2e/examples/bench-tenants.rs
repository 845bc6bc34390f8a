//! `cargo xtask bench tenants [--tenants 128] [--mib 24] [--rate KIB] [--warm S] [--rounds 12] [--rest S] [--ask MIB] [--json]`: is
//! reclaim of many tenants fair? The memcg LRU's own test (`tests/programs/memcg_lru.sh`) on real fio processes, by the
//! memcg LRU and by the iterator that it replaced, with the kernel's count of pages swapped out beside.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use e2e::bench::{Args, Findings};
use e2e::guard::Run;
use e2e::programs;
use e2e::tenants::Tree;
use e2e::zram::Swap;

/// Beyond what the sleeps of the script come to.
const SLACK: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants", &args);
    let tenants = args.number("--tenants", 128);
    let mib = args.number("--mib", 24);
    // Each page once in 15 s, as 64 MiB/s read and written do with 1920 MiB.
    let rate = args.number("--rate", mib * 1024 / 30);
    let (warm, rounds) = (args.number("--warm", 45), args.number("--rounds", 12));
    let (rest, ask) = (args.number("--rest", 6), args.number("--ask", 2 * tenants));
    let words = [tenants, mib, rate, warm, rounds].map(|number| number.to_string());
    let limit = Duration::from_secs(warm + rounds * (rest + 5)) + SLACK;
    for how in ["memcg-lru", "iterator"] {
        let _swap = Swap::new(tenants * mib * 2);
        let tree = Tree::serve(&["--global", how]);
        let script = programs::source("memcg_lru.sh");
        let mut argv = vec![script, tree.at("").display().to_string()];
        argv.extend(words.iter().cloned());
        argv.extend([format!("{ask}m"), rest.to_string()]);
        let before = swapped_out();
        let outcome = Run::new(argv).finish(limit);
        let out = swapped_out() - before;
        let steals: Vec<f64> = outcome.stdout.lines().filter_map(pgsteal).collect();
        assert_eq!(steals.len() as u64, tenants, "{}", outcome.stderr);
        let refused = outcome.stderr.matches("temporarily unavailable").count();
        let sum: f64 = steals.iter().sum();
        let mean = sum / steals.len() as f64;
        let square = steals
            .iter()
            .map(|one| (one - mean) * (one - mean))
            .sum::<f64>();
        let deviation = (square / steals.len() as f64).sqrt();
        let name = |what: &str| format!("{how}: {what}");
        let (spread, got) = (
            100.0 * deviation / mean,
            100.0 * sum / (rounds * ask * 256) as f64,
        );
        let of_kernel = 100.0 * sum / out;
        if how == "memcg-lru" {
            found.at_most(&name("stddev(pgsteal) / mean(pgsteal)"), spread, "%", 10.0);
            found.at_least(&name("sum(pgsteal) / sum(requested)"), got, "%", 97.0);
            found.at_most(&name("sum(pgsteal) / sum(requested)"), got, "%", 103.0);
            found.at_least(&name("sum(pgsteal) / swapped out"), of_kernel, "%", 98.0);
            found.at_most(&name("sum(pgsteal) / swapped out"), of_kernel, "%", 102.0);
        } else {
            found.figure(&name("stddev(pgsteal) / mean(pgsteal)"), spread, "%");
            found.figure(&name("sum(pgsteal) / sum(requested)"), got, "%");
            found.figure(&name("sum(pgsteal) / swapped out"), of_kernel, "%");
        }
        found.figure(&name("requests that got less"), refused as f64, "");
    }
    found.finish()
}

fn pgsteal(line: &str) -> Option<f64> {
    line.strip_prefix("pgsteal ")?.trim().parse().ok()
}

/// Pages that the kernel has swapped out, of the whole host: those that hold nothing but zeros are noted and not
/// written (since Linux 6.12), and a page of /dev/zero that was only read is one.
fn swapped_out() -> f64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.trim().parse().ok())
            .unwrap_or(0.0)
    };
    count("pswpout ") + count("swpout_zero ")
}
