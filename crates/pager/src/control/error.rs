//! Why a manager could not be asked.

use crate::error::ExitCode;

use super::protocol::Complaint;

/// Why a manager could not be asked, or could not listen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error("cannot reach the manager of pid {pid}: no pagetide manages it")]
    NotManaged {
        /// The target.
        pid: u32,
    },
    /// The manager belongs to somebody else.
    #[error("cannot use the manager of pid {pid}: it belongs to user {owner}")]
    Denied {
        /// The target.
        pid: u32,
        /// User of the manager.
        owner: u32,
    },
    /// Somebody else sits on the socket's name.
    #[error("will not talk to the socket of pid {pid}: it is held by user {owner}")]
    Impostor {
        /// The target.
        pid: u32,
        /// Who answered.
        owner: u32,
    },
    /// It did not answer in time.
    #[error("no answer from the manager of pid {pid}: it was silent for {waited_ms} ms")]
    Timeout {
        /// The target.
        pid: u32,
        /// How long we waited.
        waited_ms: u64,
    },
    /// The manager said no.
    #[error("{}", .0.what)]
    Refused(Complaint),
    /// The answer makes no sense.
    #[error("cannot understand the manager of pid {pid}: {why}")]
    Protocol {
        /// The target.
        pid: u32,
        /// What is wrong.
        why: String,
    },
    /// The socket's name is taken.
    #[error("cannot listen for pid {pid}: {why}")]
    Bind {
        /// The target.
        pid: u32,
        /// The kernel's reason.
        why: String,
    },
    /// A system call failed.
    #[error("cannot talk to the manager of pid {pid}: {why}")]
    Io {
        /// The target.
        pid: u32,
        /// The kernel's reason.
        why: String,
    },
}

impl ControlError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            ControlError::NotManaged { pid } => format!(
                "start with `pagetide attach {pid}`, or `pagetide adopt {pid}` if its pagetide died"
            ),
            ControlError::Denied { .. } => "run the command as that user, or as root".to_owned(),
            ControlError::Impostor { pid, .. } => {
                format!("find it with `ss -xlp | grep pagetide.{pid}` and end it")
            }
            ControlError::Timeout { .. } => {
                "is the manager stopped? `ps -C pagetide -o pid,stat,cmd` shows T for stopped"
                    .to_owned()
            }
            ControlError::Refused(complaint) => complaint.hint.clone(),
            ControlError::Protocol { .. } => {
                "use the pagetide command of the same version".to_owned()
            }
            ControlError::Bind { pid, .. } => format!(
                "another pagetide manages it: see `pagetide report {pid}`, or \
                 `ss -xlp | grep pagetide.{pid}`"
            ),
            ControlError::Io { .. } => "see whether the manager still runs".to_owned(),
        }
    }

    /// How the command that asked ends.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            ControlError::Denied { .. } => ExitCode::Missing,
            ControlError::Refused(complaint) => match complaint.exit {
                2 => ExitCode::Usage,
                3 => ExitCode::Missing,
                _ => ExitCode::Failure,
            },
            _ => ExitCode::Failure,
        }
    }
}
