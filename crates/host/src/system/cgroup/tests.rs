//! A real group below the real mount, and trees of other hosts.

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

/// Ends and reaps what it started.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_group_of_our_own() {
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
    // The shell moves itself, so that what it writes counts to the group.
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
fn names_that_are_none() {
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

/// A tree of version 2 with a group `a b` and one below it.
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
fn what_is_to_be_written_is_told() {
    let first = b"dirty 1\ntotal_dirty 4096\ntotal_writeback 8192\n";
    assert_eq!(parse_dirty(first, Version::V1), 12_288);
    assert_eq!(parse_dirty(b"file_dirty 4096\n", Version::V2), 4096);
    assert_eq!(parse_dirty(first, Version::V2), 0, "it does not say");
}

#[test]
fn version_2_without_a_peak() {
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
    // The root has no such files, and is a group.
    assert_eq!(
        groups.usage(&groups.root()).unwrap(),
        Some(Usage::default())
    );
}

#[test]
fn a_part_of_the_hierarchy() {
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
fn a_mount_from_outside_of_our_namespace() {
    let (_directory, mounts) = version_2("outside", "memory\n", "/..");
    let groups = Groups::at(&mounts).unwrap();
    assert_eq!(groups.below(Path::new("/../beside")), Some("beside".into()));
    assert_eq!(groups.below(Path::new("/../../beside")), None);
    // Our own name is not known from here.
    assert_eq!(groups.below(Path::new("/")), None);
}

#[test]
fn hosts_without_a_controller() {
    let (_directory, mounts) = version_2("none", "cpu pids\n", "/");
    let error = Groups::at(&mounts).unwrap_err();
    assert!(error.to_string().contains("cgroup.controllers"), "{error}");
    assert!(Groups::at(b"").is_err());
    // A hybrid host: the hierarchy of version 1 is the one.
    let mut hybrid = mounts;
    hybrid.extend(b"1 2 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    assert_eq!(Groups::at(&hybrid).unwrap().version, Version::V1);
}

#[test]
fn kernel_memory_of_older_kernels() {
    assert_eq!(
        parse_kernel(b"kernel_stack 1\nslab 2\npagetables 4\n"),
        Some(7)
    );
    assert_eq!(parse_kernel(b"anon 1\n"), None);
}

#[test]
fn page_cache_of_each_node() {
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
    // Version 1 has another format, and does not tell what is mapped.
    let text = b"total=9 N0=9\nfile=7 N0=7\nanon=2 N0=2\nunevictable=0 N0=0\n";
    assert_eq!(parse_node_caches(text, &[0]), None);
}

/// The first group of version 2 has no memory.current.
#[test]
fn what_is_counted_by_kind_is_summed() {
    let text = b"anon 4096\nfile 8192\nkernel 1000\nkernel_stack 900\nshmem 4096\n";
    assert_eq!(parse_sum(text), Some(13_288));
    assert_eq!(parse_sum(b"file 8192\n"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_goes(bytes in any::<Vec<u8>>(), text in "([0-9]{0,2}:(memory|cpu,memory|)?:/?[a-z:. ()]{0,12}\n){0,4}") {
        for text in [&bytes[..], text.as_bytes()] {
            let _ = (parse_procs(text), parse_kernel(text), parse_node_caches(text, &[0, 1]));
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
    fn membership_comes_back(path in "/[a-z:]{0,20}", number in 1u8..20) {
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

/// Mapped pages, and those that must be written first, may all be inactive.
#[test]
fn idle_cache_is_what_is_neither_mapped_nor_dirty_for_sure() {
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
