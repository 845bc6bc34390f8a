//! Every reason not to manage a process, as one enum.
//!
//! Invariant: a refusal means that the process was not touched. Its text says what failed and why,
//! [`Refusal::hint`] what to do.

use std::path::PathBuf;

use crate::error::ExitCode;

/// Why a process cannot be managed, or a store not used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No such pid (any more).
    #[error("cannot manage pid {pid}: no such process")]
    NoSuchProcess {
        /// What was asked for.
        pid: u32,
    },
    /// A thread, not a process.
    #[error("cannot manage pid {pid}: it is a thread of process {process}")]
    IsThread {
        /// What was asked for.
        pid: u32,
        /// Its process.
        process: u32,
    },
    /// pagetide itself.
    #[error("cannot manage pid {pid}: that is this pagetide itself")]
    Ourselves {
        /// What was asked for.
        pid: u32,
    },
    /// It has ended.
    #[error("cannot manage pid {pid}: `{name}` has ended and only waits for its parent (zombie)")]
    Zombie {
        /// What was asked for.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It has no memory of its own.
    #[error("cannot manage pid {pid}: `{name}` is a kernel thread, without memory of its own")]
    KernelThread {
        /// What was asked for.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// ptrace's rule says no.
    #[error("cannot manage pid {pid}: {why}")]
    NoPermission {
        /// What was asked for.
        pid: u32,
        /// Which rule says no.
        why: String,
        /// How to be let in.
        remedy: String,
    },
    /// Not a program of this machine.
    #[error("cannot manage pid {pid}: it is {kind}, and the keeper is 64-bit x86 code")]
    Machine {
        /// What was asked for.
        pid: u32,
        /// What it is.
        kind: String,
    },
    /// A debugger is there.
    #[error("cannot manage pid {pid}: pid {tracer} ({name}) is tracing it")]
    Traced {
        /// What was asked for.
        pid: u32,
        /// The tracer.
        tracer: u32,
        /// Its name.
        name: String,
    },
    /// One manager is enough.
    #[error("cannot manage pid {pid}: it is already managed by pid {manager}")]
    AlreadyManaged {
        /// What was asked for.
        pid: u32,
        /// Its manager.
        manager: u32,
    },
    /// A seccomp filter would stop the keeper.
    #[error("cannot manage pid {pid}: its seccomp filter forbids what the keeper needs: {denied}")]
    Seccomp {
        /// What was asked for.
        pid: u32,
        /// The calls, with the verdict.
        denied: String,
    },
    /// Nobody knows what the filter says.
    #[error("cannot manage pid {pid}: it has a seccomp filter that cannot be read: {why}")]
    SeccompUnread {
        /// What was asked for.
        pid: u32,
        /// Why not.
        why: String,
    },
    /// No place for evicted pages.
    #[error("cannot use {} as a store: {why}", .dir.display())]
    Store {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// /proc did not answer.
    #[error("cannot look at pid {pid}: {why}")]
    Proc {
        /// What was asked for.
        pid: u32,
        /// The kernel's reason.
        why: String,
    },
}

impl Refusal {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Refusal::NoSuchProcess { .. } => "see `ps -e` for what runs".to_owned(),
            Refusal::IsThread { process, .. } => format!("give the process: {process}"),
            Refusal::Ourselves { .. } => "give the pid of another process".to_owned(),
            Refusal::Zombie { .. } => "nothing is left to manage".to_owned(),
            Refusal::KernelThread { .. } => "give the pid of a program".to_owned(),
            Refusal::NoPermission { remedy, .. } => remedy.clone(),
            Refusal::Machine { .. } => "run a 64-bit build of the program".to_owned(),
            Refusal::Traced { tracer, .. } => {
                format!("end the debugger (pid {tracer}) first, or detach it")
            }
            Refusal::AlreadyManaged { pid, .. } => {
                format!("`pagetide report {pid}` shows it, `pagetide detach {pid}` frees it")
            }
            Refusal::Seccomp { .. } => "start the program without that filter, e.g. docker run \
                 --security-opt seccomp=unconfined, or a systemd unit without SystemCallFilter="
                .to_owned(),
            Refusal::SeccompUnread { .. } => "run pagetide as root (reading a filter needs \
                 CAP_SYS_ADMIN and CONFIG_CHECKPOINT_RESTORE)"
                .to_owned(),
            Refusal::Store { remedy, .. } => (*remedy).to_owned(),
            Refusal::Proc { .. } => "is /proc mounted here?".to_owned(),
        }
    }

    /// How the process ends.
    #[must_use]
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Refusal::NoPermission { .. } | Refusal::SeccompUnread { .. } => ExitCode::Missing,
            Refusal::IsThread { .. } | Refusal::Ourselves { .. } => ExitCode::Usage,
            _ => ExitCode::Failure,
        }
    }
}
