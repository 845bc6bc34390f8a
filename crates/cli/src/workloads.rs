//! Names that people have for what runs: units, containers, pods, users.
//!
//! Invariant: a name that fits several is nobody's: the candidates are told.

use std::path::PathBuf;

use host::watch::NameOf;

use crate::failure::Failure;
use crate::watching::{By, Target};

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
pub(crate) fn find(name: &str) -> Result<Target, Failure> {
    match name.parse() {
        Ok(pid) => Ok(Target::Pid(pid)),
        Err(_) => Ok(Target::Cgroup(PathBuf::from(name))),
    }
}
