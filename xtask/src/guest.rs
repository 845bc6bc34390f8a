//! `cargo xtask guest`: runs programs under another kernel than this machine's, in QEMU without
//! KVM.
//!
//! No file remains outside cargo's target folder: a boot has a time limit, QEMU is killed with this
//! process, and the files of a boot are removed after it.

mod files;
mod results;

mod boot;
mod build;
mod options;

mod oracle;
mod suite;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use boot::Outcome;
use options::{KERNELS, Options};

use crate::counts::Counts;

const USAGE: &str = "\
usage: cargo xtask guest [OPTION]... [--] PROGRAM [ARGUMENT]...
       cargo xtask guest suite [OPTION]... [SCRIPT]...
       cargo xtask guest oracle [OPTION]... [WORKLOAD]...

Boots a Debian kernel in QEMU, runs PROGRAM (an executable or a /bin/sh script) in it as root,
prints what it prints (and the kernel's messages on standard error), and exits with its status: 124
if it ran out of time, 125 if no status came. `suite` builds pagetide and tests/guest/*.c
and runs tests/guest/*.sh, all or those named, in one boot of each kernel and number of nodes. `oracle` gives the same
seeded accesses to a kernel and to the simulator, compares what both count, and ends with 1 if they
differ by more than allowed (docs/fidelity.md); `oracle list` names the workloads.

  -k 6.12|6.1|6.17    the kernel (6.12; suite: the first two; Debian 12 does not have the last)
  -m MIB              memory (1024)
  -c CPUS             processors (2)
  -t SECONDS          time for one boot and all that runs in it (300; suite: 75 more for each script; oracle: 3600)
  -z MIB              size of a swap on zram, 0 for none (0; suite, oracle: 256)
  -n NODES            memory nodes, which memory and processors are dealt out to (1; suite: as each script says)
  -a ARGUMENTS        further arguments for the kernel, such as no5lvl
  -f HOST[:NAME]      puts a file into the guest as /files/NAME; may be given again

oracle alone:
  --policy P,...      multi-gen, classic (both)
  --seeds N           seeds 1 to N (3)
  --bursts N,...      touches between two forced context switches (64); each is a run of its own
  --json              every figure of every run, instead of the table
  --save FILE         keeps what the kernel counted
  --from FILE         compares with what was kept, and boots nothing";

/// Exit status after the time limit, the same as timeout(1) has.
const OUT_OF_TIME: u8 = 124;
/// Default time limit of the boot and one program.
const PROGRAM_LIMIT: Duration = Duration::from_secs(300);
/// Exit status if the guest ended without reporting the program's status.
const NO_STATUS: u8 = 125;

/// A virtual machine to boot.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Machine {
    /// Version of Debian's kernel.
    kernel: String,
    memory_mib: u32,
    cpus: u32,
    /// Time limit of the boot and of all that runs in the guest.
    limit: Duration,
    /// Size of the swap on zram, MiB; 0 means none.
    zram_mib: u32,
    /// Number of memory nodes.
    nodes: u32,
    /// Further arguments for the kernel.
    arguments: String,
}

/// Runs `cargo xtask guest` with these arguments.
pub(crate) fn run(args: &[&str]) -> ExitCode {
    if let ["oracle", rest @ ..] = args {
        return match oracle::run(rest) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(why) => {
                eprintln!("guest: {why}");
                ExitCode::from(2)
            }
        };
    }
    let (is_suite, rest) = match args {
        ["suite", rest @ ..] => (true, rest),
        _ => (false, args),
    };
    let options = match options::parse(rest) {
        Ok(options) if is_suite || !options.operands.is_empty() => options,
        Ok(_) => return usage("no program is named"),
        Err(why) => return usage(&why),
    };
    let status = if is_suite {
        suite(rest).map(|counts| {
            println!("{} passed, {} failed", counts.passed, counts.failed);
            u8::from(counts.failed > 0)
        })
    } else {
        program(&options)
    };
    match status {
        Ok(status) => ExitCode::from(status),
        Err(why) => {
            eprintln!("guest: {why}");
            ExitCode::from(NO_STATUS)
        }
    }
}

/// Runs the scripts of tests/guest with the options of `cargo xtask guest suite`; returns the
/// numbers of their tests.
///
/// # Errors
/// If the scripts could not be run at all. A script that fails is counted.
pub(crate) fn suite(args: &[&str]) -> Result<Counts, String> {
    suite::run(&options::parse(args)?)
}

fn usage(why: &str) -> ExitCode {
    eprintln!("guest: {why}\n{USAGE}");
    ExitCode::from(2)
}

/// Boots once, runs one program, and passes on all its output; returns its exit status.
fn program(options: &Options) -> Result<u8, String> {
    let files = boot::files()?;
    options.copy_files(&files)?;
    let words = options.operands.split_first();
    let (program, arguments) = words.ok_or("no program is named")?;
    files.copy(program.as_ref(), "program")?;
    let machine = options.machine(KERNELS[0], PROGRAM_LIMIT, 0);
    let outcome = boot::boot(&machine, &files, arguments, &mut pass_through)?;
    Ok(match outcome {
        Outcome::Status(status) => status,
        Outcome::OutOfTime => {
            eprintln!("guest: out of time after {} s", machine.limit.as_secs());
            OUT_OF_TIME
        }
        Outcome::NoStatus => {
            eprintln!("guest: the machine stopped before the program's status came");
            NO_STATUS
        }
    })
}

/// Prints output of the guest. It is no error if ours is closed: the guest has its time limit.
fn pass_through(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
