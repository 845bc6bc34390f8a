//! `cargo xtask guest oracle`: compares the engine with a real kernel. The same seeded accesses run
//! in a guest and in the simulator, which compares the counters of both (the example `fidelity` of
//! the crate `sim`).

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use touches::cases;
use touches::figures::Figures;

use super::boot::{self, Outcome};
use super::options::{self, KERNELS};
use super::{Machine, build};
use crate::cargo;

const LIMIT: Duration = Duration::from_secs(3600);
const ZRAM_MIB: u32 = 256;
/// Arguments for the kernel. With huge pages 512 pages would share an accessed bit; tagged
/// translations would outlive a context switch.
const ARGUMENTS: &str = "transparent_hugepage=never nopcid";
const POLICIES: [&str; 2] = ["multi-gen", "classic"];
/// A small and quick case, which runs only by name.
const SHORT: &str = "short";

/// What the command line requests.
#[derive(Debug)]
struct OracleArgs {
    machine: Machine,
    cases: Vec<String>,
    policies: Vec<String>,
    seeds: u64,
    bursts: Vec<String>,
    json: bool,
    /// File to read the guest's figures from; then no guest is booted.
    from: Option<String>,
    /// File to save the guest's figures in.
    save: Option<String>,
}

/// Runs the comparison; returns false if a figure differs by more than allowed.
///
/// # Errors
/// If the usage is wrong, or if there is nothing to compare.
pub(super) fn run(args: &[&str]) -> Result<bool, String> {
    if let ["list"] = args {
        cases::ALL.iter().for_each(|case| println!("{}", case.name));
        return Ok(true);
    }
    let requested = parse(args)?;
    let text = match &requested.from {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            text.map_err(|error| format!("cannot read {file}: {error}"))?
        }
        None => guest(&requested)?,
    };
    let figures = text.lines().filter_map(Figures::parse).filter(|figures| {
        requested.cases.contains(&figures.key.case)
            && requested.policies.contains(&figures.key.policy)
    });
    let figures: String = figures.map(|figures| format!("{figures}\n")).collect();
    if let Some(file) = &requested.save {
        std::fs::write(file, &figures).map_err(|error| format!("cannot write {file}: {error}"))?;
    }
    compare(&figures, requested.json)
}

/// Parses the words after `oracle`: own options, which begin with two dashes, and those of the
/// machine.
fn parse(args: &[&str]) -> Result<OracleArgs, String> {
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let (mut policies, mut seeds) = (POLICIES.map(str::to_owned).to_vec(), 3);
    let (mut bursts, mut json) = (list("64"), false);
    let (mut from, mut save) = (None, None);
    let (mut others, mut words) = (Vec::new(), args.iter());
    while let Some(word) = words.next() {
        let mut value = || {
            let value = words.next().copied();
            value.ok_or_else(|| format!("{word} lacks its value"))
        };
        match *word {
            "--json" => json = true,
            "--from" => from = Some(value()?.to_owned()),
            "--save" => save = Some(value()?.to_owned()),
            "--policy" => policies = list(value()?),
            "--bursts" => bursts = list(value()?),
            "--seeds" => {
                let text = value()?;
                let number = text.parse().ok().filter(|seeds| *seeds > 0);
                seeds = number.ok_or_else(|| format!("--seeds wants a number, not `{text}`"))?;
            }
            word => others.push(word),
        }
    }
    let options = options::parse(&others)?;
    let all = cases::ALL.iter().map(|case| case.name.to_owned());
    let mut cases: Vec<String> = all.filter(|name| name != SHORT).collect();
    if !options.operands.is_empty() {
        cases.clone_from(&options.operands);
    }
    check(&cases, &policies, &bursts)?;
    let mut machine = options.machine(KERNELS[0], LIMIT, ZRAM_MIB);
    // With one processor, each context switch is on the processor that matters.
    machine.cpus = 1;
    machine.arguments = format!("{ARGUMENTS} {}", machine.arguments);
    Ok(OracleArgs {
        machine,
        cases,
        policies,
        seeds,
        bursts,
        json,
        from,
        save,
    })
}

fn check(cases: &[String], policies: &[String], bursts: &[String]) -> Result<(), String> {
    if let Some(name) = cases.iter().find(|name| cases::find(name).is_none()) {
        return Err(format!(
            "there is no workload {name}; `oracle list` names all"
        ));
    }
    if let Some(name) = policies
        .iter()
        .find(|name| !POLICIES.contains(&name.as_str()))
    {
        return Err(format!("there is no policy {name}"));
    }
    let is_burst = |text: &&String| text.parse::<u64>().is_ok_and(|burst| burst > 0);
    match bursts.iter().find(|text| !is_burst(text)) {
        Some(text) => Err(format!("--bursts wants numbers, not `{text}`")),
        None => Ok(()),
    }
}

/// Boots once and runs all requested cases; returns what the program in the guest printed. Its
/// lines are shown on standard error as they come, because this takes minutes.
fn guest(requested: &OracleArgs) -> Result<String, String> {
    let files = boot::files()?;
    build::touches(&files)?;
    let seeds: Vec<String> = (1..=requested.seeds).map(|seed| seed.to_string()).collect();
    let lists = [
        &requested.cases,
        &requested.policies,
        &seeds,
        &requested.bursts,
    ];
    let arguments = lists.map(|list| list.join(","));
    let mut said = Vec::new();
    let mut sink = |bytes: &[u8]| {
        said.extend_from_slice(bytes);
        let _ = std::io::stderr().write_all(bytes);
    };
    match boot::boot(&requested.machine, &files, &arguments, &mut sink)? {
        Outcome::Status(0) => Ok(String::from_utf8_lossy(&said).into_owned()),
        Outcome::Status(status) => Err(format!("the guest's program ended with {status}")),
        Outcome::OutOfTime => Err("the guest was out of time: see -t".to_owned()),
        Outcome::NoStatus => Err("the guest stopped before it was done".to_owned()),
    }
}

/// Runs the simulator with the guest's figures; it prints the comparison.
fn compare(figures: &str, json: bool) -> Result<bool, String> {
    let mut child = cargo("run --quiet --release --package sim --example fidelity --")
        .args(json.then_some("--json"))
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it does not read its input, its exit status reports that.
        let _ = stdin.write_all(figures.as_bytes());
    }
    let status = child.wait();
    let status = status.map_err(|error| format!("cannot wait for the simulator: {error}"))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("the simulator ended with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Result<OracleArgs, String> {
        parse(&words.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn options_of_both_kinds() {
        let all = of("").expect("no options are needed");
        assert_eq!((all.cases.len(), all.policies.len(), all.seeds), (9, 2, 3));
        assert!(!all.cases.contains(&SHORT.to_owned()));
        assert_eq!((all.machine.cpus, all.machine.zram_mib), (1, 256));
        let some = "--policy classic -k 6.1 --seeds 2 --json -m 512 --bursts 64,256 short loop";
        let some = of(some).expect("all are right");
        assert_eq!(
            (some.seeds, some.json, some.machine.memory_mib),
            (2, true, 512)
        );
        assert_eq!(some.cases, ["short", "loop"]);
        assert_eq!((some.policies.len(), some.bursts.len()), (1, 2));
    }

    #[test]
    fn wrong_options_are_errors() {
        for (words, part) in [
            ("nothing", "no workload nothing"),
            ("--policy x", "no policy x"),
            ("--seeds 0", "--seeds"),
            ("--bursts 1,0", "--bursts"),
            ("--seeds", "lacks its value"),
            ("-x 1", "no option"),
        ] {
            let why = of(words).expect_err("it is wrong");
            assert!(why.contains(part), "{words}: {why}");
        }
    }
}
