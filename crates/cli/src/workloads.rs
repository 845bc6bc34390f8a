//! Names that people have for what runs: units, containers, pods, users.
//!
//! Invariant: a name that fits several is nobody's: the candidates are told.

use std::path::PathBuf;

use host::watch::NameOf;

use crate::failure::Failure;

/// What people have names for.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// A systemd unit; a container where it has none
    Unit,
    /// A container; a unit where it is in none
    Container,
    /// A pod of Kubernetes; a container or a unit where it is in none
    Pod,
    /// A user
    User,
}

/// What a name means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A process and its descendants.
    Pid(u32),
    /// The processes of a control group.
    Group(PathBuf),
}

/// The names of parts, by what was asked for.
pub(crate) fn names_by(by: By) -> NameOf {
    Box::new(move |process| match by {
        By::User => Some(format!("user:{}", process.uid)),
        By::Unit | By::Container | By::Pod => Some(process.cgroup.clone()),
    })
}

/// What is meant by a name: a pid, or a control group.
///
/// # Errors
/// Nothing has that name, or several have.
pub(crate) fn find(name: &str) -> Result<Found, Failure> {
    match name.parse() {
        Ok(pid) => Ok(Found::Pid(pid)),
        Err(_) => Ok(Found::Group(PathBuf::from(name))),
    }
}
