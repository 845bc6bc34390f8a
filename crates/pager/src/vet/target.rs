//! Can this process be managed?
//!
//! Invariant: read only. Opening `/proc/PID/mem` asks the kernel exactly what PTRACE_ATTACH would
//! ask (`PTRACE_MODE_ATTACH`, ptrace(2)), the Yama module included, and has no effect on the
//! process.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};

use super::process::{Machine, Status, is_kernel_thread};
use super::refusal::Refusal;
use super::seccomp::{KEEPER_CALLS, SeccompSource, denied_calls};

/// A process that can be managed, as it was when it was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Its pid.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its argument vector, bytes that are not UTF-8 replaced.
    pub command: Vec<String>,
    /// Threads it had.
    pub threads: u32,
}

/// Looks at `pid` from every side that could make management fail half-way.
///
/// # Errors
/// The first [`Refusal`] found; the process is untouched.
pub fn target(pid: u32, seccomp: &dyn SeccompSource) -> Result<Target, Refusal> {
    if pid == std::process::id() {
        return Err(Refusal::Ourselves { pid });
    }
    let status = Status::parse(&read(pid, "status")?);
    check_alive(pid, &status, &read(pid, "stat")?)?;
    check_permission(pid, &status)?;
    check_machine(pid)?;
    if status.tracer != 0 {
        let tracer = status.tracer;
        return Err(Refusal::Traced {
            pid,
            tracer,
            name: name_of(tracer),
        });
    }
    check_unmanaged(pid)?;
    check_seccomp(pid, &status, seccomp)?;
    Ok(Target {
        pid,
        uid: status.uid,
        command: command_of(pid),
        threads: status.threads,
    })
}

/// The argument vector of `pid`; its name in brackets, as ps(1) does, if it has none.
#[must_use]
pub fn command_of(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    if bytes.is_empty() {
        return vec![format!("[{}]", name_of(pid))];
    }
    let words = bytes.split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// A file of `/proc/PID`. A process that has gone is the only expected failure.
fn read(pid: u32, file: &str) -> Result<String, Refusal> {
    let bytes = fs::read(format!("/proc/{pid}/{file}")).map_err(|error| gone(pid, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn gone(pid: u32, error: &io::Error) -> Refusal {
    let vanished = rustix::io::Errno::SRCH.raw_os_error();
    if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(vanished) {
        return Refusal::NoSuchProcess { pid };
    }
    Refusal::Proc {
        pid,
        why: error.to_string(),
    }
}

fn check_alive(pid: u32, status: &Status, stat: &str) -> Result<(), Refusal> {
    let name = status.name.clone();
    if status.tgid != pid {
        let process = status.tgid;
        return Err(Refusal::IsThread { pid, process });
    }
    if matches!(status.state, 'Z' | 'X') {
        return Err(Refusal::Zombie { pid, name });
    }
    if is_kernel_thread(stat) {
        return Err(Refusal::KernelThread { pid, name });
    }
    Ok(())
}

fn check_permission(pid: u32, status: &Status) -> Result<(), Refusal> {
    let error = match File::open(format!("/proc/{pid}/mem")) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::PermissionDenied {
        return Err(gone(pid, &error));
    }
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let me = rustix::process::geteuid().as_raw();
    let (why, remedy) = why_denied(status.uid, me, yama.trim());
    Err(Refusal::NoPermission { pid, why, remedy })
}

/// The rule that most likely said no, in the order in which the kernel asks them.
fn why_denied(owner: u32, me: u32, yama: &str) -> (String, String) {
    if owner != me {
        let why = format!("it belongs to user {owner}, and you are user {me}");
        let remedy = "run pagetide as that user, or as root".to_owned();
        return (why, remedy);
    }
    if matches!(yama, "1" | "2" | "3") {
        let why = format!("kernel.yama.ptrace_scope={yama} lets only parents or root trace");
        let remedy = match yama {
            "3" => "ptrace_scope=3 cannot be lowered before a reboot",
            _ => {
                "sysctl kernel.yama.ptrace_scope=0, or setcap cap_sys_ptrace+ep on pagetide, \
                 or start it with `pagetide run`"
            }
        };
        return (why, remedy.to_owned());
    }
    let why = "the kernel does not let you trace it (it has more privileges than you, or it \
               made itself undumpable)";
    let remedy = match me {
        0 => {
            "run pagetide with CAP_SYS_PTRACE in the process's own user namespace (in a \
              container: --cap-add SYS_PTRACE, or from the host)"
        }
        _ => "run pagetide as root",
    };
    (why.to_owned(), remedy.to_owned())
}

fn check_machine(pid: u32) -> Result<(), Refusal> {
    let mut header = [0; 20];
    File::open(format!("/proc/{pid}/exe"))
        .and_then(|mut exe| exe.read_exact(&mut header))
        .map_err(|error| gone(pid, &error))?;
    let kind = match Machine::of(&header) {
        Machine::X86_64 => return Ok(()),
        Machine::Bits32 => "a 32-bit program".to_owned(),
        Machine::Other(machine) => format!("a program for another machine (ELF {machine})"),
        Machine::NotElf => "no ELF program".to_owned(),
    };
    Err(Refusal::Machine { pid, kind })
}

fn check_unmanaged(pid: u32) -> Result<(), Refusal> {
    match crate::control::manager_of(pid) {
        Ok(None) => Ok(()),
        Ok(Some(manager)) => Err(Refusal::AlreadyManaged { pid, manager }),
        Err(error) => Err(Refusal::Proc {
            pid,
            why: error.to_string(),
        }),
    }
}

fn check_seccomp(pid: u32, status: &Status, source: &dyn SeccompSource) -> Result<(), Refusal> {
    let denied = match status.seccomp {
        0 => return Ok(()),
        1 => "everything but read, write and exit (strict mode)".to_owned(),
        _ => denied_by_filters(pid, source)?,
    };
    if denied.is_empty() {
        return Ok(());
    }
    Err(Refusal::Seccomp { pid, denied })
}

/// The first calls that the filters deny, in words; empty if none.
fn denied_by_filters(pid: u32, source: &dyn SeccompSource) -> Result<String, Refusal> {
    const NAMED: usize = 5;
    let unread = |why: String| Refusal::SeccompUnread { pid, why };
    let filters = source.filters(pid).map_err(|e| unread(e.to_string()))?;
    if filters.is_empty() {
        return Err(unread("it has one, and none was found".to_owned()));
    }
    let denied = denied_calls(&filters, KEEPER_CALLS).map_err(|e| unread(e.to_string()))?;
    let names: Vec<_> = denied.iter().take(NAMED).map(|(name, _)| *name).collect();
    let more = match denied.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Ok(names.join(", ") + &more)
}

#[cfg(test)]
mod tests;
