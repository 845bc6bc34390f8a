//! `cargo xtask guest suite`: runs the scripts of tests/guest, in one boot of each kernel and
//! number of memory nodes. A script prints `ok NAME` or `FAILED NAME: why` for each of its tests,
//! and ends with status 0. What scripts share is in the file `lib` beside them.
//!
//! Lines of a script name what it needs:
//! - `# nodes: N`: several memory nodes;
//! - `# programs: NAME...`: programs of tests/programs;
//! - `# installed: NAME...`: programs of this machine;
//! - `# real:`: real programs with their files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::boot::{Outcome, Stream, boot};
use super::files::GuestFile;
use super::options::Options;
use super::results::Results;
use super::versions::Kernel;
use super::{Machine, build, real, runner};
use crate::summary::Counts;
use crate::{needs, root};

/// Time limit of a boot. The runner stops a script that hangs long before.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const EACH_LIMIT: Duration = Duration::from_secs(75);
const ZRAM_MIB: u32 = 256;
/// Beginning of a script's line with the number of memory nodes that it needs.
const NODES: &str = "# nodes:";
/// Beginning of a script's line with the programs of the end-to-end tests that it needs.
const PROGRAMS: &str = "# programs:";
/// Beginning of a script's line with the programs of this machine that it needs.
const INSTALLED: &str = "# installed:";
/// Beginning of a script's line that requests the programs of [`real`].
const REAL: &str = "# real:";
/// Name of the file with functions for all scripts.
const LIBRARY: &str = "lib";

/// Runs the named scripts (by default all) under the named kernel (by default under each).
pub(super) fn run(options: &Options) -> Result<Counts, String> {
    needs::require(&["cc", "strip"])?;
    let names = scripts(&options.operands)?;
    let files = files(&names, options)?;
    let boots = boots(&names, &files, options.nodes);
    let mut counts = Counts::default();
    let kernels = match options.kernel {
        Some(only) => vec![only],
        None => Kernel::ALL.to_vec(),
    };
    for kernel in kernels {
        for (nodes, names) in &boots {
            let scripts = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let limit = BOOT_LIMIT.saturating_add(EACH_LIMIT.saturating_mul(scripts));
            let mut machine = options.machine(kernel, limit, ZRAM_MIB);
            machine.nodes = *nodes;
            counts.add(one_boot(&machine, names, files.clone())?);
        }
    }
    Ok(counts)
}

/// Groups scripts into boots by the number of nodes that they need, unless one number is set for
/// all.
fn boots(names: &[String], files: &[GuestFile], given: Option<u32>) -> BTreeMap<u32, Vec<String>> {
    let mut boots: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for name in names {
        let path = format!("{}/{name}", runner::FOLDER);
        let file = files.iter().find(|file| file.path == path);
        let wanted = file.map_or(1, |file| nodes_of(&file.bytes));
        boots
            .entry(given.unwrap_or(wanted))
            .or_default()
            .push(name.clone());
    }
    boots
}

/// Returns the rest of the first line of a script that begins with `begin`; `None` if there is
/// none.
fn said(script: &[u8], begin: &str) -> Option<String> {
    let text = String::from_utf8_lossy(script);
    let rest = text.lines().find_map(|line| line.strip_prefix(begin))?;
    Some(rest.trim().to_owned())
}

/// Returns how many memory nodes a script needs.
fn nodes_of(script: &[u8]) -> u32 {
    said(script, NODES)
        .and_then(|number| number.parse().ok())
        .unwrap_or(1)
}

/// Returns the programs that scripts name in lines that begin with `begin`, each once.
fn programs_of(scripts: &[GuestFile], begin: &str) -> BTreeSet<String> {
    let said = scripts.iter().filter_map(|file| said(&file.bytes, begin));
    said.flat_map(|names| {
        names
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .collect()
}

/// Returns the names of the scripts, checked; also accepts names with their ending, as people
/// write.
fn scripts(wanted: &[String]) -> Result<Vec<String>, String> {
    let folder = root().join("tests/guest");
    let mut names = build::names(&folder, ".sh")?;
    for name in wanted {
        if !names.contains(&stem(name)) {
            return Err(format!(
                "there is no {}.sh in {}; there are: {}",
                stem(name),
                folder.display(),
                names.join(", ")
            ));
        }
    }
    names.retain(|name| wanted.is_empty() || wanted.iter().any(|one| stem(one) == *name));
    if names.is_empty() {
        return Err(format!("there is no script in {}", folder.display()));
    }
    Ok(names.into_iter().map(|name| name + ".sh").collect())
}

fn stem(name: &str) -> String {
    name.strip_suffix(".sh").unwrap_or(name).to_owned()
}

/// Builds and reads everything that goes into the guests.
fn files(names: &[String], options: &Options) -> Result<Vec<GuestFile>, String> {
    let folder = root().join("tests/guest");
    let mut files = vec![runner::program()];
    for name in names.iter().map(String::as_str).chain([LIBRARY]) {
        let path = format!("{}/{name}", runner::FOLDER);
        files.push(GuestFile::read(&folder.join(name), &path)?);
    }
    let programs = programs_of(&files, PROGRAMS);
    let installed = programs_of(&files, INSTALLED);
    files.extend(build::programs_of_tests()?);
    files.extend(build::c_programs(&folder)?);
    files.extend(build::shared_programs(&programs)?);
    if files.iter().any(|file| said(&file.bytes, REAL).is_some()) {
        files.extend(real::files()?);
    }
    files.extend(real::installed(&installed)?);
    files.extend(options.files()?);
    // All programs share one C library.
    let mut places = BTreeSet::new();
    files.retain(|file| places.insert(file.path.clone()));
    Ok(files)
}

fn one_boot(machine: &Machine, names: &[String], files: Vec<GuestFile>) -> Result<Counts, String> {
    let kernel = machine.kernel.name();
    let nodes = match machine.nodes {
        1 => String::new(),
        nodes => format!(", {nodes} nodes"),
    };
    println!("--- guest {kernel}{nodes}");
    let begin = Instant::now();
    let mut results = Results::new(names);
    let mut sink = |stream, bytes: &[u8]| match stream {
        Stream::Program => {
            for line in results.output(bytes) {
                println!("{line}");
            }
        }
        Stream::Kernel => super::pass_through(stream, bytes),
    };
    let outcome = boot(machine, files, &runner::arguments(names), &mut sink)?;
    match outcome {
        Outcome::Status(_) => {}
        Outcome::OutOfTime => println!("out of time after {} s", machine.limit.as_secs()),
        Outcome::NoStatus => println!("the guest stopped before the scripts were done"),
    }
    let (counts, problems) = results.finish();
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
        let names = ["a.sh", "b.sh", "c.sh"].map(str::to_owned);
        let texts = ["#!/bin/sh\n", "#!/bin/sh\n# nodes: 2\n", "# nodes: two\n"];
        let files: Vec<GuestFile> = (names.iter().zip(texts))
            .map(|(name, text)| GuestFile::text(&format!("suite/{name}"), text))
            .collect();
        let of = |given| {
            let boots = boots(&names, &files, given).into_iter();
            boots
                .map(|(nodes, names)| (nodes, names.concat()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(None), [(1, "a.shc.sh".into()), (2, "b.sh".into())]);
        assert_eq!(of(Some(4)), [(4, "a.shb.shc.sh".into())]);
    }

    #[test]
    fn a_program_that_two_scripts_need_is_built_once() {
        let texts = [
            "#!/bin/sh\n# programs: notice hostile\n",
            "#!/bin/sh\n",
            "# programs: checked notice\n",
        ];
        let files = texts.map(|text| GuestFile::text("a", text));
        let named = programs_of(&files, PROGRAMS)
            .into_iter()
            .collect::<Vec<_>>();
        assert_eq!(named, ["checked", "hostile", "notice"]);
    }
}
