//! Tests: which zram device is chosen for writeback, in a directory tree that imitates the
//! kernel's.

use super::super::tests::fake::Fake;
use super::super::{Request, SwapError};
use super::*;

/// A tree with a single swap area: pagetide's own zram, with a disk behind it.
fn fake() -> Fake {
    let fake = Fake::new();
    fake.write("proc/swaps", "Filename Type Size Used Priority\n");
    fake.swap().on(&Request::default()).expect("room");
    fake.write("sys/block/zram1/writeback", "");
    fake.write("sys/block/zram1/backing_dev", "/dev/vdb\n");
    fake.write("sys/block/zram1/bd_stat", "  3 1 5\n");
    fake
}

/// Why no device is chosen: the error with its hint, and the error itself.
fn refusal(fake: &Fake, named: Option<&str>) -> (String, SwapError) {
    let named = named.map(|name| fake.dev().join(name));
    let error = Tier::of(&fake.swap(), named.as_deref()).expect_err("a refusal");
    (format!("{error}; {}", error.hint()), error)
}

#[test]
fn our_zram_with_a_disk_is_chosen() {
    let fake = fake();
    let mut tier = Tier::of(&fake.swap(), None).expect("it");
    assert_eq!(tier.path(), fake.dev().join("zram1"));
    let slot = |area, offset| Slot { area, offset };
    // If there is only one area, the area number in a slot does not matter.
    assert_eq!(tier.index(slot(3, 7)), Some(7));
    assert_eq!(tier.index(slot(0, 1 << 40)), None);
    let time = Duration::from_secs(60);
    let got = tier.write_back(&[4, 5, 9], time).expect("it");
    assert_eq!((got.requested, got.written, got.refused), (3, 0, None));
    assert_eq!(fake.zram("writeback"), "page_indexes=4-5 page_index=9");
    let status = fake.swap().status().expect("it");
    let behind = status.areas[0].compressed.as_ref().expect("zram");
    let behind = behind.backing.as_ref().expect("a disk");
    assert_eq!(
        (behind.held_bytes, behind.written_bytes),
        (3 << 12, 5 << 12)
    );
    assert!(tier.check().is_ok());
}

#[test]
fn a_removed_or_new_device_is_not_written_back() {
    let fake = fake();
    let mut tier = Tier::of(&fake.swap(), None).expect("it");
    fake.write("sys/block/zram1/diskseq", "30\n");
    assert!(tier.check().is_err(), "another device has its name");
    fake.write("sys/block/zram1/diskseq", "29\n");
    fake.write("proc/swaps", "Filename Type Size Used Priority\n");
    assert!(tier.check().is_err(), "it is not swapped to");
}

#[test]
fn missing_features_are_reported() {
    let fake = fake();
    fake.write("sys/block/zram1/backing_dev", "none\n");
    let (reported, error) = refusal(&fake, None);
    assert!(
        error.is_missing()
            && reported.contains("no disk behind it")
            && reported.contains("--backing"),
        "{reported}"
    );
    fake.remove("sys/block/zram1/writeback");
    let (reported, error) = refusal(&fake, None);
    assert!(
        error.is_missing() && reported.contains("CONFIG_ZRAM_WRITEBACK"),
        "{reported}"
    );
    let (reported, error) = refusal(&fake, Some("vdc"));
    assert!(
        error.is_bad_request() && reported.contains("is not a zram device"),
        "{reported}"
    );
}

#[test]
fn another_programs_zram_is_used_only_if_named() {
    let fake = Fake::new();
    for name in ["writeback", "backing_dev", "bd_stat", "disksize"] {
        fake.write(&format!("sys/block/zram0/{name}"), "1 1 1\n");
    }
    let (reported, error) = refusal(&fake, None);
    assert!(
        error.is_missing() && reported.contains("--write-back-from"),
        "{reported}"
    );
    let path = fake.dev().join("zram0");
    fake.write("dev/zram0", "");
    fake.write(
        "proc/swaps",
        &format!(
            "Filename Type Size Used Priority\n{} partition 1024 0 100\n",
            path.display()
        ),
    );
    let tier = Tier::of(&fake.swap(), Some(&path)).expect("it is named");
    assert_eq!(
        tier.index(Slot {
            area: 0,
            offset: 256
        }),
        Some(256)
    );
    assert_eq!(
        tier.index(Slot {
            area: 0,
            offset: 257
        }),
        None
    );
}

#[test]
fn a_kernel_without_writeback_leaves_nothing_behind() {
    let fake = Fake::new();
    let request = Request {
        backing: Some("/dev/null".into()),
        ..Request::default()
    };
    let error = fake.swap().on(&request).expect_err("no attribute");
    assert!(
        error.is_missing() && error.to_string().contains("CONFIG_ZRAM_WRITEBACK"),
        "{error}"
    );
    assert_eq!((fake.removed().as_str(), fake.calls().len()), ("1", 0));
    assert!(!fake.swap().record_path().exists());
    fake.write("sys/block/zram1/writeback", "");
    let error = fake.swap().on(&request).expect_err("no block device");
    assert!(
        error.is_bad_request() && error.hint().contains("losetup"),
        "{error}"
    );
}
