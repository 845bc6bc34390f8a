//! Workloads: what runs in a control group. This is a systemd unit, a container, a Kubernetes pod,
//! or a group of which only the path is known.
//!
//! Invariant: the group's path alone decides what runs there ([`Workload::of`], a pure function).
//! Files of the container runtimes only add names ([`name`]), and only if no other user can have
//! written them. Text for users is printable and at most [`TEXT_MAX`] characters long;
//! [`Workload::path`] contains the path's original bytes.
//!
//! ```
//! use host::workload::{By, Resolved, gather, name, resolve};
//!
//! let pid = 7;
//! let mut workloads = gather([(pid, "/system.slice/redis.service".into())]);
//! name(&mut workloads, std::path::Path::new("/"));
//! assert_eq!(workloads[0].key(By::Unit), "redis.service");
//! assert!(matches!(resolve("redis", &workloads), Resolved::Found(_)));
//! ```

mod files;
mod path;
mod resolve;

mod names;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

pub use names::name;
pub use resolve::{Resolved, resolve};

/// Maximum length of a name's text, in characters. A longer text is cut and ends with `…`.
pub const TEXT_MAX: usize = 4096;

/// The kind of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A service or scope of systemd.
    Unit,
    /// A container of a [`Runtime`].
    Container,
    /// A Kubernetes pod's own group: processes of the pod that are in none of its containers.
    Pod,
    /// A control group of which nothing else is known.
    Group,
}

/// The program that made a container.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// containerd: by Kubernetes, nerdctl or ctr.
    Containerd,
    /// CRI-O.
    CriO,
    /// LXC, LXD, Incus, Proxmox.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
}

impl Runtime {
    /// Returns the runtime's name in a workload's key, such as `docker` in `docker:web`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Lxc => "lxc",
            Self::Nspawn => "nspawn",
        }
    }
}

/// How workloads are grouped when their memory is summed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// By systemd unit.
    Unit,
    /// By container.
    Container,
    /// By Kubernetes pod.
    Pod,
}

/// What runs in one control group and in the groups below it. A field that is not known is `None`
/// or empty.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Workload {
    /// The kind of the workload.
    pub kind: Kind,
    /// The control group's path below the mount of the memory controller. It ends at the unit,
    /// container or pod: groups that a service or a container makes below its own belong to it.
    #[serde(skip)]
    pub path: PathBuf,
    /// `path` as printable text.
    pub group: String,
    /// The nearest service or scope, with systemd's escapes undone. Units inside a container are
    /// not named here, as they belong to the container's own systemd.
    pub unit: Option<String>,
    /// The unit's name with systemd's escapes, as systemd's commands accept it.
    pub unit_id: Option<String>,
    /// The program that made the container.
    pub runtime: Option<Runtime>,
    /// The container's id: 64 hexadecimal digits.
    pub container_id: Option<String>,
    /// The container's name.
    pub container: Option<String>,
    /// The pod's uid as Kubernetes writes it, with `-`.
    pub pod_uid: Option<String>,
    /// The pod's name.
    pub pod: Option<String>,
    /// The pod's Kubernetes namespace.
    pub namespace: Option<String>,
    /// The id of the user whose slice contains the group.
    pub user: Option<u32>,
    /// PIDs of the workload's processes, ascending; empty unless [`gather`] made this value.
    pub pids: Vec<u32>,
}

impl Workload {
    /// Returns the name under which this workload's memory is summed up, grouped by `by`. Workloads
    /// of one unit, container or pod have the same key, and [`resolve()`] accepts it. If the
    /// workload is in no container or pod as `by` requires, the key is its unit, otherwise its
    /// group. Forms: `redis.service`, `user:1000/app.service`, `docker:web`,
    /// `user:1000/podman:web`, `namespace/pod/container`, `namespace/pod`, `pod:UID`, `/path`.
    #[must_use]
    pub fn key(&self, by: By) -> String {
        let key = match by {
            By::Unit => None,
            By::Container => self.container_key(),
            By::Pod => self.pod_key(),
        };
        key.or_else(|| self.unit_key())
            .unwrap_or_else(|| self.group.clone())
    }

    /// Returns the key of the unit, `UNIT` or `user:ID/UNIT`; `None` if the workload has no unit.
    pub(crate) fn unit_key(&self) -> Option<String> {
        Some(self.of_user(self.unit.as_ref()?))
    }

    /// Returns the key of the pod, `NAMESPACE/POD`, or `pod:UID` if the pod's name is not known;
    /// `None` if the workload has no pod.
    pub(crate) fn pod_key(&self) -> Option<String> {
        match (&self.namespace, &self.pod) {
            (Some(namespace), Some(pod)) => Some(format!("{namespace}/{pod}")),
            _ => Some(format!("pod:{}", self.pod_uid.as_ref()?)),
        }
    }

    /// Returns the key of the container: the key of its pod and its name, or `RUNTIME:NAME`; `None`
    /// if the workload is no container.
    pub(crate) fn container_key(&self) -> Option<String> {
        let short = || self.container_id.as_ref().map(|id| id[..12].to_owned());
        let name = self.container.clone().or_else(short)?;
        if let Some(pod) = self.pod_key() {
            return Some(format!("{pod}/{name}"));
        }
        let runtime = self.runtime.map_or("container", Runtime::name);
        Some(self.of_user(&format!("{runtime}:{name}")))
    }

    /// Returns `name`, preceded by the user if the workload is in a user's slice. Otherwise users
    /// could choose names that look like those of the system's units and containers.
    fn of_user(&self, name: &str) -> String {
        match self.user {
            Some(user) => format!("user:{user}/{name}"),
            None => name.to_owned(),
        }
    }
}

/// Returns the workloads of `processes`, one for each [`Workload::path`], in the order of paths. An
/// item of `processes` is a pid, and the path of its control group below the mount of the memory
/// controller.
#[must_use]
pub fn gather(processes: impl IntoIterator<Item = (u32, PathBuf)>) -> Vec<Workload> {
    let mut found: BTreeMap<PathBuf, Workload> = BTreeMap::new();
    for (pid, path) in processes {
        let workload = Workload::of(&path);
        let workload = found.entry(workload.path.clone()).or_insert(workload);
        workload.pids.push(pid);
    }
    let mut found: Vec<Workload> = found.into_values().collect();
    for workload in &mut found {
        workload.pids.sort_unstable();
        workload.pids.dedup();
    }
    found
}

/// Returns a name as printable text of at most [`TEXT_MAX`] characters.
fn text(bytes: &[u8]) -> String {
    let printable = crate::system::text::printable(bytes);
    match printable.char_indices().nth(TEXT_MAX) {
        None => printable,
        Some(_) => printable.chars().take(TEXT_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests;
