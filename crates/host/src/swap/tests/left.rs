//! Tests of what killed commands, reboots and other programs leave behind.

use super::fake::Fake;
use super::*;

/// Path of the record in the trees.
const RECORD: &str = "run/swap";

/// Checks that `swap off` reports the area as another program's and removes nothing but the record.
fn assert_not_ours(fake: &Fake) {
    let error = fake.swap().off().unwrap_err();
    assert!(matches!(error, SwapError::NotOurs { .. }), "{error}");
    assert_eq!(fake.removed(), "");
    assert!(!fake.root().join(RECORD).exists());
}

/// Trees in which swap was on, and another program switched it off.
fn switched_off() -> Fake {
    let fake = Fake::new();
    fake.swap().on(&mib(64)).unwrap();
    fake.write("proc/swaps", "Filename\n/dev/zram0 partition 1024 0 100\n");
    fake
}

#[test]
fn an_area_switched_off_by_others_is_removed() {
    let fake = switched_off();
    assert_eq!(fake.swap().status().unwrap().left.len(), 1);
    let removed = fake.swap().off().unwrap();
    assert!(!removed.was_on && fake.removed() == "1");
    assert_eq!(fake.calls(), ["on zram1 100"]);
}

#[test]
fn the_next_on_removes_a_leftover_area() {
    let fake = switched_off();
    let made = fake.swap().on(&mib(64)).unwrap();
    assert!(
        made.removed
            .is_some_and(|reported| reported.contains("zram1"))
    );
    assert_eq!(fake.removed(), "1");
}

#[test]
fn a_device_without_a_size_is_removed() {
    let fake = switched_off();
    fake.write("sys/block/zram1/disksize", "0\n");
    fake.swap().off().unwrap();
    assert_eq!(fake.removed(), "1");
}

/// Trees with a device that has a size and was never written to.
fn blank() -> Fake {
    let fake = switched_off();
    fake.write("dev/zram1", &"\0".repeat(4096));
    fake.write("sys/block/zram1/mm_stat", "0 0 0 0 0 0 0\n");
    fake
}

/// Regression: on a busy machine `swap on` was killed after it had set the size and before it wrote
/// the header. The device was then taken for another program's.
#[test]
fn a_device_without_a_header_is_removed() {
    let fake = blank();
    fake.swap().off().unwrap();
    assert_eq!(fake.removed(), "1");
}

#[test]
fn a_blank_device_of_another_size_is_kept() {
    let fake = blank();
    fake.write("sys/block/zram1/disksize", "4096\n");
    assert_not_ours(&fake);
}

#[test]
fn an_empty_device_without_a_disk_number_is_kept() {
    let fake = switched_off();
    let record = fake.read(RECORD).replace("diskseq 29\n", "");
    fake.write(RECORD, &record);
    fake.write("sys/block/zram1/disksize", "0\n");
    assert_not_ours(&fake);
}

#[test]
fn an_area_with_another_header_is_kept() {
    let fake = switched_off();
    fake.write("dev/zram1", &"x".repeat(4096));
    assert_not_ours(&fake);
}

#[test]
fn a_later_device_of_the_same_name_is_kept() {
    let fake = switched_off();
    fake.write("sys/block/zram1/diskseq", "30\n");
    assert_not_ours(&fake);
}

#[test]
fn a_device_that_is_gone_is_forgotten() {
    let fake = switched_off();
    fake.remove("sys/block/zram1");
    let error = fake.swap().off().unwrap_err();
    assert!(error.to_string().contains("no longer exists"), "{error}");
    assert!(!fake.root().join(RECORD).exists());
}

#[test]
fn no_zram_survives_a_boot() {
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
fn a_file_of_an_earlier_boot_is_removed() {
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
fn a_file_of_another_program_is_kept() {
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
        assert_not_ours(&fake);
        assert_eq!(fake.read("file"), foreign);
        // Swap is not switched on in a file that exists already.
        let error = fake.swap().on(&request).unwrap_err();
        assert!(error.to_string().contains("a file of this name"), "{error}");
        assert!(!fake.root().join(RECORD).exists());
        fake.remove("file");
    }
    fake.swap().on(&request).unwrap();
    fake.write("proc/swaps", "Filename\n");
    fake.remove("file");
    std::os::unix::fs::symlink(fake.dev().join("zram1"), &path).unwrap();
    assert_not_ours(&fake);
}

#[test]
fn a_file_removed_while_active_is_reported() {
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
        error.to_string().contains("was removed while swap was on"),
        "{error}"
    );
    assert!(fake.root().join(RECORD).exists());
}

#[test]
fn an_unknown_record_is_left_to_the_user() {
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
