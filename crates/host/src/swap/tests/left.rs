//! What killed commands, restarts of the machine and other people leave.

use super::fake::Fake;
use super::*;

const RECORD: &str = "run/swap";

fn is_foreign(fake: &Fake) {
    let error = fake.swap().off().unwrap_err();
    assert!(matches!(error, SwapError::NotOurs { .. }), "{error}");
    assert_eq!(fake.removed(), "");
    assert!(!fake.root().join(RECORD).exists());
}

/// A fake in which swap was on, and others switched it off by hand.
fn switched_off() -> Fake {
    let fake = Fake::new();
    fake.swap().on(&mib(64)).unwrap();
    fake.write("proc/swaps", "Filename\n/dev/zram0 partition 1024 0 100\n");
    fake
}

#[test]
fn what_others_switched_off_is_removed_all_the_same() {
    let fake = switched_off();
    assert_eq!(fake.swap().status().unwrap().left.len(), 1);
    let removed = fake.swap().off().unwrap();
    assert!(!removed.was_on && fake.removed() == "1");
    assert_eq!(fake.calls(), ["on zram1 100"]);
}

#[test]
fn what_was_left_is_removed_by_the_next_on() {
    let fake = switched_off();
    let made = fake.swap().on(&mib(64)).unwrap();
    assert!(made.removed.is_some_and(|told| told.contains("zram1")));
    assert_eq!(fake.removed(), "1");
}

#[test]
fn a_device_that_was_killed_before_it_had_a_size_is_removed() {
    let fake = switched_off();
    fake.write("sys/block/zram1/disksize", "0\n");
    fake.swap().off().unwrap();
    assert_eq!(fake.removed(), "1");
}

/// A fake whose device has a size, and nothing was ever written to it.
fn blank() -> Fake {
    let fake = switched_off();
    fake.write("dev/zram1", &"\0".repeat(4096));
    fake.write("sys/block/zram1/mm_stat", "0 0 0 0 0 0 0\n");
    fake
}

/// A busy machine: `swap on` was killed between size and header, and the device was taken for somebody else's.
#[test]
fn a_device_that_was_killed_before_it_had_a_header_is_removed() {
    let fake = blank();
    fake.swap().off().unwrap();
    assert_eq!(fake.removed(), "1");
}

#[test]
fn a_blank_device_of_another_size_is_left_alone() {
    let fake = blank();
    fake.write("sys/block/zram1/disksize", "4096\n");
    is_foreign(&fake);
}

#[test]
fn an_empty_device_without_a_number_may_be_anybodys() {
    let fake = switched_off();
    let record = fake.read(RECORD).replace("diskseq 29\n", "");
    fake.write(RECORD, &record);
    fake.write("sys/block/zram1/disksize", "0\n");
    is_foreign(&fake);
}

#[test]
fn somebody_elses_header_is_left_alone() {
    let fake = switched_off();
    fake.write("dev/zram1", &"x".repeat(4096));
    is_foreign(&fake);
}

#[test]
fn a_device_that_got_the_name_later_is_left_alone() {
    let fake = switched_off();
    fake.write("sys/block/zram1/diskseq", "30\n");
    is_foreign(&fake);
}

#[test]
fn a_device_that_is_gone_is_forgotten() {
    let fake = switched_off();
    fake.remove("sys/block/zram1");
    let error = fake.swap().off().unwrap_err();
    assert!(error.to_string().contains("is gone since"), "{error}");
    assert!(!fake.root().join(RECORD).exists());
}

#[test]
fn no_zram_outlives_the_machine() {
    let fake = switched_off();
    fake.write(
        "proc/sys/kernel/random/boot_id",
        "99999999-2222-3333-4444-555555555555",
    );
    assert!(fake.swap().status().unwrap().left.is_empty());
    let made = fake.swap().on(&mib(64)).unwrap();
    assert_eq!(made.removed, None);
    assert_eq!(
        fake.removed(),
        "",
        "the device of another start is not ours"
    );
}

#[test]
fn a_file_of_an_earlier_start_of_the_machine_is_removed() {
    let fake = Fake::new();
    let path = fake.root().join("file");
    let request = Request {
        file: Some(path.clone()),
        ..mib(2)
    };
    fake.swap().on(&request).unwrap();
    fake.write("proc/swaps", "Filename\n");
    fake.write(
        "proc/sys/kernel/random/boot_id",
        "99999999-2222-3333-4444-555555555555",
    );
    assert!(!fake.swap().off().unwrap().was_on && !path.exists());
}

#[test]
fn a_file_that_others_put_there_is_left_alone() {
    let fake = Fake::new();
    let path = fake.root().join("file");
    let request = Request {
        file: Some(path.clone()),
        ..mib(2)
    };
    for foreign in ["", "short", &"x".repeat(5000)] {
        fake.swap().on(&request).unwrap();
        fake.write("proc/swaps", "Filename\n");
        fake.write("file", foreign);
        is_foreign(&fake);
        assert_eq!(fake.read("file"), foreign);
        // Where a file of this name is, none is made.
        let error = fake.swap().on(&request).unwrap_err();
        assert!(error.to_string().contains("a file of this name"), "{error}");
        assert!(!fake.root().join(RECORD).exists());
        fake.remove("file");
    }
    fake.swap().on(&request).unwrap();
    fake.write("proc/swaps", "Filename\n");
    fake.remove("file");
    std::os::unix::fs::symlink(fake.dev().join("zram1"), &path).unwrap();
    is_foreign(&fake);
}

#[test]
fn a_file_that_lost_its_name_while_it_was_on() {
    let fake = Fake::new();
    let request = Request {
        file: Some(fake.root().join("file")),
        ..mib(2)
    };
    fake.swap().on(&request).unwrap();
    fake.remove("file");
    let swaps = fake.read("proc/swaps");
    fake.write(
        "proc/swaps",
        &swaps.replace("/file ", "/file\\040(deleted) "),
    );
    let error = fake.swap().off().unwrap_err();
    assert!(
        error.to_string().contains("was removed while it was on"),
        "{error}"
    );
    assert!(fake.root().join(RECORD).exists());
}

#[test]
fn a_record_that_nobody_understands_is_left_to_the_user() {
    let fake = Fake::new();
    fake.write(RECORD, "something\n");
    for error in [
        fake.swap().on(&mib(64)).unwrap_err(),
        fake.swap().off().unwrap_err(),
    ] {
        assert!(error.to_string().contains("run/swap"), "{error}");
    }
    assert_eq!(fake.removed(), "");
    assert!(fake.swap().status().is_ok());
}
