//! The program that runs in the guest. It creates a workload's control groups and starts a process
//! for each tenant, which touches the tenant's pages. Then it prints what the kernel counted.
//!
//! Usage: `touches CASES POLICIES SEEDS BURSTS`; each argument is a list separated by commas. The
//! machine must have one processor, huge pages off and swap on, and must run nothing else.
#![forbid(unsafe_code)]

mod child;
mod counters;
mod groups;
mod run;
mod trace;
mod watch;
mod worker;

use std::process::ExitCode;

use touches::case::Case;
use touches::cases;
use touches::figures::Figures;

/// Maximum number of times that one run of a case is tried.
const ATTEMPTS: u32 = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        [worker::ARGUMENT, case, tenant, seed, group] => worker::main(case, tenant, seed, group),
        [cases, policies, seeds, bursts] => all(cases, policies, seeds, bursts),
        _ => Err("usage: touches CASES POLICIES SEEDS BURSTS".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("touches: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs each case with each policy, seed and burst, and prints the figures.
fn all(cases: &str, policies: &str, seeds: &str, bursts: &str) -> Result<(), String> {
    let cases: Vec<&Case> = cases.split(',').map(case).collect::<Result<_, _>>()?;
    run::prepare()?;
    for case in cases {
        for policy in policies.split(',') {
            for seed in seeds.split(',') {
                for burst in bursts.split(',') {
                    let numbers = (number(seed)?, number(burst)?);
                    for figures in run_with_retries(case, policy, numbers)? {
                        println!("{figures}");
                    }
                }
            }
        }
    }
    Ok(())
}

/// Runs a case; runs it again if that fails. Without the multi-gen LRU the kernel sometimes kills a
/// tenant's process, when all pages below the limit are in use. `numbers`: seed, burst.
fn run_with_retries(
    case: &Case,
    policy: &str,
    numbers: (u64, u64),
) -> Result<Vec<Figures>, String> {
    for attempt in 1..ATTEMPTS {
        match run::run(case, policy, numbers) {
            Ok(figures) => return Ok(figures),
            Err(why) => eprintln!("touches: {} {policy}, attempt {attempt}: {why}", case.name),
        }
    }
    run::run(case, policy, numbers)
}

/// Finds the case with this name, [`cases::WATCH`] too.
fn case(name: &str) -> Result<&'static Case, String> {
    let watch = Some(&cases::WATCH).filter(|case| case.name == name);
    let found = cases::find(name).or(watch);
    found.ok_or_else(|| format!("there is no case {name}"))
}

/// Parses a number of the command line.
fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|error| format!("`{text}` is no number: {error}"))
}
