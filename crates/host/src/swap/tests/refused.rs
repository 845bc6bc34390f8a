//! Tests that a command that fails leaves nothing behind: requests that make no sense, hosts
//! without a feature, operations that the kernel refuses.

use super::fake::Fake;
use super::*;

const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const EPERM: i32 = 1;
const ENOMEM: i32 = 12;

/// Checks that the zram was removed, and that neither a record nor a call of swapon is left.
fn assert_nothing_left(fake: &Fake) {
    assert_eq!(fake.removed(), "1");
    assert!(!fake.root().join("run/swap").exists());
    assert!(fake.calls().is_empty(), "{:?}", fake.calls());
}

#[test]
fn sizes_that_make_no_sense() {
    let fake = Fake::new();
    for size in [0, 1, 4096, (1 << 20) - 1, 4001 << 20, u64::MAX] {
        let request = Request {
            size: Some(size),
            ..Request::default()
        };
        let error = fake.swap().on(&request).unwrap_err();
        assert!(error.is_bad_request(), "{size}: {error}");
    }
    let error = fake.swap().on(&Request {
        file: Some(fake.root().join("file")),
        size: Some(u64::MAX),
        ..Request::default()
    });
    assert!(error.unwrap_err().is_bad_request());
    assert_eq!(fake.removed(), "");
    assert_eq!(fake.swap().on(&mib(4000)).unwrap().size_bytes, 4000 << 20);
}

#[test]
fn sizes_are_cut_to_pages() {
    let fake = Fake::new();
    let request = Request {
        size: Some((1 << 20) + 5000),
        ..Request::default()
    };
    assert_eq!(
        fake.swap().on(&request).unwrap().size_bytes,
        (1 << 20) + 4096
    );
}

#[test]
fn without_the_right_nothing_is_made() {
    let mut fake = Fake::new();
    fake.forbid();
    for error in [
        fake.swap().on(&mib(64)).unwrap_err(),
        fake.swap().off().unwrap_err(),
    ] {
        assert!(
            error.is_missing() && error.hint().contains("root"),
            "{error}"
        );
    }
    assert!(!fake.root().join("run").exists());
    assert!(fake.swap().status().is_ok());
}

#[test]
fn algorithms_that_are_not_there() {
    let fake = Fake::new();
    for (name, is_missing) in [("zstd", true), ("lz5", false)] {
        let request = Request {
            algorithm: Some(name.to_owned()),
            ..mib(64)
        };
        let error = fake.swap().on(&request).unwrap_err();
        assert_eq!(error.is_missing(), is_missing, "{error}");
        let reported = format!("{error} {}", error.hint());
        assert!(reported.contains("lzo-rle, lzo, lz4"), "{reported}");
        assert_nothing_left(&fake);
        fake.write("sys/class/zram-control/hot_remove", "");
    }
}

#[test]
fn a_kernel_without_zram() {
    let fake = Fake::new();
    fake.remove("sys/class/zram-control");
    let reported = |fake: &Fake| {
        let error = fake.swap().on(&mib(64)).unwrap_err();
        assert!(
            error.is_missing() && error.hint().contains("--file"),
            "{error}"
        );
        error.to_string()
    };
    assert!(reported(&fake).contains("loads no modules"));
    fake.write("proc/sys/kernel/modprobe", "/nowhere/modprobe\n");
    assert!(reported(&fake).contains("/nowhere/modprobe"));
    fake.write("proc/sys/kernel/modprobe", "/bin/false\n");
    assert!(reported(&fake).contains("/bin/false failed"));
    fake.write("proc/sys/kernel/modprobe", "/bin/true\n");
    assert!(reported(&fake).contains("offers no devices"));
}

#[test]
fn any_failed_step_leaves_nothing_behind() {
    for errno in [EINVAL, EPERM, EBUSY] {
        let fake = Fake::new();
        fake.refuse(errno);
        let error = fake.swap().on(&mib(64)).unwrap_err();
        assert_eq!(error.is_missing(), errno == EPERM, "{error}");
        assert_nothing_left(&fake);
        assert_eq!(fake.swap().status().unwrap().areas.len(), 1);
    }
    for gone in [
        "dev/zram1",
        "sys/block/zram1/comp_algorithm",
        "sys/block/zram1/disksize",
    ] {
        let fake = Fake::new();
        fake.remove(gone);
        if gone.ends_with("comp_algorithm") {
            // Without this file, the zram keeps the algorithm that the kernel chose.
            assert_eq!(fake.swap().on(&mib(64)).unwrap().algorithm, None);
            continue;
        }
        let error = fake.swap().on(&mib(64)).unwrap_err();
        assert!(!error.hint().is_empty(), "{gone}: {error}");
    }
    let fake = Fake::new();
    let path = fake.root().join("file");
    let request = Request {
        file: Some(path.clone()),
        ..mib(2)
    };
    fake.refuse(EINVAL);
    let error = fake.swap().on(&request).unwrap_err();
    assert!(
        error.is_missing() && error.to_string().contains("file system"),
        "{error}"
    );
    assert!(!path.exists() && !fake.root().join("run/swap").exists());
}

#[test]
fn a_failed_undo_is_reported_and_repeated_later() {
    let fake = Fake::new();
    fake.refuse(EINVAL);
    // A directory has the file's name: writing fails, also for root.
    fake.remove("sys/class/zram-control/hot_remove");
    fake.write("sys/class/zram-control/hot_remove/x", "");
    let error = fake.swap().on(&mib(64)).unwrap_err();
    assert!(
        error.to_string().contains("could not be removed again"),
        "{error}"
    );
    assert!(fake.root().join("run/swap").exists());
    fake.remove("sys/class/zram-control/hot_remove");
    fake.write("sys/class/zram-control/hot_remove", "");
    assert!(!fake.swap().off().unwrap().was_on);
    assert_eq!(fake.removed(), "1");
}

#[test]
fn swapped_out_pages_must_fit_in_memory() {
    let fake = Fake::new();
    fake.swap().on(&mib(64)).unwrap();
    let used = |kib: u64| {
        let line = format!(
            "{} partition 2048000 {kib} 100\n",
            fake.dev().join("zram1").display()
        );
        fake.write("proc/swaps", &format!("Filename\n{line}"));
    };
    // 500 MiB are available, but 1/64 of all 1000 MiB stays free: 484 MiB may be swapped in.
    used(500 << 10);
    let error = fake.swap().off().unwrap_err();
    assert!(matches!(error, SwapError::NoRoom { .. }), "{error}");
    assert!(
        error.to_string().contains("only 484 MiB of memory"),
        "{error}"
    );
    assert_eq!(fake.calls(), ["on zram1 100"]);
    used(484 << 10);
    fake.refuse(ENOMEM);
    let error = fake.swap().off().unwrap_err();
    assert!(error.to_string().contains("swap is still on"), "{error}");
    let removed = fake.swap().off().unwrap();
    assert_eq!(removed.brought_back_bytes, 484 << 20);
}

#[test]
fn swapped_out_pages_must_fit_the_group_limit() {
    for (version, limit, swap) in [
        ("cgroup cgroup rw,memory", "memory.limit_in_bytes", None),
        ("cgroup2 none rw", "memory.max", Some("memory.swap.current")),
    ] {
        let fake = Fake::new();
        fake.swap().on(&mib(64)).unwrap();
        let line = format!(
            "{} partition 204800 102400 100\n",
            fake.dev().join("zram1").display()
        );
        fake.write("proc/swaps", &format!("Filename\n{line}"));
        let mount = fake.root().join("groups");
        let mountinfo = format!("1 2 0:3 / {} rw - {version}\n", mount.display());
        fake.write("proc/self/mountinfo", &mountinfo);
        let file = |name: &str, mib: u64| {
            fake.write(&format!("groups/a/b/{name}"), &format!("{}\n", mib << 20))
        };
        fake.write("groups/cgroup.controllers", "memory\n");
        file(limit, 40);
        if let Some(swap) = swap {
            file("memory.current", 39);
            file(swap, 60);
        } else {
            file("memory.usage_in_bytes", 39);
        }
        let stat = format!("total_swap {}\n", 60 << 20);
        fake.write("groups/a/b/memory.stat", &stat);
        let error = fake.swap().off().unwrap_err();
        assert!(matches!(error, SwapError::NoRoom { .. }), "{error}");
        assert!(
            error.to_string().contains("/a/b would be 59 MiB above"),
            "{error}"
        );
        // It is allowed if other swap has free slots for the pages.
        fake.write(
            "proc/swaps",
            &format!("Filename\n{line}/x file 102400 0 -2\n"),
        );
        assert!(fake.swap().off().is_ok(), "{version}");
    }
}
