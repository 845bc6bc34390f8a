//! `cargo xtask bench kernel [--cells NAME,..] [--share 50,75] [--rounds 3] [--options WORDS]
//! [--no-ledger | --only-ledger] [--json]`
//!
//! Limits programs to a part of the memory that they use, and compares two ways: the kernel's limit
//! (a control group with the same swap) and pagetide's limit. They take turns. A cell is a workload
//! and the percentage of its unlimited peak to which it is limited. Ratios are of medians over the
//! rounds.
//!
//! A ledger compares pagetide's count of swapped-out memory with the kernel's. With `--only-ledger`
//! each cell runs only that, under pagetide's limit.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use e2e::bench::{Args, Findings, median};
use e2e::cells::{CELLS, Cell};
use e2e::sides::{Ledger, Measured, RunSetup, Side};
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;

/// Results of a cell.
struct Line {
    name: String,
    /// Duration in seconds: without a limit, under the kernel's limit, under pagetide's limit.
    seconds: [f64; 3],
    /// Speed under pagetide divided by speed under the kernel; infinite if all runs of the kernel
    /// were killed.
    speed: f64,
    /// Number of pages swapped in: under the kernel, under pagetide; NaN if all runs were killed.
    swapped_in: [f64; 2],
    /// Processor time of pagetide, percent of the run's duration.
    cpu_percent: f64,
    /// Number of killed processes: under the kernel, under pagetide.
    kills: [u64; 2],
    /// Largest `peak - limit` of a run without a kill, bytes: under the kernel, under pagetide.
    over: [u64; 2],
    /// Percentage of what pagetide counts as swapped out that the kernel counts, too; `None` with
    /// `--no-ledger`.
    ledger: Option<Ledger>,
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let _swap = Swap::if_none(4096);
    let list = |name: &str, otherwise: &str| -> Vec<String> {
        let text = args.text(name).unwrap_or_else(|| otherwise.to_owned());
        text.split([',', ' '])
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (names, options) = (list("--cells", ""), list("--options", ""));
    let shares = list("--share", "50,75");
    let only_ledger = args.has("--only-ledger");
    let (mut lines, mut ledgers) = (Vec::new(), Vec::new());
    for cell in CELLS {
        if !names.is_empty() && !names.iter().any(|name| name == cell.name) {
            continue;
        }
        if !cell.is_there() {
            eprintln!("{}: not installed here", cell.name);
            continue;
        }
        let alone = run_once(&cell, Side::Alone, &options);
        eprintln!("{}: peak {} MiB", cell.name, alone.peak / MIB);
        for share in &shares {
            let percent: u64 = share.parse().expect("--share takes percents");
            let limit = alone.peak / 100 * percent;
            if only_ledger {
                let least = ledger(&cell, limit, &options);
                ledgers.push((format!("{} {percent}%", cell.name), least));
            } else {
                lines.push(measure(&cell, percent, limit, alone, &args, &options));
            }
        }
    }
    if only_ledger {
        print_ledgers(&ledgers, &args)
    } else {
        print_results(&lines, &args)
    }
}

/// Runs a cell's workload once on this side.
fn run_once(cell: &Cell, side: Side, options: &[String]) -> Measured {
    let place = RunSetup::new(side, options);
    let seconds = cell.run(&place, &mut |_| ());
    let measured = place.measured(seconds);
    eprintln!(
        "  {:24} {:6.2} s, {:7} in, peak {:4} MiB, {} killed, ours {:4.1}%",
        format!("{side:?}"),
        measured.seconds.unwrap_or(f64::NAN),
        measured.swapped_in,
        measured.peak / MIB,
        measured.kills,
        100.0 * measured.cpu_share
    );
    measured
}

/// Measures a cell: all rounds, and the ledger.
fn measure(
    cell: &Cell,
    percent: u64,
    limit: u64,
    alone: Measured,
    args: &Args,
    options: &[String],
) -> Line {
    let mut sides = [vec![alone], Vec::new(), Vec::new()];
    for round in 0..args.number("--rounds", 3) {
        if round > 0 {
            sides[0].push(run_once(cell, Side::Alone, options));
        }
        // The kernel is first in one round, pagetide in the next.
        let turn = [Side::Kernel(limit), Side::Pagetide(limit)];
        for at in [round % 2, 1 - round % 2] {
            let at = usize::from(at == 1);
            sides[at + 1].push(run_once(cell, turn[at], options));
        }
    }
    let seconds = [0, 1, 2].map(|side| {
        let done: Vec<f64> = sides[side].iter().filter_map(|one| one.seconds).collect();
        if done.is_empty() {
            f64::INFINITY
        } else {
            median(&done)
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "pages")]
    let swapped_in = [1, 2].map(|side: usize| {
        // A killed run has not read all that it would have needed.
        let whole = sides[side].iter().filter(|one| one.kills == 0);
        let all: Vec<f64> = whole.map(|one| one.swapped_in as f64).collect();
        if all.is_empty() {
            f64::NAN
        } else {
            median(&all)
        }
    });
    let shares: Vec<f64> = sides[2].iter().map(|one| 100.0 * one.cpu_share).collect();
    let ledger = (!args.has("--no-ledger")).then(|| ledger(cell, limit, options));
    Line {
        name: format!("{} {percent}%", cell.name),
        seconds,
        speed: if seconds[2].is_infinite() {
            0.0
        } else {
            seconds[1] / seconds[2]
        },
        swapped_in,
        cpu_percent: median(&shares),
        kills: [1, 2].map(|side: usize| sides[side].iter().map(|one| one.kills).sum()),
        over: [1, 2].map(|side: usize| {
            // In a run with a kill the kernel charges the killed process beyond the limit.
            let whole = sides[side].iter().filter(|one| one.kills == 0);
            let over = whole.map(|one| one.peak.saturating_sub(limit));
            over.max().unwrap_or(0)
        }),
        ledger,
    }
}

/// Runs the workload once more under pagetide and stops it up to three times to compare counts of
/// swapped-out memory. Returns the lowest percentage of each kind; NaN, which meets no goal, if
/// there never was enough swapped out.
fn ledger(cell: &Cell, limit: u64, options: &[String]) -> Ledger {
    let mut options = options.to_vec();
    options.extend(["--age-every".to_owned(), "1s".to_owned()]);
    let place = RunSetup::new(Side::Pagetide(limit), &options);
    let mut requested: Vec<Ledger> = Vec::new();
    let _ = cell.run(&place, &mut |tree| {
        if requested.len() < 3 {
            requested.extend(place.ledger(tree));
        }
    });
    let least = |of: fn(&Ledger) -> f64| {
        requested
            .iter()
            .map(of)
            .reduce(f64::min)
            .unwrap_or(f64::NAN)
    };
    Ledger {
        by_engine: least(|one| one.by_engine),
        reported: least(|one| one.reported),
    }
}

/// Prints the ledgers of all cells; returns the exit status.
fn print_ledgers(ledgers: &[(String, Ledger)], args: &Args) -> ExitCode {
    let mut found = Findings::new("kernel", args);
    for (name, of) in ledgers {
        found.at_least(name, of.by_engine, "% of what our books say is out", 99.0);
        found.at_least(name, of.reported, "% of our report's swapped_bytes", 99.0);
    }
    found.finish()
}

/// Prints the table of all cells and the goals; returns the exit status.
fn print_results(lines: &[Line], args: &Args) -> ExitCode {
    println!(
        "| cell | alone, kernel, pagetide (s) | speed | swapped in, kernel and pagetide | ours, % of the run | OOM kills | above the limit, KiB | ledger % |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for line in lines {
        let [alone, kernel, ours] = line.seconds;
        println!(
            "| {} | {alone:.2}, {kernel:.2}, {ours:.2} | {:.2} | {:.0}, {:.0} ({:.2}) | {:.1} | {}, {} | {}, {} | {:.1} |",
            line.name,
            line.speed,
            line.swapped_in[0],
            line.swapped_in[1],
            line.swapped_in[1] / line.swapped_in[0],
            line.cpu_percent,
            line.kills[0],
            line.kills[1],
            line.over[0] / 1024,
            line.over[1] / 1024,
            line.ledger.map_or(f64::NAN, |one| one.by_engine)
        );
    }
    let mut found = Findings::new("kernel", args);
    #[expect(clippy::cast_precision_loss, reason = "a few dozen cells")]
    let percent = |is: &dyn Fn(&Line) -> bool| {
        100.0 * lines.iter().filter(|line| is(line)).count() as f64 / lines.len() as f64
    };
    let is_fast = percent(&|line| line.speed >= 1.0);
    found.at_least("cells at the kernel's speed or above", is_fast, "%", 75.0);
    let least = lines
        .iter()
        .map(|line| line.speed)
        .fold(f64::INFINITY, f64::min);
    found.at_least("the slowest, of the kernel's speed", least, "times", 0.9);
    // A cell in which all runs of the kernel were killed counts as met.
    let reads_less = percent(&|line| {
        let [kernel, ours] = line.swapped_in;
        kernel.is_nan() || ours <= kernel
    });
    found.at_least("cells with no more pages swapped in", reads_less, "%", 75.0);
    let is_done = percent(&|line| line.kills[1] == 0);
    found.at_least("cells done without a kill", is_done, "%", 100.0);
    let in_limit = percent(&|line| line.over == [0; 2]);
    found.at_least("cells within the limit on both sides", in_limit, "%", 100.0);
    // A cell without a ledger has no goal for it.
    for line in lines {
        let Some(of) = line.ledger else { continue };
        let what = format!("{}: in swap of what our books say", line.name);
        found.at_least(&what, of.by_engine, "%", 99.0);
    }
    found.finish()
}
