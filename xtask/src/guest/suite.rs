//! `cargo xtask guest suite`: runs the scripts of tests/guest, in one boot of each kernel and
//! number of memory nodes. A script prints `ok NAME` or `FAILED NAME: why` for each of its tests,
//! and ends with status 0. What scripts share is in the file `lib` beside them.
//!
//! Lines of a script name what it needs:
//! - `# nodes: N`: several memory nodes;
//! - `# programs: NAME...`: programs of tests/programs;
//! - `# installed: NAME...`: programs of this machine;
//! - `# real:`: real programs with their files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::boot::{self, Outcome};
use super::files::GuestFiles;
use super::options::{KERNELS, Options};
use super::{Machine, build, pass_through, results};
use crate::counts::Counts;
use crate::{names, needs, root};

/// Time limit of a boot. The runner stops a script that hangs long before.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const EACH_LIMIT: Duration = Duration::from_secs(75);
const ZRAM_MIB: u32 = 256;
/// Beginning of a script's line with the number of memory nodes that it needs.
const NODES: &str = "# nodes:";
/// Time limit of one script, seconds.
const SCRIPT_LIMIT: &str = "300";

/// A script: its name, and its text.
type Script = (String, String);

/// Runs the named scripts (by default all) under the named kernel (by default under each).
pub(super) fn run(options: &Options) -> Result<Counts, String> {
    needs::require(&["cc", "strip"])?;
    let scripts = scripts(&options.operands)?;
    let files = boot::files()?;
    fill(&files, &scripts, options)?;
    let boots = boots(&scripts, options.nodes);
    let mut counts = Counts::default();
    let kernels = match &options.kernel {
        Some(only) => vec![only.as_str()],
        // Those that Debian 12 has.
        None => KERNELS[..2].to_vec(),
    };
    for kernel in kernels {
        for (nodes, names) in &boots {
            let scripts = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let limit = BOOT_LIMIT.saturating_add(EACH_LIMIT.saturating_mul(scripts));
            let mut machine = options.machine(kernel, limit, ZRAM_MIB);
            machine.nodes = *nodes;
            counts.add(one_boot(&machine, names, &files)?);
        }
    }
    Ok(counts)
}

/// Groups scripts into boots by the number of nodes that they need, unless one number is set for
/// all.
fn boots(scripts: &[Script], given: Option<u32>) -> BTreeMap<u32, Vec<String>> {
    let mut boots: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (name, text) in scripts {
        let line = text.lines().find_map(|line| line.strip_prefix(NODES));
        let wanted = line.and_then(|number| number.trim().parse().ok());
        let nodes = given.or(wanted).unwrap_or(1);
        boots.entry(nodes).or_default().push(name.clone());
    }
    boots
}

fn folder() -> PathBuf {
    root().join("tests/guest")
}

/// Returns the named scripts, by default all; also accepts names with their ending, as people
/// write.
fn scripts(wanted: &[String]) -> Result<Vec<Script>, String> {
    let mut names = names(&folder(), ".sh")?;
    if let Some(name) = wanted
        .iter()
        .find(|name| !names.iter().any(|one| one == stem(name)))
    {
        return Err(format!(
            "there is no {}.sh in {}; there are: {}",
            stem(name),
            folder().display(),
            names.join(", ")
        ));
    }
    names.retain(|name| wanted.is_empty() || wanted.iter().any(|one| stem(one) == name));
    let read = |name: String| {
        let name = name + ".sh";
        let text = std::fs::read_to_string(folder().join(&name));
        let text = text.map_err(|error| format!("cannot read {name}: {error}"))?;
        Ok((name, text))
    };
    names.into_iter().map(read).collect()
}

fn stem(name: &str) -> &str {
    name.strip_suffix(".sh").unwrap_or(name)
}

/// Builds and copies everything that goes into the guests.
fn fill(files: &GuestFiles, scripts: &[Script], options: &Options) -> Result<(), String> {
    files.write("program", include_str!("runner.sh"))?;
    let names = scripts.iter().map(|(name, _)| name.as_str());
    files.add(["suite"].into_iter().chain(names))?;
    build::programs_of_tests(files)?;
    options.copy_files(files)
}

fn one_boot(machine: &Machine, names: &[String], files: &GuestFiles) -> Result<Counts, String> {
    let kernel = &machine.kernel;
    let nodes = match machine.nodes {
        1 => String::new(),
        nodes => format!(", {nodes} nodes"),
    };
    println!("--- guest {kernel}{nodes}");
    let begin = Instant::now();
    let mut said = Vec::new();
    let mut sink = |bytes: &[u8]| {
        said.extend_from_slice(bytes);
        pass_through(bytes);
    };
    let arguments = [&[SCRIPT_LIMIT.to_owned()], names].concat();
    let outcome = boot::boot(machine, files, &arguments, &mut sink)?;
    match outcome {
        Outcome::Status(_) => {}
        Outcome::OutOfTime => println!("out of time after {} s", machine.limit.as_secs()),
        Outcome::NoStatus => println!("the guest stopped before the scripts were done"),
    }
    let (counts, problems) = results::judge(names, &String::from_utf8_lossy(&said));
    for problem in problems {
        println!("{problem}");
    }
    println!(
        "guest {kernel}{nodes}: {} passed, {} failed ({:.1} s)",
        counts.passed,
        counts.failed,
        begin.elapsed().as_secs_f64()
    );
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_as_many_nodes_share_a_boot() {
        let texts = ["#!/bin/sh\n", "#!/bin/sh\n# nodes: 2\n", "# nodes: two\n"];
        let scripts = ["a", "b", "c"].into_iter().zip(texts);
        let scripts = scripts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let scripts: Vec<Script> = scripts.collect();
        let of = |given| {
            let boots = boots(&scripts, given).into_iter();
            let boots = boots.map(|(nodes, names)| (nodes, names.concat()));
            boots.collect::<Vec<_>>()
        };
        assert_eq!(of(None), [(1, "ac".into()), (2, "b".into())]);
        assert_eq!(of(Some(4)), [(4, "abc".into())]);
    }
}
