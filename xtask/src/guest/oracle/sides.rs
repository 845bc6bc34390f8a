//! The two sides: a kernel in a guest, and the engine in the simulator.

use std::io::Write;
use std::process::Stdio;

use touches::figures::Figures;

use super::super::boot::{Outcome, Stream, boot};
use super::super::{GuestFile, build, pass_through};
use super::options::OracleArgs;
use crate::cargo;

/// Boots once and runs all requested cases; returns what the kernel counted. Lines are shown on
/// standard error as they come, because this takes minutes.
pub(super) fn guest(requested: &OracleArgs) -> Result<Vec<Figures>, String> {
    let program = GuestFile {
        path: "program".to_owned(),
        ..build::touches()?
    };
    let seeds: Vec<String> = (1..=requested.seeds).map(|seed| seed.to_string()).collect();
    let lists = [
        &requested.cases,
        &requested.policies,
        &seeds,
        &requested.bursts,
    ];
    let arguments = lists.map(|list| list.join(","));
    let mut said = Vec::new();
    let mut sink = |stream, bytes: &[u8]| match stream {
        Stream::Program => {
            said.extend_from_slice(bytes);
            let _ = std::io::stderr().write_all(bytes);
        }
        Stream::Kernel => pass_through(stream, bytes),
    };
    let outcome = boot(&requested.machine, vec![program], &arguments, &mut sink)?;
    match outcome {
        Outcome::Status(0) => {}
        Outcome::Status(status) => return Err(format!("the guest's program ended with {status}")),
        Outcome::OutOfTime => return Err("the guest was out of time: see -t".to_owned()),
        Outcome::NoStatus => return Err("the guest stopped before it was done".to_owned()),
    }
    let text = String::from_utf8_lossy(&said);
    Ok(text.lines().filter_map(Figures::parse).collect())
}

/// Returns what a kernel counted earlier, for the requested workloads and policies.
pub(super) fn recorded(file: &str, requested: &OracleArgs) -> Result<Vec<Figures>, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let figures = text.lines().filter_map(Figures::parse).filter(|figures| {
        requested.cases.contains(&figures.key.case)
            && requested.policies.contains(&figures.key.policy)
    });
    let figures: Vec<Figures> = figures.collect();
    if figures.is_empty() {
        return Err(format!("{file} has no figures of what was asked for"));
    }
    Ok(figures)
}

/// Saves what a kernel counted, for [`recorded`].
pub(super) fn save(file: &str, figures: &[Figures]) -> Result<(), String> {
    let lines: Vec<String> = figures.iter().map(Figures::to_string).collect();
    std::fs::write(file, lines.join("\n") + "\n")
        .map_err(|error| format!("cannot write {file}: {error}"))
}

/// Runs the simulator's jobs; returns what the engine counted.
pub(super) fn simulator(jobs: &[String]) -> Result<Vec<Figures>, String> {
    let mut child = cargo(&["run", "--quiet", "--release", "--package", "sim"])
        .args(["--example", "fidelity"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let text = jobs.join("\n") + "\n";
        // If it does not read its input, its exit status reports that.
        let _ = stdin.write_all(text.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| format!("cannot wait for the simulator: {error}"))?;
    if !output.status.success() {
        return Err(format!("the simulator ended with {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(Figures::parse).collect())
}
