//! Tests with a real group in the real mount, and with directory trees that imitate other hosts.

use std::path::Path;
use std::process::{Child, Command};

use proptest::prelude::*;

use super::hierarchy::parse_membership;
use super::members::parse_procs;
use super::usage::parse_kernel;
use super::*;
use crate::system::error::Error;
use crate::system::proc::Proc;
use crate::system::testing::{Directory, OwnGroup};

/// A child process; `Drop` kills and reaps it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lowest limit of the group and of the groups above applies; if none of them has a limit, the
/// result is `None`.
#[test]
fn limits_of_groups_above_count() {
    let groups = Groups::find(&Proc::system().unwrap()).unwrap();
    assert_eq!(groups.version, Version::V1, "the tests need version 1");
    let own = OwnGroup::new("limits");
    let below = own.dir.join("below");
    std::fs::create_dir(&below).unwrap();
    let group = groups.resolve(below.to_str().unwrap()).unwrap();
    let limit = |dir: &Path, mib: u64| {
        let file = dir.join("memory.limit_in_bytes");
        std::fs::write(file, (mib << 20).to_string()).unwrap();
    };
    // Not `None`: the tests themselves may run in a group with a limit, but that is higher.
    assert!(
        groups
            .memory_limit(&group)
            .is_none_or(|limit| limit > 64 << 20)
    );
    limit(&own.dir, 64);
    assert_eq!(groups.memory_limit(&group), Some(64 << 20));
    limit(&below, 16);
    assert_eq!(groups.memory_limit(&group), Some(16 << 20));
    limit(&below, 96);
    assert_eq!(groups.memory_limit(&group), Some(64 << 20));
    std::fs::remove_dir(&below).unwrap();

    let tree = Directory::new("limits-v2");
    let below = tree.0.join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let unified = Groups {
        version: Version::V2,
        mount: tree.0.clone(),
        root: "/".into(),
    };
    let group = Group {
        path: "/a/b".into(),
        dir: below.clone(),
    };
    let write = |name: &str, text: &str| std::fs::write(tree.0.join(name), text).unwrap();
    write("a/memory.max", "max\n");
    write("a/b/memory.max", "2097152\n");
    assert_eq!(unified.memory_limit(&group), Some(2 << 20));
    write("a/memory.high", "1048576\n");
    assert_eq!(unified.memory_limit(&group), Some(1 << 20));
}

#[test]
fn a_real_group_is_found_by_any_of_its_names() {
    let proc = Proc::system().unwrap();
    let groups = Groups::find(&proc).unwrap();
    let own = OwnGroup::new("cgroup");
    let child = Started(Command::new("sleep").arg("100").spawn().unwrap());
    std::fs::create_dir(own.dir.join("below")).unwrap();
    std::fs::write(own.dir.join("below/cgroup.procs"), child.0.id().to_string()).unwrap();

    let name = own.dir.file_name().unwrap().to_str().unwrap();
    let absolute = own.dir.to_str().unwrap();
    let relative = absolute
        .strip_prefix(groups.mount.to_str().unwrap())
        .unwrap();
    let group = groups.resolve(absolute).unwrap();
    for typed in [
        relative,
        relative.trim_start_matches('/'),
        &format!("{absolute}/below/.."),
    ] {
        assert_eq!(groups.resolve(typed).unwrap(), group, "{typed}");
    }
    assert!(group.path.ends_with(name) && group.dir == own.dir);
    assert_eq!(groups.processes(&group).unwrap().unwrap(), [child.0.id()]);
    assert!(groups.own_processes(&group).unwrap().unwrap().is_empty());
    let below = groups.of_process(&proc, child.0.id()).unwrap().unwrap();
    assert_eq!(below.path, group.path.join("below"));

    let usage = groups.usage(&group).unwrap().unwrap();
    assert!(
        usage.current.is_some() && usage.peak >= usage.current,
        "{usage:?}"
    );
    assert!(usage.kernel.is_some() && usage.cache.is_some());
    drop(child);
    std::fs::remove_dir(own.dir.join("below")).unwrap();
    drop(own);
    assert_eq!(groups.processes(&group).unwrap(), None);
    assert_eq!(groups.usage(&group).unwrap(), None);
}

#[test]
fn cache_that_is_written_counts_as_unmapped() {
    let groups = Groups::find(&Proc::system().unwrap()).unwrap();
    let own = OwnGroup::new("cache");
    let directory = Directory::new("cache");
    let file = directory.0.join("file");
    // The shell moves itself to the group before it writes, so that its page cache is charged to
    // the group.
    let script = format!(
        "echo $$ > {}/cgroup.procs && head -c 16777216 /dev/zero > {}",
        own.dir.display(),
        file.display()
    );
    assert!(
        Command::new("sh")
            .args(["-c", &script])
            .status()
            .unwrap()
            .success()
    );
    let group = groups.resolve(own.dir.to_str().unwrap()).unwrap();
    let usage = groups.usage(&group).unwrap().unwrap();
    let cache = usage.cache.unwrap();
    assert!(cache.unmapped() >= 15 << 20, "{usage:?}");
    assert!(cache.unmapped_file_least() <= cache.unmapped_file_most());
    assert!(usage.current.unwrap() >= 15 << 20);
}

#[test]
fn invalid_group_names_are_refused() {
    let groups = Groups::find(&Proc::system().unwrap()).unwrap();
    for typed in [
        "",
        "/tmp",
        "no-such-group",
        "/etc/passwd",
        "../../..",
        "/proc",
    ] {
        let error = groups.resolve(typed).unwrap_err();
        assert!(matches!(error, Error::NoGroup { .. }), "{error}");
        assert!(!error.hint().is_empty());
    }
    let error = groups.resolve("memory.stat").unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
    if groups.version == Version::V1 {
        let other = groups.mount.parent().unwrap().join("cpu");
        let error = groups.resolve(other.to_str().unwrap()).unwrap_err();
        assert!(error.to_string().contains("another controller"), "{error}");
    }
    assert_eq!(groups.resolve("/").unwrap(), groups.root());
}

/// Makes a tree of version 2 with a group `a b` and a group below it. Returns the directory, and
/// its line of mountinfo with this `root`.
fn version_2(name: &str, controllers: &str, root: &str) -> (Directory, Vec<u8>) {
    let directory = Directory::new(name);
    let below = directory.0.join("a b/c");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::write(directory.0.join("cgroup.controllers"), controllers).unwrap();
    std::fs::write(directory.0.join("a b/cgroup.procs"), "12\n0\n7\n").unwrap();
    std::fs::write(below.join("cgroup.procs"), "12\n99\n").unwrap();
    std::fs::write(directory.0.join("a b/memory.current"), "500\n").unwrap();
    let stat = "anon 5\nfile 1000\nkernel 77\nshmem 300\nfile_mapped 400\nswapcached 100\n";
    std::fs::write(directory.0.join("a b/memory.stat"), stat).unwrap();
    let point = directory.0.display();
    let mounts = format!("1 2 0:30 {root} {point} rw - cgroup2 cgroup rw\n");
    (directory, mounts.into_bytes())
}

#[test]
fn dirty_and_writeback_pages_are_counted() {
    let first = b"dirty 1\ntotal_dirty 4096\ntotal_writeback 8192\n";
    assert_eq!(parse_dirty(first, Version::V1), 12_288);
    assert_eq!(parse_dirty(b"file_dirty 4096\n", Version::V2), 4096);
    assert_eq!(parse_dirty(first, Version::V2), 0, "it does not say");
}

#[test]
fn usage_is_read_on_version_2_without_a_peak() {
    let (_directory, mounts) = version_2("v2", "cpu memory pids\n", "/");
    let groups = Groups::at(&mounts).unwrap();
    assert_eq!(groups.version, Version::V2);
    let group = groups.resolve("a b").unwrap();
    assert_eq!(groups.processes(&group).unwrap().unwrap(), [7, 12, 99]);
    let usage = groups.usage(&group).unwrap().unwrap();
    assert_eq!(
        (usage.current, usage.peak, usage.kernel),
        (Some(500), None, Some(77))
    );
    let cache = usage.cache.unwrap();
    assert_eq!((cache.total, cache.unmapped()), (900, 500));
    assert_eq!(
        (cache.unmapped_file_least(), cache.unmapped_file_most()),
        (200, 500)
    );
    // The root group has no such files, but is a group.
    assert_eq!(
        groups.usage(&groups.root()).unwrap(),
        Some(Usage::default())
    );
}

#[test]
fn a_mount_of_a_part_of_the_hierarchy_is_resolved() {
    let (directory, mounts) = version_2("part", "memory\n", "/docker/x");
    let groups = Groups::at(&mounts).unwrap();
    let tree = Directory::new("part-proc");
    std::fs::create_dir_all(tree.0.join("5")).unwrap();
    let proc = Proc::at(&tree.0).unwrap();
    let of = |membership: &str| {
        std::fs::write(tree.0.join("5/cgroup"), membership).unwrap();
        groups.of_process(&proc, 5).unwrap()
    };
    let group = of("1:cpu:/other\n0::/docker/x/a b\n").unwrap();
    assert_eq!(
        (&*group.path, &*group.dir),
        (Path::new("/a b"), &*directory.0.join("a b"))
    );
    assert_eq!(of("0::/docker/xy\n"), None);
    assert_eq!(of("0::/../beside\n"), None);
    assert_eq!(of("0::/docker/x\n").unwrap(), groups.root());
    assert_eq!(
        of("0::/docker/x/gone (deleted)\n").unwrap().path,
        Path::new("/gone")
    );
    assert_eq!(groups.of_process(&proc, 6).unwrap(), None);
    assert_eq!(groups.resolve("/docker/x/a b").unwrap(), group);
}

#[test]
fn a_mount_from_outside_of_our_namespace_is_resolved() {
    let (_directory, mounts) = version_2("outside", "memory\n", "/..");
    let groups = Groups::at(&mounts).unwrap();
    assert_eq!(groups.below(Path::new("/../beside")), Some("beside".into()));
    assert_eq!(groups.below(Path::new("/../../beside")), None);
    // The name of our own group cannot be known from this mount.
    assert_eq!(groups.below(Path::new("/")), None);
}

#[test]
fn a_host_without_a_memory_controller_is_an_error() {
    let (_directory, mounts) = version_2("none", "cpu pids\n", "/");
    let error = Groups::at(&mounts).unwrap_err();
    assert!(error.to_string().contains("cgroup.controllers"), "{error}");
    assert!(Groups::at(b"").is_err());
    // On a hybrid host, the hierarchy of version 1 has the memory controller.
    let mut hybrid = mounts;
    hybrid.extend(b"1 2 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    assert_eq!(Groups::at(&hybrid).unwrap().version, Version::V1);
}

#[test]
fn kernel_memory_is_summed_on_older_kernels() {
    assert_eq!(
        parse_kernel(b"kernel_stack 1\nslab 2\npagetables 4\n"),
        Some(7)
    );
    assert_eq!(parse_kernel(b"anon 1\n"), None);
}

#[test]
fn page_cache_is_read_for_each_node() {
    let text =
        b"anon N0=9 N1=9\nfile N0=1000 N2=700\nshmem N0=300 N2=0\nfile_mapped N0=400 N2=500\n\
                 swapcached N0=100 N2=0\n";
    let of = |total, shmem, mapped| Cache {
        total,
        shmem,
        mapped,
    };
    let found = parse_node_caches(text, &[0, 1, 2]);
    assert_eq!(
        found,
        Some(vec![of(900, 300, 400), Cache::default(), of(700, 0, 500)])
    );
    // Version 1 has another format, without mapped pages.
    let text = b"total=9 N0=9\nfile=7 N0=7\nanon=2 N0=2\nunevictable=0 N0=0\n";
    assert_eq!(parse_node_caches(text, &[0]), None);
}

/// Unmapped page cache on the kernel's active list counts as in use: a web server sends files
/// without mapping them, and only that list shows it.
#[test]
fn unmapped_files_in_use_are_counted() {
    let v1 = |active, mapped, shmem| {
        let text = format!(
            "cache 1\ntotal_cache 1000\ntotal_shmem {shmem}\ntotal_mapped_file {mapped}\ntotal_active_file {active}\n"
        );
        parse_used_cache(text.as_bytes(), Version::V1)
    };
    assert_eq!(v1(300, 0, 0), Some(300));
    assert_eq!(v1(300, 100, 0), Some(200), "what is mapped has ages");
    assert_eq!(v1(300, 400, 0), Some(0));
    assert_eq!(v1(300, 400, 350), Some(250), "shared memory is no file");
    assert_eq!(v1(1200, 400, 400), Some(600), "no more than nobody maps");
    let v2 = b"file 1000\nshmem 0\nfile_mapped 100\nactive_file 300\n";
    assert_eq!(parse_used_cache(v2, Version::V2), Some(200));
    assert_eq!(parse_used_cache(b"total_cache 9\n", Version::V1), None);
}

/// The root group of version 2 has no memory.current, so its counters by kind of memory are summed.
#[test]
fn counters_by_kind_are_summed() {
    let text = b"anon 4096\nfile 8192\nkernel 1000\nkernel_stack 900\nshmem 4096\n";
    assert_eq!(parse_sum(text), Some(13_288));
    assert_eq!(parse_sum(b"file 8192\n"), None);
}

/// Pages scanned on request are not scanned for lack of memory, so they are not included.
#[test]
fn pages_scanned_for_lack_of_memory_are_summed() {
    let text = b"pgscan 99\npgscan_kswapd 1\npgscan_direct 20\npgscan_khugepaged 300\npgscan_proactive 7\n";
    assert_eq!(parse_scanned(text), Some(321));
    assert_eq!(parse_scanned(b"pgscan_direct 20\n"), Some(20));
    // Version 1 has no such lines.
    assert_eq!(parse_scanned(b"pgscan 99\ncache 4096\n"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_goes(bytes in any::<Vec<u8>>(), text in "([0-9]{0,2}:(memory|cpu,memory|)?:/?[a-z:. ()]{0,12}\n){0,4}") {
        for text in [&bytes[..], text.as_bytes()] {
            let _ = (parse_procs(text), parse_kernel(text), parse_node_caches(text, &[0, 1]));
            let _ = (parse_scanned(text), parse_limit_reclaims(text));
            for version in [Version::V1, Version::V2] {
                let _ = (parse_membership(text, version), parse_cache(text, version));
            }
        }
    }

    #[test]
    fn any_text_of_nodes_is_read(text in "((file|shmem|file_mapped|N) ?(N[0-9=]{0,22} ?){0,3}\n){0,5}") {
        let found = parse_node_caches(text.as_bytes(), &[0, 7]);
        prop_assert!(found.is_none_or(|caches| caches.len() == 2));
    }

    #[test]
    fn bounds_are_in_order(total in any::<u64>(), shmem in any::<u64>(), mapped in any::<u64>()) {
        let cache = Cache { total, shmem, mapped };
        prop_assert!(cache.unmapped_file_least() <= cache.unmapped_file_most());
        prop_assert!(cache.unmapped_file_most() <= cache.total);
    }

    #[test]
    fn a_membership_is_parsed_as_written(path in "/[a-z:]{0,20}", number in 1u8..20) {
        let text = format!("{number}:cpu,memory:{path}\n0::/x\n");
        prop_assert_eq!(parse_membership(text.as_bytes(), Version::V1), Some(path.as_bytes()));
        prop_assert_eq!(parse_membership(text.as_bytes(), Version::V2), Some(&b"/x"[..]));
    }

    #[test]
    fn no_path_panics(typed in "[/a-z.\\PC]{0,20}") {
        let (_directory, mounts) = version_2("typed", "memory\n", "/docker");
        let _ = Groups::at(&mounts).expect("a controller").resolve(&typed);
    }
}

/// Inactive pages that are mapped, or dirty (they must be written first), are not counted as idle.
#[test]
fn idle_cache_excludes_mapped_and_dirty_pages() {
    let idle = |inactive, dirty| {
        let text = format!(
            "anon 5\nfile 600\nshmem 0\nfile_mapped 100\nfile_dirty {dirty}\ninactive_file {inactive}\n"
        );
        parse_idle_cache(text.as_bytes(), Version::V2)
    };
    assert_eq!(idle(100, 0), Some(0));
    assert_eq!(idle(300, 100), Some(100));
    assert_eq!(idle(700, 0), Some(500));
    assert_eq!(parse_idle_cache(b"anon 5\n", Version::V2), None);
}

/// Regression: in a cgroup namespace, processes of groups above its root were reported as members
/// of the root, so that their memory was added to the root's.
#[test]
fn groups_above_the_namespace_have_names_of_their_own() {
    for version in ["cgroup2 none rw", "cgroup none rw,memory"] {
        let tree = Directory::new("above-namespace");
        std::fs::write(tree.0.join("cgroup.controllers"), "memory\n").unwrap();
        let mounts = format!("1 2 0:30 / {} rw - {version}\n", tree.0.display());
        let groups = Groups::at(mounts.as_bytes()).unwrap();
        let name = |path: &str| {
            let process = tree.0.join("7");
            std::fs::create_dir_all(&process).unwrap();
            std::fs::write(
                process.join("cgroup"),
                format!("4:memory:{path}\n0::{path}\n"),
            )
            .unwrap();
            groups.name_of_process(&Proc::at(&tree.0).unwrap(), 7)
        };
        for (path, want) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/../out", "/../out"),
            ("/..", "/.."),
            ("/../../x", "/../../x"),
        ] {
            assert_eq!(name(path).as_deref(), Some(want), "{version}");
        }
        let proc = Proc::at(&tree.0).unwrap();
        assert_eq!(groups.name_of_process(&proc, 8), None);
    }
}
