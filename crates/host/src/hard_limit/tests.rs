//! Tests with directory trees that imitate other hosts; every write is read back. Tests that need a
//! kernel (locks and ownership xattrs of ended processes, reclaim, the guard) are in
//! `crates/e2e/tests/hard_limit.rs`.

use std::path::{Path, PathBuf};

use engine::{Bytes, Limit};
use proptest::prelude::*;

use super::group_place::Request;
use super::limits::Limits;
use super::ownership::{self, OwnershipXattr};
use super::*;
use crate::system::testing::{Directory, OwnGroup};

/// The manager in these tests.
const MANAGER: Identity = Identity {
    pid: 77,
    started: 4711,
};

/// Writes a file, and makes its directory if there is none.
fn put(dir: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join(name), text).unwrap();
}

/// Returns the contents of a file.
fn word(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

/// Makes a tree of version 2: a slice with a limit, and in it a service with a limit of its own and
/// the processes `procs`. Returns the directory, its hierarchy, and the cgroup of the service.
fn version_2(name: &str, procs: &str) -> (Directory, Groups, Group) {
    let tree = Directory::new(name);
    let slice = tree.0.join("a.slice");
    let service = slice.join("b.service");
    put(&tree.0, "cgroup.controllers", "cpu memory\n");
    put(&tree.0, "cgroup.subtree_control", "memory\n");
    put(&tree.0, "cgroup.procs", "1\n");
    put(&slice, "cgroup.subtree_control", "cpu memory\n");
    put(&slice, "cgroup.procs", "");
    put(&slice, "memory.max", "900\n");
    put(&service, "cgroup.procs", procs);
    put(&service, "memory.max", "700\n");
    put(&service, "memory.high", "max\n");
    put(&service, "memory.swap.max", "50\n");
    let mounts = format!("1 2 0:30 / {} rw - cgroup2 cgroup rw\n", tree.0.display());
    let groups = Groups::at(mounts.as_bytes()).unwrap();
    let own = groups.resolve("a.slice/b.service").unwrap();
    (tree, groups, own)
}

/// Returns a request for a place, by a process with pid 77.
fn request<'a>(groups: &'a Groups, proc: &'a Proc) -> Request<'a> {
    Request {
        groups,
        proc,
        ours: &[77],
        name: "pagetide-77-4711",
        scope: None,
    }
}

#[test]
fn beside_our_group_its_own_limits_are_the_ceiling() {
    let proc = Proc::system().unwrap();
    // There is no cgroup.subtree_control, as if we could not write it.
    let (_tree, groups, own) = version_2("beside", "12\n77\n");
    let place = request(&groups, &proc).find(&own).unwrap();
    assert_eq!(place.parent, own.dir.parent().unwrap());
    let ceiling = Limits {
        max: bytes(700),
        swap_max: bytes(50),
        ..Limits::default()
    };
    // The ceiling does not include the slice's 900: the kernel enforces that limit.
    assert_eq!(place.ceiling, ceiling);
    assert!(place.leaf.is_none());
}

#[test]
fn a_process_alone_in_its_group_gets_a_cgroup_inside_it() {
    let proc = Proc::system().unwrap();
    let (_tree, groups, own) = version_2("alone", "77\n");
    // The leaf in this tree has no files, unlike a real cgroup, so processes cannot be moved to it.
    let why = request(&groups, &proc).find(&own).unwrap();
    assert!(why.leaf.is_none());
    assert!(!own.dir.join("pagetide-77-4711.manager").exists());

    put(&own.dir, "cgroup.subtree_control", "memory\n");
    let place = request(&groups, &proc).find(&own).unwrap();
    assert_eq!((place.parent, place.ceiling), (own.dir, Limits::default()));
}

#[test]
fn no_place_is_an_error_with_a_hint() {
    let proc = Proc::system().unwrap();
    let (tree, groups, own) = version_2("nowhere", "12\n77\n");
    for file in ["cgroup.subtree_control", "a.slice/cgroup.subtree_control"] {
        std::fs::remove_file(tree.0.join(file)).unwrap();
    }
    let error = request(&groups, &proc).find(&own).unwrap_err();
    assert!(error.to_string().contains("1 other processes"), "{error}");
    // The hint for root on a host without systemd differs.
    let is_roots = rustix::process::geteuid().is_root() && !super::scope::is_there();
    let hint = if is_roots { "mkdir" } else { "Delegate=yes" };
    assert!(error.hint().contains(hint), "{}", error.hint());
    let scope = |_: &Group, _: &[u32]| Err("busctl: exit status: 1".to_owned());
    let requested = Request {
        scope: Some(&scope),
        ..request(&groups, &proc)
    };
    let error = requested.find(&own).unwrap_err();
    assert!(error.to_string().contains("busctl"), "{error}");
}

/// Returns the limit of this many bytes.
fn bytes(bytes: u64) -> Limit {
    Limit::Bytes(Bytes(bytes))
}

/// Makes a tree with a managed cgroup that has these files (name, contents).
fn hard_limit(name: &str, version: Version, files: &[(&str, &str)]) -> (Directory, HardLimit) {
    let tree = Directory::new(name);
    let dir = tree.0.join("above/wall");
    for (file, text) in files {
        put(&dir, file, text);
    }
    let groups = match version {
        Version::V1 => format!("1 2 0:3 / {} rw - cgroup x rw,memory\n", tree.0.display()),
        Version::V2 => {
            put(&tree.0, "cgroup.controllers", "memory\n");
            format!("1 2 0:3 / {} rw - cgroup2 x rw\n", tree.0.display())
        }
    };
    let groups = Groups::at(groups.as_bytes()).unwrap();
    let group = groups.resolve("above/wall").unwrap();
    let mark = OwnershipXattr {
        manager: MANAGER,
        ceiling: Limits {
            max: bytes(1 << 30),
            ..Limits::default()
        },
    };
    let open = files::open_dir(&dir).unwrap();
    (
        tree,
        HardLimit::of(groups, group, Handle::Held(open), &mark, None),
    )
}

#[test]
fn version_1_keeps_both_limits_in_order() {
    const MAX: &str = "memory.limit_in_bytes";
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    let none = "9223372036854771712\n";
    let (_tree, hard_limit) = hard_limit("v1", Version::V1, &[(MAX, none), (BOTH, none)]);
    let dir = hard_limit.group().dir.clone();
    let now = || (word(&dir, MAX), word(&dir, BOTH));
    let error = hard_limit.set_swap_max(bytes(5)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    // A write does not truncate these files, unlike the kernel's: use values of equal length.
    put(&dir, MAX, "");
    hard_limit.set_max(bytes(1000)).unwrap();
    assert_eq!(now(), ("1000".to_owned(), none.to_owned()));
    put(&dir, BOTH, "");
    hard_limit.set_swap_max(bytes(500)).unwrap();
    assert_eq!(now().1, "1500");
    hard_limit.set_max(bytes(3000)).unwrap();
    assert_eq!(now(), ("3000".to_owned(), "3500".to_owned()));
    hard_limit.set_max(bytes(2000)).unwrap();
    assert_eq!(now(), ("2000".to_owned(), "2500".to_owned()));
    assert!(hard_limit.set_high(bytes(1)).is_err() && hard_limit.set_high(Limit::Max).is_ok());
}

/// Reclaim on request lowers the limit of version 1 for a moment. Charges that meet it then are not
/// counted as reclaim for lack of memory.
#[test]
fn charges_that_meet_a_limit_lowered_for_a_moment_are_not_counted() {
    const HITS: &str = "memory.failcnt";
    const BOTH: &str = "memory.memsw.failcnt";
    let (_tree, v1) = hard_limit("forced", Version::V1, &[(HITS, "3\n"), (BOTH, "1\n")]);
    let dir = v1.group().dir.clone();
    assert_eq!(v1.limit_reclaims().unwrap(), 4);
    v1.counting_forced_hits(|| put(&dir, HITS, "10\n"));
    assert_eq!(v1.limit_reclaims().unwrap(), 4);
    put(&dir, HITS, "12\n");
    assert_eq!(v1.limit_reclaims().unwrap(), 6);
    assert_eq!(v1.groups().limit_reclaims(&dir), Some(13), "the kernel's");
    let events = "low 0\nhigh 2\nmax 3\noom 0\noom_kill 0\n";
    let (_tree, v2) = hard_limit("events", Version::V2, &[("memory.events.local", events)]);
    assert_eq!(v2.limit_reclaims().unwrap(), 5);
    let dir = v2.group().dir.clone();
    assert_eq!(v2.groups().limit_reclaims(&dir), Some(5));
    // The first group of the hierarchy has no such file.
    assert_eq!(v2.groups().limit_reclaims(&v2.groups().mount), None);
}

/// Regression: a swap limit was set below the swap in use. The kernel dropped all page cache of the
/// tenant and then refused the limit, which `serve` then forgot.
#[test]
fn swap_in_use_delays_the_limit_of_memory_and_swap() {
    const MAX: &str = "memory.limit_in_bytes";
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    const USED: &str = "memory.usage_in_bytes";
    const USED_BOTH: &str = "memory.memsw.usage_in_bytes";
    // MiB, all of one length: a write does not truncate these files, unlike the kernel's.
    let mib = |mib: u64| (mib << 20).to_string();
    let files = [(MAX, 900), (BOTH, 950), (USED, 300), (USED_BOTH, 600)];
    let files = files.map(|(name, size)| (name, mib(size)));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, &**text)).collect();
    let (_tree, hard_limit) = hard_limit("delayed", Version::V1, &files);
    let dir = hard_limit.group().dir.clone();
    let now = || (word(&dir, MAX), word(&dir, BOTH));
    let mut pending = PendingLimits {
        max: Some(bytes(400 << 20)),
        ..PendingLimits::default()
    };
    assert!(pending.put(&hard_limit).max.is_none() && pending.stands());
    // The memory limit is set; the limit of memory and swap, 450 MiB with 50 MiB of swap, is not.
    assert_eq!(now(), (mib(400), mib(950)));
    assert_eq!(pending.swap_max, Some(bytes(50 << 20)));
    assert!(pending.put(&hard_limit).swap_max.is_none());
    assert_eq!(now().1, mib(950));
    put(&dir, USED_BOTH, &mib(440));
    assert!(pending.put(&hard_limit).swap_max.is_none());
    assert_eq!(now(), (mib(400), mib(450)));
    assert_eq!(pending, PendingLimits::default());
}

#[test]
fn no_value_is_above_the_ceiling() {
    let files = [
        ("memory.max", ""),
        ("memory.high", ""),
        ("memory.swap.max", ""),
    ];
    let (_tree, hard_limit) = hard_limit("v2", Version::V2, &files);
    let max = |hard_limit: &HardLimit| word(&hard_limit.group().dir, "memory.max");
    hard_limit.lift().unwrap();
    assert_eq!(max(&hard_limit), (1u64 << 30).to_string());
    assert_eq!(word(&hard_limit.group().dir, "memory.high"), "max");
    put(&hard_limit.group().dir, "memory.max", "");
    hard_limit.set_max(bytes(1 << 20)).unwrap();
    assert_eq!(max(&hard_limit), (1 << 20).to_string());
}

/// Regression: a user lowered the limit of a program that grew without end. The program's usage
/// already exceeded the new limit, so no limit was set at all, and the program grew until the host
/// had no memory left.
#[test]
fn a_pending_limit_bounds_growth() {
    const MIB: u64 = 1 << 20;
    let files = [("memory.max", "max\n"), ("memory.current", "")];
    let (_tree, hard_limit) = hard_limit("bound", Version::V2, &files);
    let dir = hard_limit.group().dir.clone();
    let mut pending = PendingLimits {
        max: Some(bytes(100 * MIB)),
        ..PendingLimits::default()
    };
    // The columns: the charge, the limit that is then set, whether that is the requested limit.
    // MiB.
    for (charged, max, stands) in [
        (800, 832, false),
        // The program has grown to the limit that was set.
        (832, 832, false),
        (796, 832, false),
        (700, 732, false),
        (100, 100, true),
    ] {
        put(&dir, "memory.current", &(charged * MIB).to_string());
        // A write does not truncate these files, unlike the kernel's.
        let before = word(&dir, "memory.max");
        let length = (max * MIB).to_string().len();
        put(&dir, "memory.max", &format!("{:>length$}", before.trim()));
        let refused = pending.put(&hard_limit);
        assert!(refused.max.is_none());
        assert_eq!(hard_limit.max().unwrap(), bytes(max * MIB), "{charged} MiB");
        assert_eq!(pending.stands(), stands, "{charged} MiB");
    }
}

/// Regression: for a moment the host had no free descriptors, so that the charge was unknown. A
/// limit far below the charge was written.
#[test]
fn no_limit_is_set_while_the_charge_is_unknown() {
    let files = [("memory.max", "max\n"), ("memory.high", "max\n")];
    let (_tree, hard_limit) = hard_limit("unread", Version::V2, &files);
    let limit = Some(bytes(100 << 20));
    let mut pending = PendingLimits {
        max: limit,
        high: limit,
        ..PendingLimits::default()
    };
    let refused = pending.put(&hard_limit);
    assert!(refused.max.is_none() && refused.high.is_none());
    assert_eq!(hard_limit.max().unwrap(), Limit::Max);
    assert_eq!(word(&hard_limit.group().dir, "memory.high"), "max\n");
    assert!(!pending.stands());
}

/// Regression: memory.high was set to the requested value at once. During such a write the kernel
/// reclaims all memory above it: it reclaimed gigabytes, and `serve` served no request meanwhile.
#[test]
fn memory_high_follows_the_charge_down() {
    const MIB: u64 = 1 << 20;
    let files = [("memory.high", "max\n"), ("memory.current", "")];
    let (_tree, hard_limit) = hard_limit("high", Version::V2, &files);
    let dir = hard_limit.group().dir.clone();
    let goal = |mib: u64| PendingLimits {
        high: Some(bytes(mib * MIB)),
        ..PendingLimits::default()
    };
    let mut pending = goal(100);
    // The columns: the charge, whether the kernel is to reclaim a few MiB, the limit written then,
    // whether that is the requested limit. MiB.
    for (charged, presses, high, stands) in [
        (800, false, 800, false),
        // The program has grown.
        (810, false, 800, false),
        (700, false, 700, false),
        (700, true, 692, false),
        (109, false, 109, false),
        (109, true, 101, false),
        (108, false, 100, true),
    ] {
        put(&dir, "memory.current", &(charged * MIB).to_string());
        // A write does not truncate these files, unlike the kernel's.
        let before = word(&dir, "memory.high");
        let length = (high * MIB).to_string().len();
        put(&dir, "memory.high", &format!("{:>length$}", before.trim()));
        match presses {
            true => assert_eq!(
                pending.reclaim_above_high(&hard_limit),
                0,
                "here nothing is charged less by that"
            ),
            false => assert!(pending.put(&hard_limit).high.is_none()),
        }
        assert_eq!(word(&dir, "memory.high"), (high * MIB).to_string());
        assert_eq!(pending.stands(), stands, "{charged} MiB");
    }
    // A limit that is already set is not written again, however much the charge exceeds it.
    put(&dir, "memory.current", &(500 * MIB).to_string());
    let as_it_was = format!(" {}", 100 * MIB);
    put(&dir, "memory.high", &as_it_was);
    let mut pending = goal(100);
    assert!(pending.put(&hard_limit).high.is_none() && pending.stands());
    assert_eq!(word(&dir, "memory.high"), as_it_was);
}

/// This test uses real cgroups, because only the kernel's file system stores xattrs on them.
#[test]
fn only_cgroups_with_xattr_and_free_lock_are_claimed() {
    let own = OwnGroup::new("left");
    let groups = Groups::find(&Proc::system().unwrap()).unwrap();
    let at = |name: &str| own.dir.join(name);
    let make = |name: &str| {
        let place = CgroupPlace {
            parent: own.dir.clone(),
            ceiling: Limits::default(),
            leaf: None,
        };
        HardLimit::make_at(groups.clone(), &place, MANAGER, name).unwrap()
    };
    std::fs::create_dir(at("pagetide-1-2")).unwrap();
    std::fs::create_dir(at("other-3-4")).unwrap();
    let lives = make("pagetide-5-6");
    // The pid in the name is that of this living process, as if a dead manager's pid had been
    // reused.
    let ours = std::process::id();
    drop(make(&format!("pagetide-{ours}-1")));
    // Only cgroups of this test are claimed, as other tests run at the same time.
    let found = |manager| -> Vec<PathBuf> {
        let claim = |entry: std::fs::DirEntry| HardLimit::claim(&groups, &entry.path(), manager);
        let entries = std::fs::read_dir(&own.dir).unwrap().map(Result::unwrap);
        let found = entries.filter_map(claim);
        found
            .map(|hard_limit| hard_limit.group().dir.clone())
            .collect()
    };
    assert_eq!(found(MANAGER), [at(&format!("pagetide-{ours}-1"))]);
    drop(lives);
    assert_eq!(found(MANAGER).len(), 2);
    let taken = HardLimit::claim(&groups, &at("pagetide-5-6"), MANAGER).unwrap();
    assert_eq!(found(MANAGER).len(), 1, "one that is taken up is not left");
    assert!(taken.is_there() && taken.remove().unwrap());
    assert!(!taken.is_there());
    assert!(taken.remove().unwrap(), "gone is gone");
}

#[test]
fn names_of_other_groups_are_not_ours() {
    assert_eq!(
        ownership::manager_of_name(ownership::name(MANAGER).as_ref()),
        Some(MANAGER)
    );
    for name in [
        "pagetide",
        "pagetide-1",
        "pagetide-1-2-x",
        "pagetide--2",
        "x",
    ] {
        assert_eq!(ownership::manager_of_name(name.as_ref()), None, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ownership_xattrs_are_parsed_as_written(pid in any::<u32>(), started in any::<u64>(), max in any::<Option<u64>>(), swap_max in any::<Option<u64>>(), bytes in any::<Vec<u8>>()) {
        let [max, swap_max] = [max, swap_max].map(|bytes| Limit::from(bytes.map(Bytes)));
        let mark = OwnershipXattr {
            manager: Identity { pid, started },
            ceiling: Limits { max, high: Limit::Max, swap_max },
        };
        prop_assert_eq!(OwnershipXattr::parse(mark.text().as_bytes()), Some(mark));
        let _ = OwnershipXattr::parse(&bytes);
    }
}

/// Regression: after a tenant was made below another one, or after that had failed, the upper
/// tenant could no longer have processes.
#[test]
fn a_failed_tenant_enables_no_controller_above_it() {
    let (_tree, groups, _) = version_2("handed", "");
    let above = groups.mount.join("a.slice/b.service");
    put(&above, "cgroup.controllers", "memory\n");
    put(&above, "cgroup.subtree_control", "       ");
    let long = "x".repeat(256);
    for (name, errno) in [
        (long.as_str(), Errno::NAMETOOLONG),
        ("memory.max", Errno::EXIST),
    ] {
        let made = HardLimit::tenant(&groups, &above.join(name), MANAGER, false);
        assert_eq!(made.err(), Some(errno));
        assert_eq!(word(&above, "cgroup.subtree_control").trim(), "");
    }
}

#[test]
fn protection_is_the_kernels_on_version_2() {
    let files = [("memory.min", ""), ("memory.low", "")];
    let (tree, hard_limit) = hard_limit("kept", Version::V2, &files);
    hard_limit
        .set_protection([bytes(8192), Limit::Max])
        .unwrap();
    assert_eq!(word(&hard_limit.group().dir, "memory.min"), "8192");
    assert_eq!(hard_limit.kernel_protection(), [8192, u64::MAX]);
    assert_eq!(
        hard_limit.protection_above(),
        [u64::MAX; 2],
        "the first has no such files"
    );
    let above = hard_limit.group().dir.parent().unwrap().to_owned();
    put(&above, "memory.low", "4096\n");
    put(&tree.0, "memory.low", "max\n");
    assert_eq!(hard_limit.protection_above(), [u64::MAX, 4096]);
}

/// Regression: systemd makes a user the owner of the user's slice, but the limits stay root's. The
/// user wrote an xattr on the slice. Root's `serve` took it for settings stored by a killed
/// `serve`, and set the limits named in it.
#[test]
fn attributes_of_another_users_group_are_ignored() {
    let own = OwnGroup::new("notes");
    let groups = Groups::find(&Proc::system().unwrap()).unwrap();
    let dir = own.dir.join("user.slice");
    let hard_limit = HardLimit::make_for_host(&groups, &dir, MANAGER).unwrap();
    hard_limit.note_requested("0 0 max max max max").unwrap();
    let long = "N0=1 ".repeat(200);
    hard_limit.note_reports(&long).unwrap();
    assert_eq!(hard_limit.reports(), Some(long));
    lowered::note(&hard_limit.dir().unwrap(), Limit::Max, 17);
    let found = || HardLimit::of_host(&groups, &dir, MANAGER).unwrap();
    let is_noted = |hard_limit: &HardLimit| lowered::is_noted(&hard_limit.dir().unwrap());
    rustix::fs::chown(&dir, Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
    assert_eq!((found().requested(), found().reports()), (None, None));
    assert!(is_noted(&found()), "nothing is done by it");
    rustix::fs::chown(&dir, Some(rustix::process::geteuid()), None).unwrap();
    rustix::fs::chmod(&dir, 0o777.into()).unwrap();
    assert_eq!(found().requested(), None);
    rustix::fs::chmod(&dir, 0o755.into()).unwrap();
    assert!(
        !is_noted(&found()),
        "of a killed one of ours it is put back"
    );
    assert_eq!(found().requested().as_deref(), Some("0 0 max max max max"));
    std::fs::remove_dir(&dir).unwrap();
}

/// Regression: a program made cgroups of its own below its tenant. A scan then enabled the memory
/// controller for the tenant's children, and the tenant could no longer have processes.
#[test]
fn another_programs_group_changes_nothing_above_it() {
    let (_tree, groups, own) = version_2("foreign", "");
    put(&own.dir, "cgroup.subtree_control", "");
    let foreign = own.dir.join("x");
    std::fs::create_dir(&foreign).unwrap();
    let taken = HardLimit::take_up(&groups, &foreign, MANAGER);
    assert_eq!(taken.err(), Some(rustix::io::Errno::EXIST));
    assert_eq!(word(&own.dir, "cgroup.subtree_control"), "");
}
