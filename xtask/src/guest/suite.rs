//! `cargo xtask guest suite`: the scripts of tests/guest, all in one boot of each kernel. A script
//! prints `ok NAME` or `FAILED NAME: why` for each of its tests, and ends with status 0. What scripts
//! share is in the file `lib` beside them.

use std::time::{Duration, Instant};

use super::boot::{Outcome, Stream, boot};
use super::files::GuestFile;
use super::options::Options;
use super::results::Results;
use super::versions::Kernel;
use super::{build, runner};
use crate::summary::Counts;
use crate::{needs, root};

const LIMIT: Duration = Duration::from_secs(900);
const ZRAM_MIB: u32 = 256;
/// What the scripts share.
const LIBRARY: &str = "lib";

/// Runs the scripts asked for, or all, under the kernel asked for, or each.
pub(super) fn run(options: &Options) -> Result<Counts, String> {
    needs::require(&["cc", "strip"])?;
    let names = scripts(&options.operands)?;
    let files = files(&names, options)?;
    let mut counts = Counts::default();
    for kernel in Kernel::ALL {
        if options.kernel.is_none_or(|only| only == kernel) {
            counts.add(one_boot(kernel, &names, files.clone(), options)?);
        }
    }
    Ok(counts)
}

/// The names of the scripts, checked; with their ending, as people name files.
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
    files.extend(build::programs_of_tests()?);
    files.extend(build::c_programs(&folder)?);
    files.extend(options.files()?);
    for name in names.iter().map(String::as_str).chain([LIBRARY]) {
        let path = format!("{}/{name}", runner::FOLDER);
        files.push(GuestFile::read(&folder.join(name), &path)?);
    }
    Ok(files)
}

fn one_boot(
    kernel: Kernel,
    names: &[String],
    files: Vec<GuestFile>,
    options: &Options,
) -> Result<Counts, String> {
    println!("--- guest {}", kernel.name());
    let begin = Instant::now();
    let machine = options.machine(kernel, LIMIT, ZRAM_MIB);
    let mut results = Results::new(names);
    let mut sink = |stream, bytes: &[u8]| match stream {
        Stream::Program => {
            for line in results.output(bytes) {
                println!("{line}");
            }
        }
        Stream::Kernel => super::pass_through(stream, bytes),
    };
    let outcome = boot(&machine, files, &runner::arguments(names), &mut sink)?;
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
        "guest {}: {} passed, {} failed ({:.1} s)",
        kernel.name(),
        counts.passed,
        counts.failed,
        begin.elapsed().as_secs_f64()
    );
    Ok(counts)
}
