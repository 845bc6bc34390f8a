//! One boot: QEMU runs until the guest powers off or the time limit has passed, and never longer
//! than this process. The guest's output is passed on as it comes.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::files::GuestFile;
use super::packages::{Packages, file_in};
use super::scratch::Scratch;
use super::{Machine, folder, initrd};
use crate::needs;

const QEMU: &str = "qemu-system-x86_64";
const NEEDED: [&str; 4] = [QEMU, "dpkg-deb", "setpriv", "xz"];

/// The source of a piece of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    Program,
    /// The kernel's messages, and those of QEMU.
    Kernel,
}

/// How a boot ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The program ended with this status.
    Status(u8),
    OutOfTime,
    /// The guest stopped without a status: it has panicked, or could not start.
    NoStatus,
}

/// Boots the machine with these files. Its first process runs the file `program` with the
/// arguments.
///
/// # Errors
/// If the machine could not be started.
pub(super) fn boot(
    machine: &Machine,
    files: Vec<GuestFile>,
    arguments: &[String],
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, String> {
    needs::require(&NEEDED)?;
    let folder = folder()?;
    let packages = Packages::new(&folder)?;
    let (kernel, busybox) = (packages.kernel(machine.kernel)?, packages.busybox()?);
    let image = file_in(&kernel.join("boot"), "vmlinuz-")?;
    let archive = initrd::build(machine, &kernel, &busybox, files, arguments)?;
    let scratch = Scratch::new(&folder)?;
    std::fs::write(scratch.path().join("initrd"), archive)
        .map_err(|error| format!("cannot write {}: {error}", scratch.path().display()))?;
    let deadline = Instant::now() + machine.limit;
    for left in (0..BOOTS).rev() {
        let child = command(machine, &image, scratch.path())
            .spawn()
            .map_err(|error| format!("cannot start {QEMU} by setpriv(1): {error}"))?;
        let mut running = Running(child);
        let mut has_begun = false;
        let mut heard = |stream: Stream, bytes: &[u8]| {
            has_begun |= matches!(stream, Stream::Program) && !bytes.is_empty();
            sink(stream, bytes);
        };
        let in_time = follow(&mut running.0, deadline, &mut heard)?;
        drop(running);
        let status = std::fs::read_to_string(scratch.path().join("status")).unwrap_or_default();
        match (status.trim().parse(), in_time) {
            (Ok(status), _) => return Ok(Outcome::Status(status)),
            (Err(_), false) => return Ok(Outcome::OutOfTime),
            (Err(_), true) if has_begun || left == 0 => return Ok(Outcome::NoStatus),
            (Err(_), true) => println!("guest: its kernel did not come up: once more"),
        }
    }
    Ok(Outcome::NoStatus)
}

/// Maximum number of boots. A kernel that has not started the first process is booted again:
/// emulated processors sometimes crash when they patch code that another processor runs at that
/// moment (`int3` in `sched_clock_tick`).
const BOOTS: u32 = 3;

/// QEMU, killed and waited for when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// setpriv(1) becomes QEMU, so that the child's id is QEMU's and the kernel kills it with us.
fn command(machine: &Machine, image: &Path, scratch: &Path) -> Command {
    // The kernel checks that its timer ticks while it counts loops, and panics if it does not. On a
    // busy machine QEMU may not run in that time.
    let append = format!(
        "console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check psi=1 {}",
        machine.arguments
    );
    let mut command = Command::new("setpriv");
    command
        .current_dir(scratch)
        .args(["--pdeathsig", "KILL", QEMU])
        .args([
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-nodefaults",
            "-no-user-config",
        ])
        .args(["-no-reboot", "-display", "none"])
        .args(["-smp", &machine.cpus.to_string()])
        .args(memory(machine))
        .args(["-chardev", "file,id=kernel,path=/dev/stderr,append=on"])
        .args(["-chardev", "stdio,id=program,signal=off"])
        .args(["-chardev", "file,id=status,path=status"])
        .args(["-serial", "chardev:kernel", "-serial", "chardev:program"])
        .args(["-serial", "chardev:status", "-initrd", "initrd"])
        .args(["-append", &append, "-kernel"])
        .arg(image)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

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

/// Passes on the guest's output until QEMU has ended, or is killed at the deadline; returns whether
/// it ended in time.
fn follow(
    child: &mut Child,
    deadline: Instant,
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> Result<bool, String> {
    let (sender, receiver) = channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    if let Some(stdout) = stdout {
        read(Stream::Program, stdout, sender.clone());
    }
    if let Some(stderr) = stderr {
        read(Stream::Kernel, stderr, sender);
    }
    let in_time = pass(&receiver, deadline, sink) && ended(child, deadline)?;
    if !in_time {
        // QEMU may have ended at this moment; then there is nothing to kill.
        let _ = child.kill();
        pass(&receiver, Instant::now() + Duration::from_secs(5), sink);
    }
    Ok(in_time)
}

/// Passes on output as it comes; returns false if the deadline passed before its end.
fn pass(
    receiver: &Receiver<(Stream, Vec<u8>)>,
    deadline: Instant,
    sink: &mut dyn FnMut(Stream, &[u8]),
) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        match receiver.recv_timeout(left) {
            Ok((stream, bytes)) => sink(stream, &bytes),
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}

/// Waits for the end of a child that has closed its output; returns false if the deadline passed
/// before.
fn ended(child: &mut Child, deadline: Instant) -> Result<bool, String> {
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(10)),
            Ok(Some(status)) if status.success() => return Ok(true),
            Ok(Some(status)) => {
                return Err(format!(
                    "{QEMU} ended with {status}; what it said stands above"
                ));
            }
            Err(error) => return Err(format!("cannot wait for {QEMU}: {error}")),
        }
    }
    Ok(false)
}

/// Reads to the end in a separate thread. The kernel's lines end with CR LF, as on a terminal.
fn read(stream: Stream, mut from: impl Read + Send + 'static, to: Sender<(Stream, Vec<u8>)>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            let mut bytes = buffer[..size].to_vec();
            if stream == Stream::Kernel {
                bytes.retain(|byte| *byte != b'\r');
            }
            if to.send((stream, bytes)).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, seconds: u64) -> (Result<bool, String>, Vec<u8>, Vec<u8>) {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut running = Running(child.unwrap());
        let (mut out, mut kernel) = (Vec::new(), Vec::new());
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let in_time = follow(&mut running.0, deadline, &mut |stream, bytes| {
            let to = if stream == Stream::Program {
                &mut out
            } else {
                &mut kernel
            };
            to.extend(bytes);
        });
        (in_time, out, kernel)
    }

    #[test]
    fn output_streams_are_passed_on_separately() {
        let said = shell("printf 'a\\r\\n'; printf 'b\\r\\n' >&2", 60);
        assert_eq!(said, (Ok(true), b"a\r\n".to_vec(), b"b\n".to_vec()));
    }

    #[test]
    fn one_that_hangs_is_killed_in_time_with_its_output_kept() {
        for script in ["echo a; exec sleep 60", "echo a; exec sleep 60 >&- 2>&-"] {
            let begin = Instant::now();
            assert_eq!(shell(script, 1), (Ok(false), b"a\n".to_vec(), vec![]));
            assert!(begin.elapsed() < Duration::from_secs(30));
        }
    }

    #[test]
    fn one_that_fails_is_an_error() {
        assert!(
            shell("exit 1", 60)
                .0
                .unwrap_err()
                .contains("exit status: 1")
        );
    }
}
