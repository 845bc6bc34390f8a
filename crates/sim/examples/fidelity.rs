//! The simulator's half of `cargo xtask guest oracle`: reads lines `CASE POLICY SEED KERNEL_PAGES` and prints what
//! is counted of each tenant.
#![forbid(unsafe_code)]

use engine::Pages;
use std::process::ExitCode;

fn job(line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [case, policy, seed, kernel] = words[..] else {
        return Err(format!("`{line}` is not CASE POLICY SEED KERNEL_PAGES"));
    };
    let number = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
    for figures in sim::fidelity::run(case, policy, number(seed)?, Pages(number(kernel)?))? {
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
