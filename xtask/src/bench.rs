//! `cargo xtask bench NAME`: measurements that take longer than a test may. Measurements of the
//! whole program are in `crates/e2e/examples`, those of a crate in its own; each prints a table.

use crate::command::done;
use crate::programs::{release_binary, release_build};
use crate::{cargo, names, root};

/// Measurements that are examples of the crate `sim`.
const OF_SIM: [&str; 3] = ["claims", "curves", "libcachesim"];
/// Crates that have fuzzers, which are tests whose names begin with `fuzz_`.
const FUZZED: [&str; 3] = ["event-log", "sim", "daemon"];
/// Default time of each fuzzer, seconds.
const FUZZ_SECONDS: &str = "300";

/// Builds and runs one measurement, or lists their names.
///
/// # Errors
/// If there is none of this name, or if it fails.
pub(crate) fn run(name: &str, args: &[&str]) -> Result<(), String> {
    let names = all()?;
    if name == "list" {
        println!("{}", names.join("\n"));
        return Ok(());
    }
    if !names.iter().any(|known| known == name) {
        let names = names.join(", ");
        return Err(format!(
            "no measurement is called {name}; there are: {names}"
        ));
    }
    if name == "fuzz" {
        return fuzz(args);
    }
    let (package, example) = match OF_SIM.contains(&name) {
        true => ("sim", name.to_owned()),
        false => ("e2e", format!("bench-{name}")),
    };
    if package == "e2e" {
        done(&mut release_build())?;
    }
    let mut run = cargo(&format!(
        "run --release --package {package} --example {example} --"
    ));
    done(run.args(args).env("PAGETIDE_BIN", release_binary()))
}

/// Runs all fuzzers for longer than the tests do, one after the other: `bench fuzz [SECONDS]`.
fn fuzz(args: &[&str]) -> Result<(), String> {
    let seconds = args.first().unwrap_or(&FUZZ_SECONDS);
    let run = |which: &str| {
        let words = format!("test --package {which} fuzz_ -- --test-threads=1 --nocapture");
        let mut run = cargo(&words);
        run.env("PAGETIDE_BIN", release_binary());
        done(run.env("PAGETIDE_FUZZ_SECONDS", seconds))
    };
    for package in FUZZED {
        run(&format!("{package} --lib"))?;
    }
    done(&mut release_build())?;
    run("e2e --test fuzz")
}

fn all() -> Result<Vec<String>, String> {
    let files = names(&root().join("crates/e2e/examples"), ".rs")?;
    let of_e2e = files.iter().filter_map(|file| file.strip_prefix("bench-"));
    let mut all: Vec<String> = of_e2e
        .chain(OF_SIM)
        .chain(["fuzz"])
        .map(str::to_owned)
        .collect();
    all.sort();
    Ok(all)
}
