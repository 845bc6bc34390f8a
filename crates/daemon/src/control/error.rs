//! Errors of the control socket.

use super::Tenant;
use crate::error::Error;

/// Why a request failed, or why a manager could not listen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ControlError {
    /// No manager listens.
    #[error("cannot reach the manager of {tenant}: no pagetide manages it")]
    NotManaged {
        /// The target.
        tenant: Tenant,
    },
    /// The manager belongs to another user.
    #[error("cannot use the manager of {tenant}: it belongs to user {owner}")]
    Denied {
        /// The target.
        tenant: Tenant,
        /// User id of the manager.
        owner: u32,
    },
    /// The process behind the socket is another user's, or in another pid namespace.
    #[error(
        "will not talk to the socket of {tenant}: a process of user {owner} that cannot be trusted listens"
    )]
    Impostor {
        /// The target.
        tenant: Tenant,
        /// User id of that process.
        owner: u32,
    },
    /// The manager did not answer in time.
    #[error("no answer from the manager of {tenant}: it was silent for {waited_ms} ms")]
    Timeout {
        /// The target.
        tenant: Tenant,
        /// How long the client waited, in milliseconds.
        waited_ms: u64,
    },
    /// The manager refused the request.
    #[error("{0}")]
    Refused(Error),
    /// The manager's response cannot be parsed.
    #[error("cannot understand the manager of {tenant}: {why}")]
    Protocol {
        /// The target.
        tenant: Tenant,
        /// What is wrong with the response.
        why: String,
    },
    /// The name of the manager's socket is already in use.
    #[error("cannot manage {tenant}: {why}")]
    Bind {
        /// The target.
        tenant: Tenant,
        /// What uses the name.
        why: String,
    },
    /// The manager ended before it answered.
    #[error("no answer from the manager of {tenant}: it ended before it answered")]
    Ended {
        /// The target.
        tenant: Tenant,
    },
    /// A system call failed.
    #[error("cannot talk to the manager of {tenant}: {why}")]
    Io {
        /// The target.
        tenant: Tenant,
        /// The kernel's reason.
        why: String,
    },
}

impl ControlError {
    /// Returns a text that says what the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            ControlError::NotManaged { tenant } => match tenant {
                Tenant::Pid(pid) => format!(
                    "manage it with `pagetide attach {pid}`; a manager that another user started answers that user"
                ),
                Tenant::Group(_) | Tenant::GroupNamed(_) => {
                    "manage it with `pagetide attach --cgroup PATH`".to_owned()
                }
                Tenant::Tree(root) => format!(
                    "start `pagetide serve --root {}`, or give the --root that serves",
                    root.display()
                ),
            },
            ControlError::Denied { .. } => "run the command as that user, or as root that may trace processes (CAP_SYS_PTRACE), where they have the same numbers (not in a container of its own)".to_owned(),
            ControlError::Impostor { tenant, .. } => {
                let name = tenant.socket_name();
                format!("find it with `ss -xlp | grep control/{name}` and end it")
            }
            ControlError::Timeout { .. } => {
                "is the manager stopped? `ps -C pagetide -o pid,stat,cmd` shows T for stopped"
                    .to_owned()
            }
            ControlError::Refused(error) => error.hint().to_owned(),
            ControlError::Protocol { .. } => {
                "use the pagetide command of the same version".to_owned()
            }
            ControlError::Bind { tenant, .. } => {
                let detach = tenant.pid().map(|pid| format!("`pagetide detach {pid}`"));
                let detach = detach.unwrap_or_else(|| "detach that one".to_owned());
                format!("send the request to that manager, or end it first: {detach}")
            }
            ControlError::Ended { .. } => {
                "its manager has ended: check the program's state, then try again".to_owned()
            }
            ControlError::Io { .. } => "see whether the manager still runs".to_owned(),
        }
    }
}

impl From<ControlError> for Error {
    fn from(error: ControlError) -> Error {
        let (what, hint) = (error.to_string(), error.hint());
        match error {
            ControlError::Refused(error) => error,
            ControlError::Denied { .. } => Error::missing(what, hint),
            _ => Error::failed(what, hint),
        }
    }
}
