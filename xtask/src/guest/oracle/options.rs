//! The options of `cargo xtask guest oracle`: its own, which begin with two dashes, and those of
//! the machine.

use std::time::Duration;

use touches::cases;

use super::super::versions::Kernel;
use super::super::{Machine, options};

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
pub(super) struct OracleArgs {
    pub(super) machine: Machine,
    pub(super) cases: Vec<String>,
    pub(super) policies: Vec<String>,
    pub(super) seeds: u64,
    pub(super) bursts: Vec<String>,
    pub(super) json: bool,
    /// File to read the guest's figures from; then no guest is booted.
    pub(super) from: Option<String>,
    /// File to save the guest's figures in.
    pub(super) save: Option<String>,
}

/// Parses the words after `oracle`.
pub(super) fn parse(args: &[&str]) -> Result<OracleArgs, String> {
    let (mut policies, mut seeds) = (POLICIES.map(str::to_owned).to_vec(), 3);
    let (mut bursts, mut json) = (vec!["64".to_owned()], false);
    let (mut from, mut save) = (None, None);
    let (mut others, mut words) = (Vec::new(), args.iter());
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("{word} lacks its value"))
        };
        match *word {
            "--json" => json = true,
            "--from" => from = Some((*value()?).to_owned()),
            "--save" => save = Some((*value()?).to_owned()),
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
    let mut machine = options.machine(Kernel::V6_12, LIMIT, ZRAM_MIB);
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

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
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
    let is_burst = |text: &String| text.parse::<u64>().is_ok_and(|burst| burst > 0);
    match bursts.iter().find(|text| !is_burst(text)) {
        Some(text) => Err(format!("--bursts wants numbers, not `{text}`")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_the_whole_table_runs() {
        let requested = parse(&[]).unwrap();
        assert_eq!(
            (
                requested.cases.len(),
                requested.policies.len(),
                requested.seeds
            ),
            (9, 2, 3)
        );
        assert!(!requested.cases.contains(&SHORT.to_owned()));
        assert_eq!(
            (requested.machine.cpus, requested.machine.zram_mib),
            (1, 256)
        );
    }

    #[test]
    fn options_of_both_kinds() {
        let words = [
            "--policy", "classic", "-k", "6.1", "--seeds", "2", "--json", "-m", "512",
        ];
        let more = ["--bursts", "64,256", "short", "loop"];
        let requested = parse(&[&words[..], &more].concat()).unwrap();
        assert_eq!(
            (
                requested.seeds,
                requested.json,
                requested.machine.memory_mib
            ),
            (2, true, 512)
        );
        assert_eq!(requested.cases, ["short", "loop"]);
        assert_eq!((requested.policies.len(), requested.bursts.len()), (1, 2));
    }

    #[test]
    fn wrong_options_are_errors() {
        for (args, part) in [
            (&["nothing"][..], "no workload nothing"),
            (&["--policy", "x"], "no policy x"),
            (&["--seeds", "0"], "--seeds"),
            (&["--bursts", "1,0"], "--bursts"),
            (&["--seeds"], "lacks its value"),
            (&["-x", "1"], "no option"),
        ] {
            let why = parse(args).unwrap_err();
            assert!(why.contains(part), "{args:?}: {why}");
        }
    }
}
