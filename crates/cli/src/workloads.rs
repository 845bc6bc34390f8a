//! Names that people have for what runs: units, containers, pods, users.
//!
//! Invariant: a name that fits several is nobody's: the candidates are told.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use host::system::{Groups, Proc};
use host::watch::NameOf;
use host::workload::{self, Resolved, Workload};

use crate::failure::Failure;

/// A message lists at most this many processes of one name.
const CALLED_MAX: usize = 8;

/// What people have names for.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// A systemd unit; the control group where there is none
    Unit,
    /// A container; a unit where it is in none
    Container,
    /// A pod of Kubernetes; a unit where it is in none
    Pod,
    /// A user
    User,
}

impl By {
    fn key(self, workload: &Workload, uid: u32) -> String {
        match self {
            By::Unit => workload.key(workload::By::Unit),
            By::Container => workload.key(workload::By::Container),
            By::Pod => workload.key(workload::By::Pod),
            By::User => format!("user:{uid}"),
        }
    }
}

/// What a name means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A process and its descendants.
    Pid(u32),
    /// The processes of a control group, and its name.
    Group(PathBuf),
    /// The processes of several groups: pids as of now.
    Several(Vec<PathBuf>),
}

/// The names of parts, by what was asked for. Each control group is looked up once.
pub(crate) fn names_by(by: By) -> NameOf {
    let mut known: HashMap<String, Workload> = HashMap::new();
    Box::new(move |process| {
        let workload = known.entry(process.cgroup.clone()).or_insert_with(|| {
            let mut one = [Workload::of(Path::new(&process.cgroup))];
            workload::name(&mut one, Path::new("/"));
            let [one] = one;
            one
        });
        Some(by.key(workload, process.uid))
    })
}

/// What is meant by a name: a pid, or control groups.
///
/// # Errors
/// Nothing has that name, or several have; /proc cannot be read.
pub(crate) fn find(name: &str) -> Result<Found, Failure> {
    if let Ok(pid) = name.parse() {
        return Ok(Found::Pid(pid));
    }
    let proc = Proc::system()?;
    let groups = Groups::find(&proc)?;
    let mut processes = Vec::new();
    for pid in proc.pids()? {
        // A process that has ended meanwhile is in none.
        if let Ok(Some(group)) = groups.of_process(&proc, pid) {
            processes.push((pid, group.path));
        }
    }
    let mut workloads = workload::gather(processes);
    workload::name(&mut workloads, Path::new("/"));
    meant(name, &workloads, &called(&proc, name))
}

/// The first processes that the kernel knows by this name: people try that first.
fn called(proc: &Proc, name: &str) -> Vec<u32> {
    let pids = proc.pids().unwrap_or_default().into_iter();
    let is_called = |pid: &u32| matches!(proc.name(*pid), Ok(Some(found)) if found == name);
    pids.filter(is_called).take(CALLED_MAX).collect()
}

/// What to do where nothing has a name: these are named nearly so, and these processes are called so.
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
                    "cannot find `{}`: nothing that runs has this name",
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
    fn a_name_is_a_group_or_the_candidates_are_told() {
        let all = workloads();
        let nginx = PathBuf::from("/system.slice/nginx.service");
        assert_eq!(meant("nginx", &all, &[]).expect("one"), Found::Group(nginx));
        let many = meant("redis", &all, &[]).expect_err("two").to_string();
        assert!(many.contains("several have this name"), "{many}");
        let none = meant("ngin", &all, &[]).expect_err("none").to_string();
        assert!(none.contains("nothing that runs has this name"), "{none}");
        // Regression: `recommend redis-server` said nothing of the pid that would do.
        let told = hint(&[], &[12, 34]);
        assert!(told.ends_with("by their pid: 12, 34"), "{told}");
        assert_eq!(find("12").expect("a pid"), Found::Pid(12));
    }
}
