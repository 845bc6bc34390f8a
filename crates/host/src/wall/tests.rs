//! Trees that look like those of other hosts, where every write is read back. What only a kernel does (locks
//! and marks that end with a process, reclaim, the guard) is in `crates/e2e/tests/wall.rs`.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::limits::Limits;
use super::mark::{self, Mark};
use super::place::Request;
use super::*;
use crate::system::testing::{Directory, OwnGroup};

const MANAGER: Identity = Identity {
    pid: 77,
    started: 4711,
};

fn put(dir: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join(name), text).unwrap();
}

fn word(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

/// A tree of version 2: a slice with a limit, in it a service with another one and these processes.
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
    // No cgroup.subtree_control: as one that cannot be written.
    let (_tree, groups, own) = version_2("beside", "12\n77\n");
    let place = request(&groups, &proc).find(&own).unwrap();
    assert_eq!(place.parent, own.dir.parent().unwrap());
    let ceiling = Limits {
        max: Some(700),
        high: None,
        swap_max: Some(50),
    };
    // The slice's 900 hold by themselves.
    assert_eq!(place.ceiling, ceiling);
    assert!(place.leaf.is_none());
}

#[test]
fn alone_in_a_group_that_is_ours_to_divide() {
    let proc = Proc::system().unwrap();
    let (_tree, groups, own) = version_2("alone", "77\n");
    // A real group's files are there when it is made; here the leaf cannot be entered.
    let why = request(&groups, &proc).find(&own).unwrap();
    assert!(why.leaf.is_none());
    assert!(!own.dir.join("pagetide-77-4711.manager").exists());

    put(&own.dir, "cgroup.subtree_control", "memory\n");
    let place = request(&groups, &proc).find(&own).unwrap();
    assert_eq!((place.parent, place.ceiling), (own.dir, Limits::default()));
}

#[test]
fn nowhere_is_an_error_with_a_hint() {
    let proc = Proc::system().unwrap();
    let (tree, groups, own) = version_2("nowhere", "12\n77\n");
    for file in ["cgroup.subtree_control", "a.slice/cgroup.subtree_control"] {
        std::fs::remove_file(tree.0.join(file)).unwrap();
    }
    let error = request(&groups, &proc).find(&own).unwrap_err();
    assert!(error.to_string().contains("1 other processes"), "{error}");
    // As root where there is no systemd that is another.
    let is_roots = rustix::process::geteuid().is_root() && !super::scope::is_there();
    let hint = if is_roots { "mkdir" } else { "Delegate=yes" };
    assert!(error.hint().contains(hint), "{}", error.hint());
    let scope = |_: &Group, _: &[u32]| Err("busctl: exit status: 1".to_owned());
    let asked = Request {
        scope: Some(&scope),
        ..request(&groups, &proc)
    };
    let error = asked.find(&own).unwrap_err();
    assert!(error.to_string().contains("busctl"), "{error}");
}

/// A wall in a tree, with these files.
fn wall(name: &str, version: Version, files: &[(&str, &str)]) -> (Directory, Wall) {
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
    let mark = Mark {
        manager: MANAGER,
        ceiling: Limits {
            max: Some(1 << 30),
            ..Limits::default()
        },
    };
    let open = files::open_dir(&dir).unwrap();
    (
        tree,
        Wall::of(groups, group, Handle::Held(open), &mark, None),
    )
}

#[test]
fn version_1_keeps_both_limits_in_order() {
    const MAX: &str = "memory.limit_in_bytes";
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    let none = "9223372036854771712\n";
    let (_tree, wall) = wall("v1", Version::V1, &[(MAX, none), (BOTH, none)]);
    let dir = wall.group().dir.clone();
    let now = || (word(&dir, MAX), word(&dir, BOTH));
    let error = wall.set_swap_max(Some(5)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    // A file is not cut by a write as the kernel's are: values of equal length.
    put(&dir, MAX, "");
    wall.set_max(Some(1000)).unwrap();
    assert_eq!(now(), ("1000".to_owned(), none.to_owned()));
    put(&dir, BOTH, "");
    wall.set_swap_max(Some(500)).unwrap();
    assert_eq!(now().1, "1500");
    wall.set_max(Some(3000)).unwrap();
    assert_eq!(now(), ("3000".to_owned(), "3500".to_owned()));
    wall.set_max(Some(2000)).unwrap();
    assert_eq!(now(), ("2000".to_owned(), "2500".to_owned()));
    assert!(wall.set_high(Some(1)).is_err() && wall.set_high(None).is_ok());
}

/// (The story: a limit of swap below what was in swap had the kernel drop all page cache of its tenant, refuse, and it was forgotten.)
#[test]
fn what_is_in_swap_delays_the_limit_of_both() {
    const MAX: &str = "memory.limit_in_bytes";
    const BOTH: &str = "memory.memsw.limit_in_bytes";
    const USED: &str = "memory.usage_in_bytes";
    const USED_BOTH: &str = "memory.memsw.usage_in_bytes";
    // MiB, all of one length: a file is not cut by a write as the kernel's are.
    let mib = |mib: u64| (mib << 20).to_string();
    let files = [(MAX, 900), (BOTH, 950), (USED, 300), (USED_BOTH, 600)];
    let files = files.map(|(name, size)| (name, mib(size)));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, &**text)).collect();
    let (_tree, wall) = wall("delayed", Version::V1, &files);
    let dir = wall.group().dir.clone();
    let now = || (word(&dir, MAX), word(&dir, BOTH));
    let mut due = Due {
        max: Some(Some(400 << 20)),
        ..Due::default()
    };
    assert!(due.put(&wall).max.is_none() && due.stands());
    // That of memory stands; with 50 MiB in swap beside it both would be 450.
    assert_eq!(now(), (mib(400), mib(950)));
    assert_eq!(due.swap_max, Some(Some(50 << 20)));
    assert!(due.put(&wall).swap_max.is_none());
    assert_eq!(now().1, mib(950));
    put(&dir, USED_BOTH, &mib(440));
    assert!(due.put(&wall).swap_max.is_none());
    assert_eq!(now(), (mib(400), mib(450)));
    assert_eq!(due, Due::default());
}

#[test]
fn no_value_is_above_the_ceiling() {
    let files = [
        ("memory.max", ""),
        ("memory.high", ""),
        ("memory.swap.max", ""),
    ];
    let (_tree, wall) = wall("v2", Version::V2, &files);
    let max = |wall: &Wall| word(&wall.group().dir, "memory.max");
    wall.lift().unwrap();
    assert_eq!(max(&wall), (1u64 << 30).to_string());
    assert_eq!(word(&wall.group().dir, "memory.high"), "max");
    put(&wall.group().dir, "memory.max", "");
    wall.set_max(Some(1 << 20)).unwrap();
    assert_eq!(max(&wall), (1 << 20).to_string());
}

/// (The story: a limit was lowered because a program grew without end. What it used was above that already, so no limit stood at all, and it grew
/// on until the host had no memory left.)
#[test]
fn who_is_to_come_down_does_not_grow_meanwhile() {
    const MIB: u64 = 1 << 20;
    let files = [("memory.max", "max\n"), ("memory.current", "")];
    let (_tree, wall) = wall("bound", Version::V2, &files);
    let dir = wall.group().dir.clone();
    let mut due = Due {
        max: Some(Some(100 * MIB)),
        ..Due::default()
    };
    // Charged, what stands then, and whether it is what was asked for; MiB.
    for (charged, max, stands) in [
        (800, 832, false),
        // It has grown to its bound.
        (832, 832, false),
        (796, 832, false),
        (700, 732, false),
        (100, 100, true),
    ] {
        put(&dir, "memory.current", &(charged * MIB).to_string());
        // A file is not cut by a write as the kernel's are.
        let before = word(&dir, "memory.max");
        let length = (max * MIB).to_string().len();
        put(&dir, "memory.max", &format!("{:>length$}", before.trim()));
        let refused = due.put(&wall);
        assert!(refused.max.is_none());
        assert_eq!(wall.max().unwrap(), Some(max * MIB), "{charged} MiB");
        assert_eq!(due.stands(), stands, "{charged} MiB");
    }
}

/// (The story: the host was short of descriptors for a moment, nobody could tell what was charged, and a limit far below that was given to the kernel.)
#[test]
fn no_limit_is_put_while_nobody_can_tell_what_is_charged() {
    let files = [("memory.max", "max\n"), ("memory.high", "max\n")];
    let (_tree, wall) = wall("unread", Version::V2, &files);
    let limit = Some(Some(100 << 20));
    let mut due = Due {
        max: limit,
        high: limit,
        ..Due::default()
    };
    let refused = due.put(&wall);
    assert!(refused.max.is_none() && refused.high.is_none());
    assert_eq!(wall.max().unwrap(), None);
    assert_eq!(word(&wall.group().dir, "memory.high"), "max\n");
    assert!(!due.stands());
}

/// (The story: memory.high was written at once, and the kernel reclaims in that write what is above: gigabytes, while nobody else was answered.)
#[test]
fn memory_high_follows_what_is_used_down() {
    const MIB: u64 = 1 << 20;
    let files = [("memory.high", "max\n"), ("memory.current", "")];
    let (_tree, wall) = wall("high", Version::V2, &files);
    let dir = wall.group().dir.clone();
    let goal = |mib: u64| Due {
        high: Some(Some(mib * MIB)),
        ..Due::default()
    };
    let mut due = goal(100);
    // Charged; whether the kernel is to take a step; what is written then, and whether it is what was asked for. MiB.
    for (charged, presses, high, stands) in [
        (800, false, 800, false),
        // It has grown.
        (810, false, 800, false),
        (700, false, 700, false),
        (700, true, 692, false),
        (109, false, 109, false),
        (109, true, 101, false),
        (108, false, 100, true),
    ] {
        put(&dir, "memory.current", &(charged * MIB).to_string());
        // A file is not cut by a write as the kernel's are.
        let before = word(&dir, "memory.high");
        let length = (high * MIB).to_string().len();
        put(&dir, "memory.high", &format!("{:>length$}", before.trim()));
        match presses {
            true => assert_eq!(due.press(&wall), 0, "here nothing is charged less by that"),
            false => assert!(due.put(&wall).high.is_none()),
        }
        assert_eq!(word(&dir, "memory.high"), (high * MIB).to_string());
        assert_eq!(due.stands(), stands, "{charged} MiB");
    }
    // One that stands already is not written once more, however much is above it.
    put(&dir, "memory.current", &(500 * MIB).to_string());
    let as_it_was = format!(" {}", 100 * MIB);
    put(&dir, "memory.high", &as_it_was);
    let mut due = goal(100);
    assert!(due.put(&wall).high.is_none() && due.stands());
    assert_eq!(word(&dir, "memory.high"), as_it_was);
}

/// Real groups: only a kernel keeps marks on them.
#[test]
fn only_what_is_marked_and_unlocked_is_left_behind() {
    let own = OwnGroup::new("left");
    let groups = Groups::find(&Proc::system().unwrap()).unwrap();
    let at = |name: &str| own.dir.join(name);
    let make = |name: &str| {
        let place = Place {
            parent: own.dir.clone(),
            ceiling: Limits::default(),
            leaf: None,
        };
        Wall::make_at(groups.clone(), &place, MANAGER, name).unwrap()
    };
    std::fs::create_dir(at("pagetide-1-2")).unwrap();
    std::fs::create_dir(at("other-3-4")).unwrap();
    let lives = make("pagetide-5-6");
    // This process runs, and its manager's number is ours: a later process got the pid of a dead one.
    let ours = std::process::id();
    drop(make(&format!("pagetide-{ours}-1")));
    // Only those of this test: others run beside it.
    let found = |manager| -> Vec<PathBuf> {
        let claim = |entry: std::fs::DirEntry| Wall::claim(&groups, &entry.path(), manager);
        let entries = std::fs::read_dir(&own.dir).unwrap().map(Result::unwrap);
        let found = entries.filter_map(claim);
        found.map(|wall| wall.group().dir.clone()).collect()
    };
    assert_eq!(found(MANAGER), [at(&format!("pagetide-{ours}-1"))]);
    drop(lives);
    assert_eq!(found(MANAGER).len(), 2);
    let taken = Wall::claim(&groups, &at("pagetide-5-6"), MANAGER).unwrap();
    assert_eq!(found(MANAGER).len(), 1, "one that is taken up is not left");
    assert!(taken.is_there() && taken.remove().unwrap());
    assert!(!taken.is_there());
    assert!(taken.remove().unwrap(), "gone is gone");
}

#[test]
fn names_of_others_are_not_ours() {
    assert_eq!(mark::is_name(mark::name(MANAGER).as_ref()), Some(MANAGER));
    for name in [
        "pagetide",
        "pagetide-1",
        "pagetide-1-2-x",
        "pagetide--2",
        "x",
    ] {
        assert_eq!(mark::is_name(name.as_ref()), None, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn marks_come_back(pid in any::<u32>(), started in any::<u64>(), max in any::<Option<u64>>(), swap_max in any::<Option<u64>>(), bytes in any::<Vec<u8>>()) {
        let mark = Mark {
            manager: Identity { pid, started },
            ceiling: Limits { max, high: None, swap_max },
        };
        prop_assert_eq!(Mark::parse(mark.text().as_bytes()), Some(mark));
        let _ = Mark::parse(&bytes);
    }
}

/// (The story: a tenant that once had another one below it, or where one could not be made, took no process any more.)
#[test]
fn who_cannot_be_made_has_nobody_hand_memory_down() {
    let (_tree, groups, _) = version_2("handed", "");
    let above = groups.mount.join("a.slice/b.service");
    put(&above, "cgroup.controllers", "memory\n");
    put(&above, "cgroup.subtree_control", "       ");
    let long = "x".repeat(256);
    for (name, errno) in [
        (long.as_str(), Errno::NAMETOOLONG),
        ("memory.max", Errno::EXIST),
    ] {
        let made = Wall::tenant(&groups, &above.join(name), MANAGER, false);
        assert_eq!(made.err(), Some(errno));
        assert_eq!(word(&above, "cgroup.subtree_control").trim(), "");
    }
}

#[test]
fn protection_is_the_kernels_on_version_2() {
    let files = [("memory.min", ""), ("memory.low", "")];
    let (tree, wall) = wall("kept", Version::V2, &files);
    wall.set_protection([Some(8192), None]).unwrap();
    assert_eq!(word(&wall.group().dir, "memory.min"), "8192");
    assert_eq!(wall.kernel_protection(), [8192, u64::MAX]);
    assert_eq!(
        wall.protection_above(),
        [u64::MAX; 2],
        "the first has no such files"
    );
    let above = wall.group().dir.parent().unwrap().to_owned();
    put(&above, "memory.low", "4096\n");
    put(&tree.0, "memory.low", "max\n");
    assert_eq!(wall.protection_above(), [u64::MAX, 4096]);
}

/// (The story: the service manager gives a user's slice to that user, with limits that stay root's. An attribute on it, which the user may
/// write, was taken for what a killed `serve` had been asked for: root wrote the limits that it named.)
#[test]
fn what_stands_on_a_group_of_somebody_elses_is_not_believed() {
    let own = OwnGroup::new("notes");
    let groups = Groups::find(&Proc::system().unwrap()).unwrap();
    let dir = own.dir.join("user.slice");
    let wall = Wall::make_for_host(&groups, &dir, MANAGER).unwrap();
    wall.note_asked("0 0 max max max max").unwrap();
    let long = "N0=1 ".repeat(200);
    wall.note_reports(&long).unwrap();
    assert_eq!(wall.reports(), Some(long));
    lowered::note(&wall.dir().unwrap(), None, 17);
    let found = || Wall::of_host(&groups, &dir, MANAGER).unwrap();
    let is_noted = |wall: &Wall| lowered::is_noted(&wall.dir().unwrap());
    rustix::fs::chown(&dir, Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
    assert_eq!((found().asked(), found().reports()), (None, None));
    assert!(is_noted(&found()), "nothing is done by it");
    rustix::fs::chown(&dir, Some(rustix::process::geteuid()), None).unwrap();
    rustix::fs::chmod(&dir, 0o777.into()).unwrap();
    assert_eq!(found().asked(), None);
    rustix::fs::chmod(&dir, 0o755.into()).unwrap();
    assert!(
        !is_noted(&found()),
        "of a killed one of ours it is put back"
    );
    assert_eq!(found().asked().as_deref(), Some("0 0 max max max max"));
    std::fs::remove_dir(&dir).unwrap();
}

/// (The story: a program made groups of its own below its tenant; a look had the tenant hand memory down for them, and it took no
/// process any more.)
#[test]
fn somebody_elses_group_changes_nothing_above_it() {
    let (_tree, groups, own) = version_2("foreign", "");
    put(&own.dir, "cgroup.subtree_control", "");
    let foreign = own.dir.join("x");
    std::fs::create_dir(&foreign).unwrap();
    let taken = Wall::take_up(&groups, &foreign, MANAGER);
    assert_eq!(taken.err(), Some(rustix::io::Errno::EXIST));
    assert_eq!(word(&own.dir, "cgroup.subtree_control"), "");
}
