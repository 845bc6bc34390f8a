//! Tests of swap that several users share: who switched it on, and whose pages are in it.

use super::fake::Fake;
use super::*;

/// Swapped-out memory of the processes in these tests, KiB.
const SWAPPED: u64 = 65_536;

/// Adds a process of user `uid` with swapped-out memory.
fn process(fake: &Fake, pid: u32, uid: u32) {
    let status = format!("Tgid: {pid}\nUid: {uid} {uid} {uid} {uid}\nVmSwap: {SWAPPED} kB\n");
    fake.write(&format!("proc/{pid}/status"), &status);
    fake.write(&format!("proc/{pid}/comm"), "a program\n");
}

/// Trees with our zram as the only area, and `used` KiB of it in use.
fn on(used: u64) -> Fake {
    let fake = Fake::new();
    fake.swap().on(&mib(64)).unwrap();
    set_used(&fake, used);
    fake
}

fn set_used(fake: &Fake, used: u64) {
    let path = fake.dev().join("zram1");
    let line = format!("Filename\n{} partition 65536 {used} 100\n", path.display());
    fake.write("proc/swaps", &line);
}

/// Checks that `swap off` is refused for a reason with this text, and that `--force` works.
fn assert_needed(fake: &Fake, managers: &[String], reason: &str) {
    let error = fake.swap().off_unless(managers).unwrap_err();
    assert!(matches!(error, SwapError::Needed { .. }), "{error}");
    assert!(error.to_string().contains(reason), "{error}");
    assert!(error.hint().contains("--force"), "{}", error.hint());
    assert_eq!(fake.removed(), "", "nothing is removed");
    assert!(fake.swap().force_off().unwrap().was_on);
    assert_eq!(fake.removed(), "1");
}

/// Regression: a second `swap on` ended with an error, though the host had the swap that it
/// requested.
#[test]
fn a_second_on_changes_nothing_and_reports_what_there_is() {
    let mut fake = on(0);
    let again = fake.swap().on(&mib(64)).unwrap();
    assert!(again.already_on && again.differs.is_empty(), "{again:?}");
    assert_eq!(again.by.map(|by| by.uid), Some(0));
    let other = Request {
        algorithm: Some("lzo".to_owned()),
        ..mib(32)
    };
    let again = fake.swap().on(&other).unwrap();
    assert_eq!(again.size_bytes, 64 << 20);
    assert_eq!(again.differs, ["--size", "--compress"]);
    let file = Request {
        file: Some(fake.root().join("file")),
        ..mib(64)
    };
    assert_eq!(fake.swap().on(&file).unwrap().differs, ["--file"]);
    // Another user, also one without the right to switch swap.
    fake.become_user(1000);
    fake.forbid();
    assert!(fake.swap().on(&mib(64)).unwrap().already_on);
    assert_eq!(fake.calls(), ["on zram1 100"]);
}

/// Regression: `swap off` removed the swap that another user had switched on, with the pages that
/// were in it.
#[test]
fn off_leaves_what_another_user_switched_on() {
    let mut fake = on(0);
    fake.become_user(1000);
    assert_needed(&fake, &[], "user 0 switched it on");
}

#[test]
fn off_leaves_what_holds_pages_of_other_users() {
    let fake = on(SWAPPED);
    process(&fake, 70, 0);
    process(&fake, 77, 999);
    assert_needed(
        &fake,
        &[],
        "holds pages of a program (pid 77 of user 999, 64 MiB)",
    );
    // Pages of this user's own processes are swapped in, and so is an area without pages.
    let fake = on(SWAPPED);
    process(&fake, 70, 0);
    assert!(fake.swap().off().unwrap().was_on);
    let fake = on(0);
    process(&fake, 77, 999);
    assert!(fake.swap().off().unwrap().was_on);
}

#[test]
fn a_login_tells_apart_users_that_are_all_root() {
    let fake = on(SWAPPED);
    for pid in 70..75 {
        process(&fake, pid, 0);
        fake.write(&format!("proc/{pid}/loginuid"), "1000");
    }
    assert_needed(&fake, &[], "(pid 70 of user 1000, 64 MiB)");
    let fake = on(SWAPPED);
    process(&fake, 70, 0);
    fake.write("proc/70/loginuid", "4294967295");
    assert!(fake.swap().off().unwrap().was_on);
}

#[test]
fn off_leaves_what_managers_need() {
    let fake = on(0);
    assert_needed(
        &fake,
        &["manager 12 of pid 7".to_owned()],
        "needed by manager 12 of pid 7",
    );
    // Managers matter only while the area is on.
    let fake = on(0);
    fake.write("proc/swaps", "Filename\n");
    assert!(fake.swap().off_unless(&["manager 12".to_owned()]).is_ok());
}

#[test]
fn a_record_without_a_user_is_of_an_earlier_version() {
    let mut fake = on(0);
    let record = fake.read("run/swap");
    let kept = record
        .lines()
        .filter(|line| !line.starts_with("by ") && !line.starts_with("at "));
    let record: String = kept.map(|line| format!("{line}\n")).collect();
    fake.write("run/swap", &record);
    fake.become_user(1000);
    assert!(fake.swap().off().unwrap().was_on);
}

#[test]
fn a_named_area_is_apart_from_the_shared_one() {
    let fake = on(0);
    // The next device has the number 2.
    fake.write("sys/class/zram-control/hot_add", "2\n");
    for (name, text) in [
        ("disksize", "0\n"),
        ("diskseq", "30\n"),
        ("mm_stat", "0 0 0\n"),
    ] {
        fake.write(&format!("sys/block/zram2/{name}"), text);
    }
    fake.write("sys/block/zram2/comp_algorithm", "[lzo-rle] lz4\n");
    fake.write("dev/zram2", "");
    let made = fake.swap_of("swap-tutorial").on(&mib(8)).unwrap();
    assert_eq!(made.path, fake.dev().join("zram2"));
    let status = fake.swap().status().unwrap();
    let names: Vec<_> = status
        .areas
        .iter()
        .map(|area| area.name.as_deref())
        .collect();
    assert_eq!(names, [None, Some("tutorial")]);
    assert!(status.areas.iter().all(|area| area.ours), "{status:?}");
    let removed = fake.swap_of("swap-tutorial").off().unwrap();
    assert_eq!(removed.path, made.path);
    assert_eq!(fake.swap().status().unwrap().areas.len(), 1);
}

#[test]
fn names_of_areas() {
    for name in ["tutorial", "a-1", "x"] {
        assert!(Swap::named(name).is_some(), "{name}");
    }
    for name in ["", "A", "a/b", "..", "a.new", "a b", &"x".repeat(33)] {
        assert!(Swap::named(name).is_none(), "{name}");
    }
}
