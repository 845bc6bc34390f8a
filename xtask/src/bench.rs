//! `cargo xtask bench NAME`: measurements that take longer than a test may. Measurements of the
//! whole program are in `crates/e2e/examples`, those of a crate in its own; each prints a table.

use crate::e2e::{release_binary, release_build};
use crate::{cargo, root};

/// Measurements that are cargo examples: name of the example, and its crate.
const EXAMPLES: [(&str, &str); 3] = [("claims", "sim"), ("curves", "sim"), ("libcachesim", "sim")];

/// Crates that have fuzzers, which are tests whose names begin with `fuzz_`.
const FUZZED: [&str; 3] = ["event-log", "sim", "daemon"];
/// Default time of each fuzzer, seconds.
const FUZZ_SECONDS: &str = "300";

/// Runs all fuzzers for longer than the tests do, one after the other: `bench fuzz [SECONDS]`.
fn fuzz(args: &[&str]) -> bool {
    let seconds = args.first().unwrap_or(&FUZZ_SECONDS);
    let run = |package: &str, which: &[&str]| {
        let mut run = cargo(&["test", "--package", package]);
        run.args(which)
            .args(["fuzz_", "--", "--test-threads=1", "--nocapture"]);
        run.env("PAGETIDE_BIN", release_binary());
        let status = run.env("PAGETIDE_FUZZ_SECONDS", seconds).status();
        status.is_ok_and(|status| status.success())
    };
    let built = || {
        release_build()
            .status()
            .is_ok_and(|status| status.success())
    };
    FUZZED.iter().all(|package| run(package, &["--lib"]))
        && built()
        && run("e2e", &["--test", "fuzz"])
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(root().join("crates/e2e/examples"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            entry
                .path()
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
        })
        .filter_map(|stem| stem.strip_prefix("bench-").map(str::to_owned))
        .chain(EXAMPLES.map(|(name, _)| name.to_owned()))
        .chain(["fuzz".to_owned()])
        .collect();
    names.sort();
    names
}

/// Builds and runs one measurement; returns whether it succeeded.
pub(crate) fn run(name: &str, args: &[&str]) -> bool {
    let names = names();
    if name == "list" {
        println!("{}", names.join("\n"));
        return true;
    }
    if !names.iter().any(|known| known == name) {
        eprintln!(
            "no measurement is called {name}; there are: {}",
            names.join(", ")
        );
        return false;
    }
    if name == "fuzz" {
        return fuzz(args);
    }
    if let Some((_, package)) = EXAMPLES.iter().find(|(known, _)| *known == name) {
        let run = ["run", "--release", "--package", package, "--example", name];
        let status = cargo(&run).arg("--").args(args).status();
        return status.is_ok_and(|status| status.success());
    }
    let built = release_build()
        .status()
        .is_ok_and(|status| status.success());
    let program = format!("bench-{name}");
    built
        && cargo(&[
            "run",
            "--release",
            "--package",
            "e2e",
            "--example",
            &program,
            "--",
        ])
        .args(args)
        .env("PAGETIDE_BIN", release_binary())
        .status()
        .is_ok_and(|status| status.success())
}
