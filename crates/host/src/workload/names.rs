//! Reads the names of containers, pods and namespaces from files that the container runtimes keep
//! on disk.
//!
//! Invariant: a workload in the slice of a user gets names only from that user's files; any other
//! workload gets them only from root's files. So if a user names a group like a container of root,
//! the group gets none of root's names. A name that is in no file stays `None`. A file that is
//! missing, too long or not trusted is ignored. The formats are those of Docker's `config.v2.json`,
//! containers/storage's `containers.json`, the OCI runtime's `config.json` with the annotations of
//! containerd, CRI-O and nerdctl, and the names of the kubelet's log files and directories.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::files::Files;
use super::{Kind, Runtime, Workload, text};

/// Maximum size in bytes of a file about one container, then of a file that lists all containers.
const FILE_BYTES_MAX: u64 = 1 << 20;
const LIST_BYTES_MAX: u64 = 8 << 20;
/// Maximum number of containerd's namespaces that are read.
const NAMESPACES_MAX: usize = 64;
/// Directories in which containerd keeps running containers: its default, then that of k3s and
/// RKE2, then that of MicroK8s.
const CONTAINERD: [&str; 3] = [
    "run/containerd",
    "run/k3s/containerd",
    "var/snap/microk8s/common/run/containerd",
];
/// Where containers/storage (used by Podman and CRI-O) keeps its containers: below the root, then
/// below a home directory.
const STORAGE: &str = "var/lib/containers/storage/overlay-containers";
const STORAGE_AT_HOME: &str = ".local/share/containers/storage/overlay-containers";
/// Files of containers/storage that list containers. The second lists those that are removed when
/// they end.
const STORAGE_LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];

/// Adds the names of containers, pods and namespaces from the runtimes' files below `root` (`/`).
/// Also adds the runtime if the path does not show it. A file that cannot be read, is too long, or
/// can have been written by another user is skipped without a report, since any host has only a few
/// of these runtimes.
pub fn name(workloads: &mut [Workload], root: &Path) {
    let by_root = Source::new(Files::at(root));
    let logs = Logs::read(&by_root.files);
    let mut by_user: BTreeMap<u32, Option<(String, Source)>> = BTreeMap::new();
    for workload in workloads {
        let Some(user) = workload.user.filter(|&user| user != 0) else {
            if let Some(id) = workload.container_id.clone() {
                workload.add(by_root.names_of(&id, workload.runtime));
            }
            logs.add_to(workload);
            continue;
        };
        let Some(id) = workload.container_id.clone() else {
            continue;
        };
        let source = by_user
            .entry(user)
            .or_insert_with(|| Source::of_user(root, user));
        if let Some((home, source)) = source {
            workload.add(source.names_at_home(home, &id));
        }
    }
}

/// Names of one container, as found in one file.
#[derive(Default)]
struct Names {
    runtime: Option<Runtime>,
    container: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
    pod_uid: Option<String>,
}

impl Names {
    /// Parses a container name that the kubelet made for Docker or CRI-O:
    /// `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`. None of its parts contains an underscore.
    fn of_kubelet(name: &str) -> Option<Names> {
        let parts: Vec<&str> = name.strip_prefix("k8s_")?.split('_').collect();
        let [container, pod, namespace, uid, _attempt] = parts.as_slice() else {
            return None;
        };
        Some(Names {
            container: printable_name(container),
            pod: printable_name(pod),
            namespace: printable_name(namespace),
            pod_uid: printable_name(uid),
            ..Names::default()
        })
    }

    /// Returns the names that a container's own name contains; the kubelet may have made that name
    /// ([`Names::of_kubelet`]).
    fn of_name(runtime: Option<Runtime>, name: &str) -> Names {
        let name = name.trim_start_matches('/');
        let names = Self::of_kubelet(name).unwrap_or_else(|| Names {
            container: printable_name(name),
            ..Names::default()
        });
        Names { runtime, ..names }
    }

    /// Returns the names in annotations or labels: in those of Kubernetes, otherwise in nerdctl's.
    fn of_labels(runtime: Option<Runtime>, labels: &BTreeMap<String, String>) -> Names {
        let first = |keys: &[&str]| {
            keys.iter()
                .find_map(|key| printable_name(labels.get(*key)?))
        };
        let is_sandbox = labels
            .get("io.kubernetes.cri.container-type")
            .is_some_and(|kind| kind == "sandbox");
        let container = first(&[
            "io.kubernetes.container.name",
            "io.kubernetes.cri.container-name",
            "nerdctl/name",
        ]);
        Names {
            runtime,
            container: container.or_else(|| is_sandbox.then(|| "POD".to_owned())),
            pod: first(&["io.kubernetes.pod.name", "io.kubernetes.cri.sandbox-name"]),
            namespace: first(&[
                "io.kubernetes.pod.namespace",
                "io.kubernetes.cri.sandbox-namespace",
            ]),
            pod_uid: first(&["io.kubernetes.pod.uid", "io.kubernetes.cri.sandbox-uid"]),
        }
    }
}

impl Workload {
    /// Adds those of `names` that the workload does not have yet.
    fn add(&mut self, names: Option<Names>) {
        let Some(names) = names else {
            return;
        };
        let fill = |field: &mut Option<String>, name| *field = field.take().or(name);
        self.runtime = self.runtime.or(names.runtime);
        fill(&mut self.container, names.container);
        // If the file's pod is not the pod in the path, the file is about another container.
        if self.pod_uid.is_none() || names.pod_uid.is_none() || self.pod_uid == names.pod_uid {
            fill(&mut self.pod, names.pod);
            fill(&mut self.namespace, names.namespace);
            fill(&mut self.pod_uid, names.pod_uid);
        }
    }
}

/// Returns a name as printable text; `None` if it is empty.
fn printable_name(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| text(name.as_bytes()))
}

/// The files of one user, with the lists of containers read from them.
struct Source {
    files: Files,
    /// The name of each container in containers/storage, by the container's id.
    stored: BTreeMap<String, String>,
    /// Directories of containerd that have a directory for each container.
    containerd: Vec<String>,
}

impl Source {
    fn new(files: Files) -> Source {
        let lists =
            STORAGE_LISTS.map(|list| files.read(&format!("{STORAGE}/{list}"), LIST_BYTES_MAX));
        let containerd = CONTAINERD.iter().flat_map(|state| {
            let tasks = format!("{state}/io.containerd.runtime.v2.task");
            let namespaces = files.list(&tasks).into_iter().take(NAMESPACES_MAX);
            namespaces.map(move |namespace| format!("{tasks}/{namespace}"))
        });
        Source {
            containerd: containerd.collect(),
            stored: names_by_id(lists.into_iter().flatten()),
            files,
        }
    }

    /// Returns a user's home directory and files; `None` if `/etc/passwd` has no such user.
    fn of_user(root: &Path, user: u32) -> Option<(String, Source)> {
        let passwd = Files::at(root).read("etc/passwd", FILE_BYTES_MAX)?;
        let home = home(&passwd, user)?;
        let files = Files::of_user(root, user);
        let lists = STORAGE_LISTS.map(|list| {
            files.read_at_home(&home, &format!("{STORAGE_AT_HOME}/{list}"), LIST_BYTES_MAX)
        });
        let source = Source {
            containerd: Vec::new(),
            stored: names_by_id(lists.into_iter().flatten()),
            files,
        };
        Some((home, source))
    }

    /// Returns the names of one of root's containers. If `runtime` is `None`, the files of all
    /// runtimes are searched.
    fn names_of(&self, id: &str, runtime: Option<Runtime>) -> Option<Names> {
        let is_possible = |other| runtime.is_none_or(|runtime| runtime == other);
        let docker = || {
            let path = format!("var/lib/docker/containers/{id}/config.v2.json");
            names_of_docker_config(&self.files.read(&path, FILE_BYTES_MAX)?)
        };
        let containerd = || {
            let read = |dir| {
                self.files
                    .read(&format!("{dir}/{id}/config.json"), FILE_BYTES_MAX)
            };
            let config = self.containerd.iter().find_map(read)?;
            names_of_oci_config(Runtime::Containerd, &config)
        };
        let stored = || {
            let name = self.stored.get(id)?;
            let path = format!("{STORAGE}/{id}/userdata/config.json");
            let spec =
                || names_of_oci_config(Runtime::CriO, &self.files.read(&path, FILE_BYTES_MAX)?);
            match name.starts_with("k8s_") || runtime == Some(Runtime::CriO) {
                true => spec().or_else(|| Some(Names::of_name(Some(Runtime::CriO), name))),
                false => Some(Names::of_name(Some(Runtime::Podman), name)),
            }
        };
        let docker = is_possible(Runtime::Docker).then(docker).flatten();
        let is_stored = is_possible(Runtime::Podman) || is_possible(Runtime::CriO);
        docker
            .or_else(|| is_stored.then(stored).flatten())
            .or_else(|| is_possible(Runtime::Containerd).then(containerd).flatten())
    }

    /// Returns the names of a container of an unprivileged user with the home directory `home`.
    fn names_at_home(&self, home: &str, id: &str) -> Option<Names> {
        let docker = || {
            let path = format!(".local/share/docker/containers/{id}/config.v2.json");
            names_of_docker_config(&self.files.read_at_home(home, &path, FILE_BYTES_MAX)?)
        };
        let podman = |name: &String| Names::of_name(Some(Runtime::Podman), name);
        self.stored.get(id).map(podman).or_else(docker)
    }
}

/// Returns the home directory of a user, from the text of `/etc/passwd`.
fn home(passwd: &[u8], user: u32) -> Option<String> {
    let passwd = String::from_utf8_lossy(passwd);
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_user = fields.get(2)?.parse() == Ok(user);
        let home = fields.get(5).filter(|home| home.starts_with('/'))?;
        is_user.then(|| (*home).to_owned())
    })
}

fn json<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// Parses the names in a `config.v2.json` of Docker.
fn names_of_docker_config(config: &[u8]) -> Option<Names> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Container {
        name: String,
        #[serde(default)]
        config: Config,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        #[serde(default)]
        labels: Option<BTreeMap<String, String>>,
    }
    let container: Container = json(config)?;
    let labels = container.config.labels.unwrap_or_default();
    let labelled = Names::of_labels(Some(Runtime::Docker), &labels);
    // Under Kubernetes the labels contain the names of which the kubelet made Docker's name.
    match labelled.pod {
        Some(_) => Some(labelled),
        None => Some(Names::of_name(Some(Runtime::Docker), &container.name)),
    }
}

/// Parses the names in an OCI runtime's `config.json`.
fn names_of_oci_config(runtime: Runtime, config: &[u8]) -> Option<Names> {
    #[derive(Deserialize)]
    struct Spec {
        annotations: BTreeMap<String, String>,
    }
    let spec: Spec = json(config)?;
    Some(Names::of_labels(Some(runtime), &spec.annotations))
}

/// Returns the first name of each container in the lists, by the container's id.
fn names_by_id(lists: impl Iterator<Item = Vec<u8>>) -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Container {
        id: String,
        #[serde(default)]
        names: Option<Vec<String>>,
    }
    let containers = lists
        .filter_map(|list| json::<Vec<Container>>(&list))
        .flatten();
    let named = containers.filter_map(|container| {
        let name = container.names?.into_iter().next()?;
        Some((container.id, name))
    });
    named.collect()
}

/// Names found in the file names of the kubelet's logs.
struct Logs {
    /// Names by container id, from files `POD_NAMESPACE_CONTAINER-ID.log`.
    containers: BTreeMap<String, Names>,
    /// Namespace, then pod name, by the pod's uid, from directories `NAMESPACE_POD_UID`.
    pods: BTreeMap<String, (String, String)>,
}

impl Logs {
    /// Reads the names of the kubelet's log files and directories.
    fn read(files: &Files) -> Logs {
        let containers = files.list("var/log/containers").into_iter();
        let pods = files.list("var/log/pods").into_iter();
        Logs {
            containers: containers.filter_map(|name| container_log(&name)).collect(),
            pods: pods.filter_map(|name| pod_log(&name)).collect(),
        }
    }

    /// Adds the names of a workload's container and pod, if there are logs of them.
    fn add_to(&self, workload: &mut Workload) {
        let log = workload
            .container_id
            .as_ref()
            .and_then(|id| self.containers.get(id));
        workload.add(log.map(|log| Names {
            container: log.container.clone(),
            pod: log.pod.clone(),
            namespace: log.namespace.clone(),
            ..Names::default()
        }));
        let pod = workload.pod_uid.as_ref().and_then(|uid| self.pods.get(uid));
        if let (Some((namespace, pod)), Kind::Pod | Kind::Container) = (pod, workload.kind) {
            workload.add(Some(Names {
                pod: printable_name(pod),
                namespace: printable_name(namespace),
                ..Names::default()
            }));
        }
    }
}

/// Parses `POD_NAMESPACE_CONTAINER-ID.log`. Returns the container's id, then its names.
fn container_log(name: &str) -> Option<(String, Names)> {
    let mut parts = name.strip_suffix(".log")?.split('_');
    let (pod, namespace, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (container, id) = rest.rsplit_once('-')?;
    let names = Names {
        container: printable_name(container),
        pod: printable_name(pod),
        namespace: printable_name(namespace),
        ..Names::default()
    };
    parts.next().is_none().then(|| (id.to_owned(), names))
}

/// Parses `NAMESPACE_POD_UID`. Returns the pod's uid, then its namespace and name.
fn pod_log(name: &str) -> Option<(String, (String, String))> {
    let mut parts = name.split('_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let names = (namespace.to_owned(), pod.to_owned());
    parts.next().is_none().then(|| (uid.to_owned(), names))
}
