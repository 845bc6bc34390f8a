//! Switches swap on and off in trees that imitate the kernel's.

pub(super) mod fake;
mod left;
mod recompress;
mod refused;
mod users;

use super::*;
use crate::system::swap::SwapKind;
use fake::Fake;

/// A request for an area of so many MiB.
fn mib(mib: u64) -> Request {
    Request {
        size: Some(mib << 20),
        ..Request::default()
    }
}

#[test]
fn on_and_off_with_zram() {
    let fake = Fake::new();
    let made = fake.swap().on(&Request::default()).unwrap();
    assert_eq!(made.path, fake.dev().join("zram1"));
    // Half of 1000 MiB, and the fastest algorithm of those that the kernel offers.
    assert_eq!((made.kind, made.size_bytes), (SwapKind::Zram, 500 << 20));
    assert_eq!(made.algorithm.as_deref(), Some("lz4"));
    assert_eq!(made.page_cluster, Some(3));
    assert_eq!(fake.zram("disksize"), (500u64 << 20).to_string());
    assert_eq!(fake.zram("comp_algorithm"), "lz4");
    assert_eq!(fake.calls(), ["on zram1 100"]);

    let status = fake.swap().status().unwrap();
    let whose: Vec<_> = status
        .areas
        .iter()
        .map(|area| (area.kind, area.ours))
        .collect();
    assert_eq!(whose, [(SwapKind::Zram, false), (SwapKind::Zram, true)]);
    let compressed = status.areas[1].compressed.as_ref().unwrap();
    assert_eq!(
        (compressed.original_bytes, compressed.memory_bytes),
        (8192, 4096)
    );
    assert_eq!(compressed.ratio, Some(2.0));
    assert!(status.wants_page_cluster_0() && status.left.is_empty());

    let removed = fake.swap().off().unwrap();
    assert!(removed.was_on && removed.path == made.path);
    assert_eq!(fake.calls(), ["on zram1 100", "off zram1"]);
    assert_eq!(fake.removed(), "1");
    let again = fake.swap().off().unwrap_err();
    assert!(matches!(again, SwapError::NothingOn { .. }), "{again}");
    assert!(!fake.swap().record_path().exists());
}

#[test]
fn on_and_off_with_a_file() {
    let fake = Fake::new();
    let path = fake.root().join("a swap\nfile\\");
    let request = Request {
        file: Some(path.clone()),
        ..mib(2)
    };
    let made = fake.swap().on(&request).unwrap();
    let meta = std::fs::metadata(&made.path).unwrap();
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    assert_eq!(
        (meta.len(), meta.permissions().mode() & 0o777),
        (2 << 20, 0o600)
    );
    assert!(meta.blocks() * 512 >= 2 << 20, "it has holes");
    assert!(fake.swap().status().unwrap().areas[1].ours);
    assert_eq!(fake.swap().off().unwrap().kind, SwapKind::File);
    assert!(!path.exists() && fake.calls().len() == 2);
}

#[test]
fn owners_see_each_others_areas_only_in_the_status() {
    let fake = Fake::new();
    fake.swap_of("demo").on(&mib(64)).unwrap();
    let error = fake.swap().off().unwrap_err();
    assert!(matches!(error, SwapError::NothingOn { .. }), "{error}");
    assert!(fake.swap().status().unwrap().areas[1].ours);
    fake.swap_of("demo").off().unwrap();
}

#[test]
fn two_commands_at_once_exclude_each_other() {
    let fake = Fake::new();
    let swap = fake.swap();
    let turn = swap.begin("x").unwrap();
    let error = fake.swap().on(&mib(64)).unwrap_err();
    assert!(matches!(error, SwapError::Running), "{error}");
    drop(turn);
    fake.swap().on(&mib(64)).unwrap();
}
