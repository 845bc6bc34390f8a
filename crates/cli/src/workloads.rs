//! Resolves the names that users give to running processes: of units, containers, pods and users.
//!
//! Invariant: a name with several meanings selects none of them: the failure lists the candidates.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use host::system::{Groups, Proc};
use host::watch::NameOf;
use host::workload::{self, Resolved, Workload};

use crate::failure::Failure;

/// Maximum number of processes with one name that a message lists.
const LISTED_PIDS_MAX: usize = 8;

/// Kinds of parts for which users have names.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// A systemd unit; a process in no unit counts to its control group
    Unit,
    /// A container; a process in no container counts to its unit
    Container,
    /// A pod of Kubernetes; a process in no pod counts to its unit
    Pod,
    /// A user
    User,
}

impl By {
    /// Returns the name of the part that a process belongs to: its unit, container, pod or user.
    fn key(self, workload: &Workload, uid: u32) -> String {
        match self {
            By::Unit => workload.key(workload::By::Unit),
            By::Container => workload.key(workload::By::Container),
            By::Pod => workload.key(workload::By::Pod),
            By::User => format!("user:{uid}"),
        }
    }
}

/// What a name stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A process and its descendants.
    Pid(u32),
    /// The control group with this path.
    Group(PathBuf),
    /// Several control groups, by their paths.
    Several(Vec<PathBuf>),
}

/// Returns a function that returns the name of a process's part. It resolves each control group
/// once.
pub(crate) fn names_by(by: By) -> NameOf {
    let mut known: HashMap<String, Workload> = HashMap::new();
    Box::new(move |process| {
        let workload = known.entry(process.cgroup.clone()).or_insert_with(|| {
            let mut workload = [Workload::of(Path::new(&process.cgroup))];
            workload::name(&mut workload, Path::new("/"));
            let [workload] = workload;
            workload
        });
        Some(by.key(workload, process.uid))
    })
}

/// Finds the meaning of a name: a pid, or control groups.
///
/// # Errors
/// Nothing has that name, or the name has several meanings; or /proc cannot be read.
pub(crate) fn find(name: &str) -> Result<Found, Failure> {
    if let Ok(pid) = name.parse() {
        return Ok(Found::Pid(pid));
    }
    let proc = Proc::system()?;
    let groups = Groups::find(&proc)?;
    let mut processes = Vec::new();
    for pid in proc.pids()? {
        // A process that has ended meanwhile is in no group.
        if let Ok(Some(group)) = groups.of_process(&proc, pid) {
            processes.push((pid, group.path));
        }
    }
    let mut workloads = workload::gather(processes);
    workload::name(&mut workloads, Path::new("/"));
    meant(name, &workloads, &called(&proc, name))
}

/// Returns the first processes whose name in the kernel is `name`, as users often try such names.
fn called(proc: &Proc, name: &str) -> Vec<u32> {
    let pids = proc.pids().unwrap_or_default().into_iter();
    let is_called = |pid: &u32| matches!(proc.name(*pid), Ok(Some(found)) if found == name);
    pids.filter(is_called).take(LISTED_PIDS_MAX).collect()
}

/// Returns the hint if nothing has the name: similar names, or the pids of processes with this
/// name.
fn hint(nearest: &[String], called: &[u32]) -> String {
    let pids: Vec<String> = called.iter().map(u32::to_string).collect();
    match (pids.is_empty(), nearest.is_empty()) {
        (false, _) => format!(
            "processes with this name are given by their pid: {}",
            pids.join(", ")
        ),
        (true, false) => format!("did you mean {}?", nearest.join(", ")),
        (true, true) => {
            "`pagetide recommend` lists all that runs; a process is given by its pid".to_owned()
        }
    }
}

/// Returns the control groups that the name means, or why it means none.
fn meant(name: &str, workloads: &[Workload], called: &[u32]) -> Result<Found, Failure> {
    match workload::resolve(name, workloads) {
        Resolved::Found(found) => {
            let mut paths: Vec<PathBuf> = found.iter().map(|one| one.path.clone()).collect();
            Ok(match (paths.pop(), paths.is_empty()) {
                (Some(one), true) => Found::Group(one),
                (one, _) => Found::Several(paths.into_iter().chain(one).collect()),
            })
        }
        Resolved::NotFound(nearest) => {
            let hint = hint(&nearest, called);
            Err(Failure::new(
                format!(
                    "cannot find `{}`: no unit, container or pod has this name",
                    name.escape_debug()
                ),
                hint,
            ))
        }
        Resolved::Ambiguous(candidates) => Err(Failure::new(
            format!(
                "cannot tell which `{}` is meant: several have this name",
                name.escape_debug()
            ),
            format!("give one of {}", candidates.join(", ")),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workloads() -> Vec<Workload> {
        let paths = [
            "/system.slice/redis.service",
            "/system.slice/nginx.service",
            "/user.slice/user-1000.slice/user@1000.service/app.slice/redis.service",
        ];
        workload::gather((1..).zip(paths.map(PathBuf::from)))
    }

    #[test]
    fn a_name_is_a_group_or_the_candidates_are_listed() {
        let all = workloads();
        let nginx = PathBuf::from("/system.slice/nginx.service");
        assert_eq!(meant("nginx", &all, &[]).expect("one"), Found::Group(nginx));
        let many = meant("redis", &all, &[]).expect_err("two").to_string();
        assert!(many.contains("several have this name"), "{many}");
        let none = meant("ngin", &all, &[]).expect_err("none").to_string();
        assert!(
            none.contains("no unit, container or pod has this name"),
            "{none}"
        );
        // Regression: `recommend redis-server` did not mention the pid that it would accept.
        let reported = hint(&[], &[12, 34]);
        assert!(reported.ends_with("by their pid: 12, 34"), "{reported}");
        assert_eq!(find("12").expect("a pid"), Found::Pid(12));
    }
}
