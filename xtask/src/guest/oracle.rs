//! `cargo xtask guest oracle`: a kernel as oracle of the engine. The same seeded accesses run in a guest and in the
//! simulator, and what both count is compared.
//!
//! Invariant: nothing is fitted. From the guest to the simulator goes what only a machine has: what the kernel itself
//! has charged to the group with the limit (page tables, its own structures), which its tenants cannot have; when it
//! flushed its statistics; which of its walks found that the program had not run.

mod compare;
mod jobs;
mod known;
mod options;
mod sides;
mod table;

use touches::cases;

/// Runs what was asked for; false when a figure misses that is not known to.
///
/// # Errors
/// What was asked for in the wrong way, or why there is nothing to compare.
pub(super) fn run(args: &[&str]) -> Result<bool, String> {
    if let ["list"] = args {
        cases::ALL.iter().for_each(|case| println!("{}", case.name));
        return Ok(true);
    }
    let asked = options::parse(args)?;
    let guest = match &asked.from {
        Some(file) => sides::recorded(file, &asked)?,
        None => sides::guest(&asked)?,
    };
    if let Some(file) = &asked.save {
        sides::save(file, &guest)?;
    }
    let simulated = sides::simulator(&jobs::of(&guest)?)?;
    let pairs = jobs::pair(&guest, simulated)?;
    let rows = compare::rows(&pairs);
    if asked.json {
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
