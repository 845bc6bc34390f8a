//! One boot: QEMU runs until the guest powers off or the time limit has passed, and never longer
//! than this process. The guest's output is passed on as it comes.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Machine;
use super::files::GuestFiles;
use crate::needs;
use crate::programs::target;

const QEMU: &str = "qemu-system-x86_64";
const NEEDED: [&str; 6] = [QEMU, "cpio", "dpkg-deb", "modprobe", "setpriv", "xz"];
/// Folder of all that guests need, below cargo's target folder.
const FOLDER: &str = "guest";

/// How a boot ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The program ended with this status.
    Status(u8),
    OutOfTime,
    /// The guest stopped without a status: it has panicked, or could not start.
    NoStatus,
}

/// Returns an empty folder for a guest's files.
///
/// # Errors
/// If the folder cannot be made, or a command is missing.
pub(super) fn files() -> Result<GuestFiles, String> {
    needs::require(&NEEDED)?;
    GuestFiles::new(&target().join(FOLDER))
}

/// Boots the machine with these files. Its first process runs the file `program` with the
/// arguments. `sink` gets what the program prints; the kernel's messages go to standard error.
///
/// # Errors
/// If the machine could not be started.
pub(super) fn boot(
    machine: &Machine,
    files: &GuestFiles,
    arguments: &[String],
    sink: &mut dyn FnMut(&[u8]),
) -> Result<Outcome, String> {
    files.finish(machine, &target().join(FOLDER).join("packages"), arguments)?;
    let deadline = Instant::now() + machine.limit;
    let mut outcome = Outcome::NoStatus;
    for _ in 0..BOOTS {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut has_begun = false;
        let in_time = follow(command(machine, left, &files.beside("")), &mut |bytes| {
            has_begun = true;
            sink(bytes);
        })?;
        let status = std::fs::read_to_string(files.beside("status")).unwrap_or_default();
        outcome = match status.trim().parse() {
            Ok(status) => Outcome::Status(status),
            Err(_) if in_time => Outcome::NoStatus,
            Err(_) => Outcome::OutOfTime,
        };
        if outcome != Outcome::NoStatus || has_begun {
            break;
        }
        println!("guest: its kernel did not come up");
    }
    Ok(outcome)
}

/// Maximum number of boots. A kernel that has not started the first process is booted again:
/// emulated processors sometimes crash when they patch code that another processor runs at that
/// moment (`int3` in `sched_clock_tick`).
const BOOTS: u32 = 3;

/// Returns the command that runs QEMU, killed by timeout(1) after `limit`. setpriv(1) has the
/// kernel signal timeout(1) when this process ends, and that ends QEMU.
fn command(machine: &Machine, limit: Duration, folder: &Path) -> Command {
    // The kernel checks that its timer ticks while it counts loops, and panics if it does not. On a
    // busy machine QEMU may not run in that time.
    let append = format!(
        "console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check psi=1 {}",
        machine.arguments
    );
    let mut command = Command::new("setpriv");
    command
        .current_dir(folder)
        .args("--pdeathsig TERM timeout --foreground --signal=KILL".split(' '))
        .arg(limit.as_secs().max(1).to_string())
        .arg(QEMU)
        .args(MACHINE.split_whitespace())
        .args(["-smp", &machine.cpus.to_string()])
        .args(memory(machine))
        .args(["-append", &append]);
    command
}

/// What all guests have: no KVM, and three serial lines, which `init.sh` describes.
const MACHINE: &str = "-accel tcg -cpu max -nodefaults -no-user-config -no-reboot -display none \
    -chardev file,id=kernel,path=/dev/stderr,append=on -serial chardev:kernel \
    -chardev stdio,id=program,signal=off -serial chardev:program \
    -chardev file,id=status,path=status -serial chardev:status -kernel vmlinuz -initrd initrd";

/// Distributes memory to the nodes in turn, as processors are; nodes behind the last processor have
/// only memory.
fn memory(machine: &Machine) -> Vec<String> {
    let each = machine.memory_mib / machine.nodes;
    let mut args = vec!["-m".to_owned(), format!("{}M", each * machine.nodes)];
    // With one node the machine has no table of nodes, like most machines.
    let nodes = (0..machine.nodes).filter(|_| machine.nodes > 1);
    for node in nodes {
        let cpus = (node..machine.cpus).step_by(machine.nodes as usize);
        let cpus: String = cpus.map(|cpu| format!(",cpus={cpu}")).collect();
        args.extend([
            "-object".to_owned(),
            format!("memory-backend-ram,id=memory{node},size={each}M"),
            "-numa".to_owned(),
            format!("node,nodeid={node},memdev=memory{node}{cpus}"),
        ]);
    }
    args
}

/// Runs QEMU and passes on the guest's output; returns whether it ended in time.
fn follow(mut qemu: Command, sink: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
    let child = qemu
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = child
        .spawn()
        .map_err(|error| format!("cannot start {QEMU} by setpriv(1): {error}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // QEMU opens its standard error by name, which a pipe allows, unlike some that this process
    // may have. It is no error if no process reads ours.
    let messages = std::thread::spawn(move || {
        stderr.map(|mut from| std::io::copy(&mut from, &mut std::io::stderr()))
    });
    let mut stdout = stdout.ok_or("QEMU has no standard output")?;
    let mut buffer = [0; 4096];
    while let Ok(size @ 1..) = stdout.read(&mut buffer) {
        sink(&buffer[..size]);
    }
    let status = child.wait();
    let status = status.map_err(|error| format!("cannot wait for {QEMU}: {error}"))?;
    let _ = messages.join();
    match status.code() {
        Some(0) => Ok(true),
        // What timeout(1) returns after it has killed.
        Some(137) => Ok(false),
        _ => Err(format!(
            "{QEMU} ended with {status}; what it said stands above"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> (Result<bool, String>, String) {
        let mut said = String::new();
        let mut timeout = Command::new("timeout");
        timeout.args(["--foreground", "--signal=KILL", "1", "sh", "-c", script]);
        let ended = follow(timeout, &mut |bytes| {
            said += &String::from_utf8_lossy(bytes)
        });
        (ended, said)
    }

    #[test]
    fn output_is_passed_on_also_of_one_that_hangs_or_fails() {
        assert_eq!(of("echo a; echo b >&2"), (Ok(true), "a\n".to_owned()));
        let begin = Instant::now();
        assert_eq!(of("echo a; exec sleep 60"), (Ok(false), "a\n".to_owned()));
        assert!(begin.elapsed() < Duration::from_secs(30));
        let why = of("exit 1").0.expect_err("it failed");
        assert!(why.contains("exit status: 1"), "{why}");
    }
}
