//! The simulator beside a kernel: reads the figures that a guest printed of its runs (`cargo xtask
//! guest oracle`), makes the same runs, and prints how the counts of both differ, as a table or
//! with `--json`. Ends with 1 if a difference is larger than allowed.
//!
//! Invariant: nothing is fitted to the guest's results. The simulator gets from the guest only
//! [`GuestFacts`]: the memory that the kernel has charged for itself to the group with the limit,
//! when the kernel flushed its statistics, and which of its walks found that the program had not
//! run.
#![forbid(unsafe_code)]

use sim::fidelity::compare::{self, Pair};
use sim::fidelity::{GuestFacts, run};
use std::process::ExitCode;
use touches::figures::Figures;

/// Tenant name in the figures of all tenants together.
const ALL: &str = "all";

/// Makes each run of the guest, and returns the figures of both sides.
///
/// # Errors
/// If a run is unknown, or if the two sides did not make the same accesses.
fn pairs(guest: &[Figures]) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    for one in guest.iter().filter(|one| one.key.tenant == ALL) {
        let key = &one.key;
        let of_run = |other: &&Figures| {
            let tenant = key.tenant.clone();
            let other = other.key.clone();
            touches::figures::Key { tenant, ..other } == *key
        };
        let own: Vec<Figures> = guest.iter().filter(of_run).cloned().collect();
        let simulated = run(&key.case, &key.policy, key.seed, &GuestFacts::of(one))?;
        if own.len() != simulated.len() {
            let (own, simulated) = (own.len(), simulated.len());
            return Err(format!(
                "{key:?}: {own} figures from the guest, {simulated} from here"
            ));
        }
        for simulated in simulated {
            pairs.push(Pair::of(&own, simulated)?);
        }
    }
    Ok(pairs)
}

fn main() -> ExitCode {
    let lines = std::io::stdin().lines().map_while(Result::ok);
    let guest: Vec<Figures> = lines.filter_map(|line| Figures::parse(&line)).collect();
    let pairs = match pairs(&guest) {
        Ok(pairs) if !pairs.is_empty() => pairs,
        Ok(_) => {
            eprintln!("fidelity: there are no figures to compare");
            return ExitCode::from(2);
        }
        Err(why) => {
            eprintln!("fidelity: {why}");
            return ExitCode::from(2);
        }
    };
    let rows = compare::rows(&pairs);
    match std::env::args().any(|word| word == "--json") {
        true => println!("{}", compare::json(&pairs, &rows)),
        false => print!("{}", compare::text(&rows)),
    }
    let missed = rows.iter().filter(|row| row.is_missed()).count();
    if missed > 0 {
        eprintln!("{missed} figures miss");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
