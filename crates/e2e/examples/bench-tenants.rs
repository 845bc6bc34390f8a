//! `cargo xtask bench tenants [--tenants 128] [--mib 24] [--rounds 12] [--ask MIB] [--slower 2]
//! [--rate KIB] [--warm SECONDS] [--rest SECONDS] [--only memcg-lru] [--json]`
//!
//! `cargo xtask bench tenants --sweep [--tenants 8,24,64,256] [--mib 8,40,128] [--total 8192]
//! [--heat idle|busy] [--rounds 10] [--only memcg-lru] [--json]`
//!
//! Measures whether reclaim from many tenants is fair. Runs the test of the kernel's memcg LRU
//! (`tests/programs/memcg_lru.sh`) with real fio processes in three ways: by the memcg LRU, by the
//! iterator that it replaced in the kernel, and by heat levels, which were proposed in its place.
//! Reports the kernel's count of swapped-out pages, too.
//!
//! With `--sweep`: equal tenants of many numbers and sizes, idle or with each page touched each
//! 2.5 s; a tenth of their memory is requested in some rounds, then more until it is a half.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use e2e::bench::{Args, Findings};
use e2e::fairness::{Heat, PICKERS, ReclaimedPages, Shape, shapes};
use e2e::guard::Run;
use e2e::proc;
use e2e::programs;
use e2e::tenants::Tree;
use e2e::zram::Swap;

/// Time limit beyond the time for which the script sleeps.
const SLACK: Duration = Duration::from_secs(300);
/// Pause between two requests of the sweep.
const REST: Duration = Duration::from_secs(2);

/// Results of one run; numbers are pages.
struct Ran {
    /// Reclaimed pages of each tenant.
    taken: ReclaimedPages,
    /// Reclaimed pages of files, of all tenants together.
    files: f64,
    /// Pages that the kernel has swapped out.
    swapped_out: f64,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("tenants", &args);
    let mut table = Table::new(&args);
    match args.has("--sweep") {
        true => sweep(&args, &mut found, &mut table),
        false => script(&args, &mut found, &mut table),
    }
    table.print();
    found.finish()
}

/// The pickers that are measured: that of `--only`, otherwise all.
fn pickers(args: &Args) -> Vec<&'static str> {
    let only = args.text("--only");
    let is_meant = |how: &&str| only.as_ref().is_none_or(|only| only == how);
    PICKERS.into_iter().filter(is_meant).collect()
}

/// Measures by the script, once for each picker.
fn script(args: &Args, found: &mut Findings, table: &mut Table) {
    let tenants = args.number("--tenants", 128);
    let mib = args.number("--mib", 24);
    // A process touches each page once in `15 * slower` seconds. The original test is as fast
    // (slower is 1): it reads and writes 1920 MiB with 64 MiB/s of reads and 64 MiB/s of writes.
    // Two processors do not have time for 128 such processes.
    let slower = args.number("--slower", 2);
    let rate = args.number("--rate", mib * 1024 / 30 / slower);
    // Each page is touched ten times first (forty times in the original test). Pages that were read
    // but not yet written are dropped, not swapped out.
    let warm = args.number("--warm", 150 * slower);
    let rest = args.number("--rest", 6 * slower);
    let rounds = args.number("--rounds", 12);
    let ask = args.number("--ask", 2 * tenants);
    let numbers = [tenants, mib, rate, warm, rounds].map(|number| number.to_string());
    let rest_of = [format!("{ask}m"), rest.to_string()];
    let words: Vec<String> = numbers.into_iter().chain(rest_of).collect();
    let limit = Duration::from_secs(tenants + warm + rounds * (rest + 5)) + SLACK;
    for how in pickers(args) {
        let _swap = Swap::new(tenants * mib * 2);
        let ran = run(how, &words, limit, (rounds * ask * 256) as f64);
        assert_eq!(
            ran.taken.steals.len() as u64,
            tenants,
            "a line of each tenant"
        );
        add_figures(found, how, &ran);
        table.add(&format!("{tenants} x {mib} MiB, fio"), how, &ran.taken);
    }
}

/// Runs the test with reclaim by `how`; `requested` pages are requested in total.
fn run(how: &str, words: &[String], limit: Duration, requested: f64) -> Ran {
    let tree = Tree::serve(&["--global", how]);
    let script = programs::source("memcg_lru.sh");
    let own = [script, tree.at("").display().to_string()];
    let before = swapped_out();
    let outcome = Run::new(own.into_iter().chain(words.iter().cloned())).finish(limit);
    Ran {
        swapped_out: swapped_out() - before,
        // Counts all tenants that have existed: the root keeps the counts of removed ones.
        files: tree.line("memory.stat", "pgsteal_file") as f64,
        taken: ReclaimedPages {
            steals: outcome.stdout.lines().filter_map(pgsteal).collect(),
            requested,
            refused: outcome.stderr.matches("temporarily unavailable").count(),
        },
    }
}

/// Adds the figures of a run to the results. Only the memcg LRU has goals; the figures of the
/// others are for comparison.
fn add_figures(found: &mut Findings, how: &str, ran: &Ran) {
    add_fairness(found, (how, how), &ran.taken);
    let sum = ran.taken.sum();
    let of_kernel = 100.0 * (sum - ran.files) / ran.swapped_out;
    let what = format!("{how}: sum(pgsteal), no files / swapped out");
    match how == PICKERS[0] {
        true => {
            found.at_least(&what, of_kernel, "%", 98.0);
            found.at_most(&what, of_kernel, "%", 102.0);
        }
        false => found.figure(&what, of_kernel, "%"),
    }
    let files = 100.0 * ran.files / sum;
    found.figure(&format!("{how}: pages of files"), files, "%");
}

/// Adds how evenly, and how much, was taken by picker `how`. `name` stands before each figure.
fn add_fairness(found: &mut Findings, (how, name): (&str, &str), taken: &ReclaimedPages) {
    let spread = format!("{name}: stddev(pgsteal) / mean(pgsteal)");
    let sum = format!("{name}: sum(pgsteal) / sum(requested)");
    match how == PICKERS[0] {
        true => {
            found.at_most(&spread, taken.spread(), "%", 10.0);
            found.at_least(&sum, taken.percent(), "%", 97.0);
            found.at_most(&sum, taken.percent(), "%", 103.0);
        }
        false => {
            found.figure(&spread, taken.spread(), "%");
            found.figure(&sum, taken.percent(), "%");
        }
    }
    let refused = format!("{name}: requests that got less");
    found.figure(&refused, taken.refused as f64, "");
}

/// Measures tenants of many numbers and sizes, each idle and busy, by each picker.
fn sweep(args: &Args, found: &mut Findings, table: &mut Table) {
    let tenants = numbers(args, "--tenants", &[8, 24, 64, 256]);
    let sizes = numbers(args, "--mib", &[8, 40, 128]);
    let heats = match args.text("--heat").as_deref() {
        None => vec![Heat::Idle, Heat::Busy],
        Some("idle") => vec![Heat::Idle],
        Some("busy") => vec![Heat::Busy],
        Some(other) => panic!("--heat {other}: idle or busy"),
    };
    for (tenants, mib) in shapes(&tenants, &sizes, args.number("--total", 8192)) {
        for &heat in &heats {
            let shape = Shape {
                tenants,
                mib,
                heat,
                rounds: args.number("--rounds", 10),
                rest: REST,
            };
            for how in pickers(args) {
                let _swap = Swap::new(2 * shape.total_mib());
                let taken = shape.measure(how);
                for (part, taken) in ["a tenth", "a half"].into_iter().zip(&taken) {
                    let heat = heat.name();
                    let row = format!("{tenants} x {mib} MiB, {heat}, {part}");
                    add_fairness(found, (how, &format!("{row}, {how}")), taken);
                    table.add(&row, how, taken);
                }
            }
        }
    }
}

/// The numbers after the option `name`, separated by commas; `otherwise` without that option.
fn numbers(args: &Args, name: &str, otherwise: &[u64]) -> Vec<u64> {
    let Some(text) = args.text(name) else {
        return otherwise.to_vec();
    };
    let number = |word: &str| word.parse().unwrap_or_else(|_| panic!("{name} {text}"));
    text.split(',').map(number).collect()
}

/// A table with a row for each shape and a column for each picker.
struct Table {
    /// Whether it is printed: not with `--json`.
    is_shown: bool,
    /// Rows: the shape, then a cell for each picker.
    rows: Vec<(String, [String; PICKERS.len()])>,
}

impl Table {
    fn new(args: &Args) -> Table {
        Table {
            is_shown: !args.has("--json"),
            rows: Vec::new(),
        }
    }

    /// Sets the cell of picker `how` in the row `shape`.
    fn add(&mut self, shape: &str, how: &str, taken: &ReclaimedPages) {
        let (spread, percent, refused) = (taken.spread(), taken.percent(), taken.refused);
        let cell = format!("{spread:.1}%, {percent:.1}%, {refused}");
        let row = self.rows.iter().position(|(name, _)| name == shape);
        let row = row.unwrap_or_else(|| {
            self.rows.push((shape.to_owned(), Default::default()));
            self.rows.len() - 1
        });
        if let Some(at) = PICKERS.iter().position(|picker| *picker == how) {
            self.rows[row].1[at] = cell;
        }
    }

    /// Prints the table.
    fn print(&self) {
        if !self.is_shown {
            return;
        }
        println!("\nspread of what was taken, part of the requested amount, EAGAIN");
        println!("| tenants | {} |", PICKERS.join(" | "));
        println!("|{}", "---|".repeat(PICKERS.len() + 1));
        for (shape, cells) in &self.rows {
            println!("| {shape} | {} |", cells.join(" | "));
        }
    }
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
