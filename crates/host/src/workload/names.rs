//! Names that the runtimes keep on disk: of containers, their pods and namespaces.
//!
//! Invariant: a name is added to a workload only from files of the user in whose slice it is, else from root's: a
//! user can name a group of its own after root's container, and gets none of root's names for it. What a file does
//! not say stays `None`; a file that is none, too long or not believed says nothing. The formats are those of Docker's
//! `config.v2.json`, containers/storage's `containers.json`, the OCI runtime's `config.json` with the annotations of
//! containerd, CRI-O and nerdctl, and the kubelet's directories of logs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::files::Files;
use super::{Kind, Runtime, Workload, text};

/// Most bytes of one container's file, and of a list of all.
const ONE_MAX: u64 = 1 << 20;
const LIST_MAX: u64 = 8 << 20;
/// Most directories of containerd's namespaces.
const NAMESPACES_MAX: usize = 64;
/// Where containerd keeps the containers that run: its own, that of k3s and RKE2, that of MicroK8s.
const CONTAINERD: [&str; 3] = [
    "run/containerd",
    "run/k3s/containerd",
    "var/snap/microk8s/common/run/containerd",
];
/// Where containers/storage (Podman, CRI-O) keeps its containers, from the root and from a home.
const STORAGE: &str = "var/lib/containers/storage/overlay-containers";
const STORAGE_AT_HOME: &str = ".local/share/containers/storage/overlay-containers";
/// Its lists: the second one has containers that are removed when they end.
const STORAGE_LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];

/// Adds the names of containers, pods and namespaces that the runtimes' files below `root` (`/`) say. Also adds a
/// runtime that the path did not say. What cannot be read, is too long, or can have been written by another user is
/// left out; nothing is reported, since a host has few of these runtimes.
pub fn name(workloads: &mut [Workload], root: &Path) {
    let by_root = Source::new(Files::at(root));
    let logs = Logs::read(&by_root.files);
    let mut by_user: BTreeMap<u32, Option<(String, Source)>> = BTreeMap::new();
    for workload in workloads {
        let Some(user) = workload.user.filter(|&user| user != 0) else {
            if let Some(id) = workload.container_id.clone() {
                workload.add(by_root.named(&id, workload.runtime));
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
            workload.add(source.named_at(home, &id));
        }
    }
}

/// What a file says of a container.
#[derive(Default)]
struct Names {
    runtime: Option<Runtime>,
    container: Option<String>,
    pod: Option<String>,
    namespace: Option<String>,
    pod_uid: Option<String>,
}

impl Names {
    /// Of a name as kubelet gives it to Docker and CRI-O: `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`. No part of it has
    /// an underscore.
    fn of_kubelet(name: &str) -> Option<Names> {
        let parts: Vec<&str> = name.strip_prefix("k8s_")?.split('_').collect();
        let [container, pod, namespace, uid, _attempt] = parts.as_slice() else {
            return None;
        };
        Some(Names {
            container: known(container),
            pod: known(pod),
            namespace: known(namespace),
            pod_uid: known(uid),
            ..Names::default()
        })
    }

    fn of_name(runtime: Option<Runtime>, name: &str) -> Names {
        let name = name.trim_start_matches('/');
        let names = Self::of_kubelet(name).unwrap_or_else(|| Names {
            container: known(name),
            ..Names::default()
        });
        Names { runtime, ..names }
    }

    /// Of annotations or labels: those of Kubernetes, else of nerdctl.
    fn of_labels(runtime: Option<Runtime>, labels: &BTreeMap<String, String>) -> Names {
        let first = |keys: &[&str]| keys.iter().find_map(|key| known(labels.get(*key)?));
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
    /// Takes what is not known yet.
    fn add(&mut self, names: Option<Names>) {
        let Some(names) = names else {
            return;
        };
        let fill = |field: &mut Option<String>, name| *field = field.take().or(name);
        self.runtime = self.runtime.or(names.runtime);
        fill(&mut self.container, names.container);
        // A container of another pod than its path says is not this one.
        if self.pod_uid.is_none() || names.pod_uid.is_none() || self.pod_uid == names.pod_uid {
            fill(&mut self.pod, names.pod);
            fill(&mut self.namespace, names.namespace);
            fill(&mut self.pod_uid, names.pod_uid);
        }
    }
}

/// Text of a name, unless it is empty.
fn known(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| text(name.as_bytes()))
}

/// The files of one user, with those lists that have all containers.
struct Source {
    files: Files,
    /// Names by id in containers/storage.
    stored: BTreeMap<String, String>,
    /// Directories with a directory for each container of containerd.
    containerd: Vec<String>,
}

impl Source {
    fn new(files: Files) -> Source {
        let lists = STORAGE_LISTS.map(|list| files.read(&format!("{STORAGE}/{list}"), LIST_MAX));
        let containerd = CONTAINERD.iter().flat_map(|state| {
            let tasks = format!("{state}/io.containerd.runtime.v2.task");
            let namespaces = files.list(&tasks).into_iter().take(NAMESPACES_MAX);
            namespaces.map(move |namespace| format!("{tasks}/{namespace}"))
        });
        Source {
            containerd: containerd.collect(),
            stored: stored(lists.into_iter().flatten()),
            files,
        }
    }

    /// A user's home and files; `None` if `/etc/passwd` has no such user.
    fn of_user(root: &Path, user: u32) -> Option<(String, Source)> {
        let passwd = Files::at(root).read("etc/passwd", ONE_MAX)?;
        let home = home(&passwd, user)?;
        let files = Files::of_user(root, user);
        let lists = STORAGE_LISTS
            .map(|list| files.read_at_home(&home, &format!("{STORAGE_AT_HOME}/{list}"), LIST_MAX));
        let source = Source {
            containerd: Vec::new(),
            stored: stored(lists.into_iter().flatten()),
            files,
        };
        Some((home, source))
    }

    /// Names of a container of root. All runtimes are tried where the path does not say which one made it.
    fn named(&self, id: &str, runtime: Option<Runtime>) -> Option<Names> {
        let may_be = |other| runtime.is_none_or(|runtime| runtime == other);
        let docker = || {
            let path = format!("var/lib/docker/containers/{id}/config.v2.json");
            of_docker(&self.files.read(&path, ONE_MAX)?)
        };
        let containerd = || {
            let read = |dir| self.files.read(&format!("{dir}/{id}/config.json"), ONE_MAX);
            let config = self.containerd.iter().find_map(read)?;
            of_spec(Runtime::Containerd, &config)
        };
        let stored = || {
            let name = self.stored.get(id)?;
            let path = format!("{STORAGE}/{id}/userdata/config.json");
            let spec = || of_spec(Runtime::CriO, &self.files.read(&path, ONE_MAX)?);
            match name.starts_with("k8s_") || runtime == Some(Runtime::CriO) {
                true => spec().or_else(|| Some(Names::of_name(Some(Runtime::CriO), name))),
                false => Some(Names::of_name(Some(Runtime::Podman), name)),
            }
        };
        let docker = may_be(Runtime::Docker).then(docker).flatten();
        let is_stored = may_be(Runtime::Podman) || may_be(Runtime::CriO);
        docker
            .or_else(|| is_stored.then(stored).flatten())
            .or_else(|| may_be(Runtime::Containerd).then(containerd).flatten())
    }

    /// Names of a container of a user without root's rights.
    fn named_at(&self, home: &str, id: &str) -> Option<Names> {
        let docker = || {
            let path = format!(".local/share/docker/containers/{id}/config.v2.json");
            of_docker(&self.files.read_at_home(home, &path, ONE_MAX)?)
        };
        let podman = |name: &String| Names::of_name(Some(Runtime::Podman), name);
        self.stored.get(id).map(podman).or_else(docker)
    }
}

/// The home directory of a user in `/etc/passwd`.
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

fn of_docker(config: &[u8]) -> Option<Names> {
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
    // Under Kubernetes Docker's own name is made of the labels.
    match labelled.pod {
        Some(_) => Some(labelled),
        None => Some(Names::of_name(Some(Runtime::Docker), &container.name)),
    }
}

fn of_spec(runtime: Runtime, config: &[u8]) -> Option<Names> {
    #[derive(Deserialize)]
    struct Spec {
        annotations: BTreeMap<String, String>,
    }
    let spec: Spec = json(config)?;
    Some(Names::of_labels(Some(runtime), &spec.annotations))
}

/// The first name of each container of the lists, by id.
fn stored(lists: impl Iterator<Item = Vec<u8>>) -> BTreeMap<String, String> {
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

/// The names of the kubelet's logs.
struct Logs {
    /// By the container's id: `POD_NAMESPACE_CONTAINER-ID.log`.
    containers: BTreeMap<String, Names>,
    /// By the pod's uid, `NAMESPACE_POD_UID`: namespace and pod.
    pods: BTreeMap<String, (String, String)>,
}

impl Logs {
    fn read(files: &Files) -> Logs {
        let containers = files.list("var/log/containers").into_iter();
        let pods = files.list("var/log/pods").into_iter();
        Logs {
            containers: containers.filter_map(|name| container_log(&name)).collect(),
            pods: pods.filter_map(|name| pod_log(&name)).collect(),
        }
    }

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
                pod: known(pod),
                namespace: known(namespace),
                ..Names::default()
            }));
        }
    }
}

fn container_log(name: &str) -> Option<(String, Names)> {
    let mut parts = name.strip_suffix(".log")?.split('_');
    let (pod, namespace, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (container, id) = rest.rsplit_once('-')?;
    let names = Names {
        container: known(container),
        pod: known(pod),
        namespace: known(namespace),
        ..Names::default()
    };
    parts.next().is_none().then(|| (id.to_owned(), names))
}

fn pod_log(name: &str) -> Option<(String, (String, String))> {
    let mut parts = name.split('_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let names = (namespace.to_owned(), pod.to_owned());
    parts.next().is_none().then(|| (uid.to_owned(), names))
}
