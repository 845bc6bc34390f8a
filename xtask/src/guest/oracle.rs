//! `cargo xtask guest oracle`: compares the engine with a real kernel. The same seeded accesses run
//! in a guest and in the simulator, and the counters of both are compared.
//!
//! Invariant: nothing is fitted to the guest's results. The simulator gets from the guest only
//! facts that only a real machine has: the memory that the kernel has charged for itself to the
//! group with the limit (page tables and other structures), when the kernel flushed its statistics,
//! and which of its walks found that the program had not run.

mod compare;
mod jobs;
mod known;
mod options;
mod sides;
mod table;

use touches::cases;

/// Runs the comparison; returns false if a figure differs by more than allowed and the difference
/// is not a known one.
///
/// # Errors
/// If the usage is wrong, or if there is nothing to compare.
pub(super) fn run(args: &[&str]) -> Result<bool, String> {
    if let ["list"] = args {
        cases::ALL.iter().for_each(|case| println!("{}", case.name));
        return Ok(true);
    }
    let requested = options::parse(args)?;
    let guest = match &requested.from {
        Some(file) => sides::recorded(file, &requested)?,
        None => sides::guest(&requested)?,
    };
    if let Some(file) = &requested.save {
        sides::save(file, &guest)?;
    }
    let simulated = sides::simulator(&jobs::of(&guest)?)?;
    let pairs = jobs::pair(&guest, simulated)?;
    let rows = compare::rows(&pairs);
    if requested.json {
        println!("{}", table::json(&pairs, &rows));
    } else {
        print!("{}", table::text(&rows));
    }
    let missed = rows.iter().filter(|row| row.is_unknown_miss()).count();
    if missed > 0 {
        eprintln!("{missed} figures miss and are not known to");
    }
    Ok(missed == 0)
}
