//! Tests with cgroup paths and files as container runtimes make them.

mod hostile;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

/// Id of a container.
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// Uid of a pod.
const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";

fn of(path: &str) -> Workload {
    Workload::of(Path::new(path))
}

/// A cgroup path, then its keys: by container, by pod, by unit.
type Row = (
    String,
    Option<&'static str>,
    Option<&'static str>,
    &'static str,
);

/// Paths of systemd services, with their names.
fn units() -> Vec<Row> {
    [
        ("/system.slice/redis.service", "redis.service"),
        (
            "/system.slice/system-getty.slice/getty@tty1.service",
            "getty@tty1.service",
        ),
        (
            r"/system.slice/dev\x2dhugepages.service/sub",
            "dev-hugepages.service",
        ),
    ]
    .map(|(path, unit)| (path.to_owned(), None, None, unit))
    .into()
}

/// Paths of containers and pods as different runtimes make them, with their keys.
fn containers() -> Vec<Row> {
    let uid = UID.replace('-', "_");
    let burstable = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable";
    let rootless = "/user.slice/user-1000.slice/user@1000.service/user.slice";
    let pod = Some("pod:UID");
    let in_pod = Some("pod:UID/0123456789ab");
    vec![
        (
            format!("/docker/{ID}"),
            Some("docker:0123456789ab"),
            None,
            "/docker/ID",
        ),
        (
            format!("/system.slice/docker-{ID}.scope"),
            Some("docker:0123456789ab"),
            None,
            "docker-ID.scope",
        ),
        (
            format!("/machine.slice/libpod-{ID}.scope/container"),
            Some("podman:0123456789ab"),
            None,
            "libpod-ID.scope",
        ),
        (
            format!("{rootless}/libpod-{ID}.scope/container"),
            Some("user:1000/podman:0123456789ab"),
            None,
            "user:1000/libpod-ID.scope",
        ),
        (
            format!("{burstable}-pod{uid}.slice/cri-containerd-{ID}.scope"),
            in_pod,
            pod,
            "cri-containerd-ID.scope",
        ),
        (
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            in_pod,
            pod,
            "",
        ),
        (
            format!("/kubepods.slice/kubepods-pod{uid}.slice/crio-{ID}.scope"),
            in_pod,
            pod,
            "crio-ID.scope",
        ),
        (
            "/lxc.payload.web/system.slice/x.service".to_owned(),
            Some("lxc:web"),
            None,
            "",
        ),
        ("/lxc/web/init".to_owned(), Some("lxc:web"), None, ""),
        (
            "/machine.slice/machine-deb.scope".to_owned(),
            Some("nspawn:deb"),
            None,
            "machine-deb.scope",
        ),
    ]
}

#[test]
fn a_path_shows_what_runs_there() {
    for (path, container, pod, unit) in units().into_iter().chain(containers()) {
        let workload = of(&path);
        let short = |key: String| key.replace(ID, "ID").replace(UID, "UID");
        if let Some(container) = container {
            assert_eq!(short(workload.key(By::Container)), container, "{path}");
            assert_eq!(workload.kind, Kind::Container, "{path}");
        }
        if let Some(pod) = pod {
            assert_eq!(short(workload.key(By::Pod)), pod, "{path}");
        }
        if !unit.is_empty() {
            assert_eq!(short(workload.key(By::Unit)), unit, "{path}");
        }
    }
    assert_eq!(of("/a/b").key(By::Pod), "/a/b", "nothing else is known");
    assert_eq!(of("/user.slice/user-7.slice/x.scope").user, Some(7));
}

/// A root directory with the files of one test.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Root {
        let path =
            std::env::temp_dir().join(format!("pagetide-workload-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Root(path)
    }

    /// Writes a file, and makes its directories.
    fn file(&self, path: &str, text: &str) {
        let file = self.0.join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("directories");
        std::fs::write(file, text).expect("a file");
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_of_the_runtimes_give_names() {
    let root = Root::new("names");
    let other = ID.replace('0', "9");
    root.file("var/lib/docker/containers/ID/config.v2.json", "{}");
    root.file(
        &format!("var/lib/docker/containers/{ID}/config.v2.json"),
        r#"{"Name":"/web"}"#,
    );
    root.file(
        "var/lib/containers/storage/overlay-containers/containers.json",
        &format!(r#"[{{"id":"{other}","names":["db"]}}]"#),
    );
    let third = ID.replace('1', "8");
    root.file(
        &format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{third}/config.json"),
        r#"{"annotations":{"io.kubernetes.cri.container-name":"nginx","io.kubernetes.cri.sandbox-name":"shop-1","io.kubernetes.cri.sandbox-namespace":"prod"}}"#,
    );
    let fourth = ID.replace('2', "7");
    let logs = root.0.join("var/log/containers");
    std::fs::create_dir_all(&logs).expect("a directory");
    symlink(
        "/nowhere",
        logs.join(format!("api-0_prod_api-{fourth}.log")),
    )
    .expect("a link");
    let mut all = gather([
        (1, PathBuf::from(format!("/docker/{ID}"))),
        (
            2,
            PathBuf::from(format!("/machine.slice/libpod-{other}.scope")),
        ),
        (
            3,
            PathBuf::from(format!("/kubepods/besteffort/pod{UID}/{third}")),
        ),
        (
            4,
            PathBuf::from(format!("/kubepods/besteffort/pod{UID}/{fourth}")),
        ),
        (5, PathBuf::from("/system.slice/redis.service")),
    ]);
    name(&mut all, &root.0);
    let mut keys: Vec<String> = all.iter().map(|one| one.key(By::Container)).collect();
    keys.sort();
    assert_eq!(
        keys,
        [
            "docker:web",
            "podman:db",
            "prod/api-0/api",
            "prod/shop-1/nginx",
            "redis.service"
        ]
    );
}

#[test]
fn a_name_means_one_workload_or_lists_candidates() {
    let mut all = gather([
        (10, PathBuf::from("/system.slice/redis.service")),
        (
            11,
            PathBuf::from("/user.slice/user-1000.slice/user@1000.service/app.slice/redis.service"),
        ),
        (12, PathBuf::from("/system.slice/nginx.service/worker")),
        (13, PathBuf::from(format!("/docker/{ID}"))),
        (14, PathBuf::from("/other")),
    ]);
    all.iter_mut()
        .filter(|one| one.container_id.is_some())
        .for_each(|one| one.container = Some("web".to_owned()));
    let found = |name: &str| match resolve(name, &all) {
        Resolved::Found(found) => found
            .iter()
            .map(|one| one.pids.clone())
            .collect::<Vec<_>>()
            .concat(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(found("nginx"), [12]);
    assert_eq!(found("12"), [12]);
    assert_eq!(found("web"), [13]);
    assert_eq!(found("docker:web"), [13]);
    assert_eq!(found("0123"), [13]);
    assert_eq!(found("/other"), [14]);
    assert_eq!(found("user:1000"), [11]);
    assert_eq!(
        found("redis.service"),
        [10],
        "the system's by its whole name"
    );
    let Resolved::Ambiguous(candidates) = resolve("redis", &all) else {
        panic!("two have it");
    };
    assert_eq!(candidates, ["redis.service", "user:1000/redis.service"]);
    let Resolved::NotFound(nearest) = resolve("ngin", &all) else {
        panic!("none has it");
    };
    assert_eq!(nearest, ["nginx.service"]);
}

proptest! {
    #[test]
    fn any_path_is_text(parts in proptest::collection::vec("(docker|libpod|lxc|kubepods|pod|user-|machine-|\\\\x|[a-f0-9]{64}|.{0,12}|\\PC{0,4})(\\.scope|\\.service|\\.slice)?", 0..6)) {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let mut bytes = parts.join("/").into_bytes();
        for byte in bytes.iter_mut().filter(|byte| **byte == b'.') {
            if parts.len() == 5 { *byte = 0xff; }
        }
        let workload = Workload::of(Path::new(OsStr::from_bytes(&bytes)));
        for by in [By::Unit, By::Container, By::Pod] {
            let key = workload.key(by);
            prop_assert!(!key.chars().any(char::is_control), "{:?}", key);
            let all = [workload.clone()];
            let _ = resolve(&key, &all);
        }
    }
}
