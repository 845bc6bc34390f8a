//! Tests with files and groups that another user has made, and with less common layouts of the
//! container runtimes.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::super::*;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";
const STORAGE: &str = "var/lib/containers/storage/overlay-containers";
const NOBODY: u32 = 65534;

struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Root {
        let name = format!("pagetide-workload-hostile-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Root(path)
    }

    fn file(&self, path: &str, text: &str) -> PathBuf {
        let file = self.0.join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("directories");
        std::fs::write(&file, text).expect("a file");
        file
    }

    fn docker(&self) -> PathBuf {
        let path = format!("var/lib/docker/containers/{ID}/config.v2.json");
        self.file(&path, r#"{"Name":"/web","Config":{"Labels":null}}"#)
    }

    fn key(&self, path: &str) -> String {
        let mut all = [Workload::of(Path::new(path))];
        name(&mut all, &self.0);
        all[0].key(By::Container)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn docker_path() -> String {
    format!("/docker/{ID}")
}

const UNNAMED: &str = "docker:0123456789ab";

#[test]
fn a_file_of_another_user_gives_no_name() {
    let root = Root::new("owner");
    let file = root.docker();
    assert_eq!(root.key(&docker_path()), "docker:web");
    chown(&file, Some(NOBODY), None).expect("we are root");
    assert_eq!(root.key(&docker_path()), UNNAMED);
}

#[test]
fn a_file_that_others_may_write_gives_no_name() {
    let root = Root::new("mode");
    let file = root.docker();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o664)).expect("ours");
    assert_eq!(root.key(&docker_path()), UNNAMED);
}

#[test]
fn a_directory_on_the_way_of_another_user_gives_no_name() {
    let root = Root::new("way");
    root.docker();
    chown(root.0.join("var/lib/docker"), Some(NOBODY), None).expect("we are root");
    assert_eq!(root.key(&docker_path()), UNNAMED);
}

#[test]
fn the_last_directory_may_be_written_by_no_other() {
    let root = Root::new("last");
    let file = root.docker();
    let dir = file.parent().expect("a directory");
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).expect("ours");
    assert_eq!(root.key(&docker_path()), UNNAMED);
}

#[test]
fn links_of_root_are_followed_within_the_root_and_others_are_not() {
    let root = Root::new("links");
    let file = root.docker();
    let (docker, moved) = (root.0.join("var/lib/docker"), root.0.join("data"));
    std::fs::rename(&docker, &moved).expect("ours");
    symlink("/data", &docker).expect("a link");
    assert_eq!(root.key(&docker_path()), "docker:web");
    std::fs::remove_file(&docker).expect("ours");
    symlink("../../data", &docker).expect("a link");
    assert_eq!(root.key(&docker_path()), "docker:web");
    std::os::unix::fs::lchown(&docker, Some(NOBODY), None).expect("we are root");
    assert_eq!(root.key(&docker_path()), UNNAMED);
    std::fs::remove_file(&docker).expect("ours");
    symlink("docker", &docker).expect("a loop");
    assert_eq!(root.key(&docker_path()), UNNAMED);
    drop(file);
}

#[test]
fn pipes_links_and_large_files_are_not_read() {
    let root = Root::new("kinds");
    let file = root.docker();
    std::fs::remove_file(&file).expect("ours");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    assert_eq!(root.key(&docker_path()), UNNAMED);
    std::fs::remove_file(&file).expect("ours");
    symlink("/etc/hostname", &file).expect("a link");
    assert_eq!(root.key(&docker_path()), UNNAMED);
    std::fs::remove_file(&file).expect("ours");
    std::fs::write(
        &file,
        format!(r#"{{"Name":"/web"}}{}"#, " ".repeat(1 << 20)),
    )
    .expect("ours");
    assert_eq!(root.key(&docker_path()), UNNAMED);
    std::fs::write(&file, "[".repeat(100_000)).expect("ours");
    assert_eq!(root.key(&docker_path()), UNNAMED);
}

/// A user's group with the name of root's container gets none of root's names.
#[test]
fn a_user_gets_only_names_of_its_own() {
    let root = Root::new("user");
    root.docker();
    root.file("etc/passwd", "a:x:1000:1000::/home/a:/bin/sh\n");
    let home = root.0.join("home/a");
    std::fs::create_dir_all(&home).expect("a directory");
    chown(&home, Some(1000), None).expect("we are root");
    let slice = "/user.slice/user-1000.slice/user@1000.service/user.slice";
    let docker = format!("{slice}/docker-{ID}.scope");
    assert_eq!(root.key(&docker), "user:1000/docker:0123456789ab");
    let podman = format!("{slice}/libpod-{ID}.scope/container");
    let list = "home/a/.local/share/containers/storage/overlay-containers/volatile-containers.json";
    let list = root.file(list, &format!(r#"[{{"id":"{ID}","names":["mine"]}}]"#));
    chown(&list, Some(1000), None).expect("we are root");
    assert_eq!(root.key(&podman), "user:1000/podman:mine");
    // A link in a home directory is not followed, no matter which user owns its target.
    let moved = root.0.join("elsewhere.json");
    std::fs::rename(&list, &moved).expect("ours");
    symlink(&moved, &list).expect("a link");
    assert_eq!(root.key(&podman), "user:1000/podman:0123456789ab");
}

/// Regression: a service that may make groups below its own was reported under the name of another
/// unit, or as another user's.
#[test]
fn groups_below_a_unit_are_that_unit() {
    let of = |path: &str| Workload::of(Path::new(path));
    let below = of("/system.slice/evil.service/redis.service");
    assert_eq!(below.key(By::Unit), "evil.service");
    assert_eq!(below.group, "/system.slice/evil.service");
    let user = of("/system.slice/evil.service/user-1000.slice/x.scope");
    assert_eq!(
        (user.user, user.key(By::Unit)),
        (None, "evil.service".to_owned())
    );
    let manager = of("/user.slice/user-1000.slice/user@1000.service/app.slice/a.service/b.service");
    assert_eq!(manager.key(By::Unit), "user:1000/a.service");
    let init = of("/user.slice/user-1000.slice/user@1000.service/init.scope");
    assert_eq!(init.key(By::Unit), "user:1000/init.scope");
}

#[test]
fn less_common_layouts() {
    let uid = UID.replace('-', "_");
    let of = |path: String| {
        let one = Workload::of(Path::new(&path));
        let (runtime, id) = (one.runtime, one.container_id.is_some());
        (runtime, id, one.pod_uid.is_some(), one.kind)
    };
    let container = |runtime, pod| (runtime, true, pod, Kind::Container);
    let containerd = Some(Runtime::Containerd);
    assert_eq!(
        of(format!("/system.slice/nerdctl-{ID}.scope")),
        container(containerd, false)
    );
    assert_eq!(of(format!("/default/{ID}")), container(containerd, false));
    let colon =
        format!("/system.slice/containerd.service/kubepods-pod{uid}.slice:cri-containerd:{ID}");
    assert_eq!(of(colon), container(containerd, true));
    assert_eq!(of(format!("/../../pod{UID}/{ID}")), container(None, true));
    let kind = format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{uid}.slice");
    assert_eq!(of(kind), (None, false, true, Kind::Pod));
    let quadlet = format!("/system.slice/web.service/libpod-payload-{ID}");
    assert_eq!(of(quadlet), container(Some(Runtime::Podman), false));
    let conmon = format!("/machine.slice/libpod-conmon-{ID}.scope");
    assert_eq!(of(conmon), (None, false, false, Kind::Unit));
    let machine = r"/machine.slice/machine-qemu\x2d1\x2dvm.scope".to_owned();
    assert_eq!(of(machine), (None, false, false, Kind::Unit));
    assert_eq!(of("/lxc.monitor.web".to_owned()).3, Kind::Group);
}

#[test]
fn names_of_kubernetes_come_from_each_runtime() {
    let root = Root::new("kubernetes");
    let labels = r#""io.kubernetes.container.name":"app","io.kubernetes.pod.name":"web-0","io.kubernetes.pod.namespace":"prod""#;
    let path = |runtime: &str| {
        format!(
            "/kubepods.slice/kubepods-pod{}.slice/{runtime}-{ID}.scope",
            UID.replace('-', "_")
        )
    };
    root.file(
        &format!("var/lib/docker/containers/{ID}/config.v2.json"),
        &format!(r#"{{"Name":"/k8s_x","Config":{{"Labels":{{{labels}}}}}}}"#),
    );
    assert_eq!(root.key(&path("docker")), "prod/web-0/app");
    let stored = format!("k8s_app_web-0_prod_{UID}_0");
    root.file(
        &format!("{STORAGE}/containers.json"),
        &format!(r#"[{{"id":"{ID}","names":["{stored}"]}}]"#),
    );
    assert_eq!(root.key(&path("crio")), "prod/web-0/app");
    root.file(
        &format!("{STORAGE}/{ID}/userdata/config.json"),
        &format!(r#"{{"annotations":{{{labels}}}}}"#).replace("app", "spec"),
    );
    assert_eq!(root.key(&path("crio")), "prod/web-0/spec");
    let logs = root.0.join(format!("var/log/pods/prod_web-9_{UID}"));
    std::fs::create_dir_all(logs).expect("a directory");
    let pod = "/kubepods/pod".to_owned() + UID;
    let mut all = [Workload::of(Path::new(&pod))];
    name(&mut all, &root.0);
    assert_eq!(all[0].key(By::Pod), "prod/web-9");
}

#[test]
fn every_candidate_has_fewer_meanings() {
    let mut all = gather([
        (101, PathBuf::from("/system.slice/a.service")),
        (2, PathBuf::from("/lxc/101")),
        (3, PathBuf::from("/lxc/web")),
        (4, PathBuf::from("/system.slice/web.service")),
    ]);
    all.sort_by(|a, b| a.path.cmp(&b.path));
    for name in ["101", "web"] {
        let Resolved::Ambiguous(candidates) = resolve(name, &all) else {
            panic!("{name}: {:?}", resolve(name, &all));
        };
        assert_eq!(candidates.len(), 2, "{candidates:?}");
        for candidate in candidates {
            let found = resolve(&candidate, &all);
            assert!(
                matches!(&found, Resolved::Found(one) if one.len() == 1),
                "{candidate}: {found:?}"
            );
        }
    }
    let long = "x".repeat(5000);
    assert_eq!(resolve(&long, &all), Resolved::NotFound(Vec::new()));
    let wide = Workload::of(Path::new(&format!("/{long}.service")));
    assert!(
        wide.unit
            .is_some_and(|unit| unit.chars().count() <= TEXT_MAX)
    );
}

/// Regression: a group below a service counted as root's container if it had the container's id.
#[test]
fn two_groups_with_one_id_are_distinguished() {
    let all = gather([
        (1, PathBuf::from(format!("/system.slice/docker-{ID}.scope"))),
        (
            2,
            PathBuf::from(format!("/system.slice/evil.service/docker-{ID}.scope")),
        ),
    ]);
    assert!(matches!(
        resolve("0123456789ab", &all),
        Resolved::Ambiguous(_)
    ));
}
