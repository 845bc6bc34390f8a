//! The simulator's part of `cargo xtask guest oracle`. Each input line is a line of figures that
//! the guest printed for one run. For each line, repeats the run in the simulator and prints the
//! counts of each tenant as a line of figures.
#![forbid(unsafe_code)]

use sim::fidelity::{GuestFacts, run};
use std::process::ExitCode;
use touches::figures::Figures;

fn job(line: &str) -> Result<(), String> {
    let job = Figures::parse(line).ok_or_else(|| format!("`{line}` is no figures"))?;
    let key = &job.key;
    for figures in run(&key.case, &key.policy, key.seed, &GuestFacts::of(&job))? {
        println!("{figures}");
    }
    Ok(())
}

fn main() -> ExitCode {
    for line in std::io::stdin().lines() {
        let done = line.map_err(|error| error.to_string());
        if let Err(why) = done.and_then(|line| job(&line)) {
            eprintln!("fidelity: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
