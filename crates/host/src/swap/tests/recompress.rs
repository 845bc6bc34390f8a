//! Compressing once more: over a tree that looks like the kernel's. (On a kernel that has it: `tests/guest/54-recompress.sh`.)

use std::time::Duration;

use super::*;

const MINUTES: Duration = Duration::from_secs(600);

fn with_zstd() -> Request {
    Request {
        recompress: Some("zstd".to_owned()),
        ..mib(64)
    }
}

/// A zram of two algorithms.
fn able() -> Fake {
    let fake = Fake::new();
    fake.write("sys/block/zram1/comp_algorithm", "[lz4] zstd\n");
    for name in ["recomp_algorithm", "idle", "recompress"] {
        fake.write(&format!("sys/block/zram1/{name}"), "");
    }
    fake
}

#[test]
fn what_has_lain_there_for_long_is_compressed_once_more() {
    let fake = able();
    fake.swap().on(&with_zstd()).unwrap();
    assert_eq!(fake.zram("recomp_algorithm"), "algo=zstd priority=1");
    // As the kernel tells it then.
    fake.write("sys/block/zram1/recomp_algorithm", "#1: lz4 [zstd] \n");
    let status = fake.swap().status().unwrap();
    let compressed = status.areas[1].compressed.as_ref().unwrap();
    assert_eq!(compressed.recompress.as_deref(), Some("zstd"));

    let done = fake.swap().recompress(MINUTES, &mut |_, _| true).unwrap();
    assert_eq!(
        (fake.zram("idle"), fake.zram("recompress")),
        ("600".to_owned(), "type=idle max_pages=65536".to_owned())
    );
    assert_eq!(
        (
            done.algorithm.as_str(),
            done.original_bytes,
            done.memory_bytes
        ),
        ("zstd", 8192, 4096)
    );
    assert_eq!(done.won_bytes, 0, "nothing was compressed here");
    // The kernel tells whole seconds apart: what is younger stays.
    for (age, told) in [(Duration::ZERO, "all"), (Duration::from_millis(1500), "2")] {
        fake.swap().recompress(age, &mut |_, _| true).unwrap();
        assert_eq!(fake.zram("idle"), told);
    }
}

#[test]
fn what_is_missing_for_it_is_said_and_nothing_is_left() {
    let fake = able();
    let nothing = fake
        .swap()
        .recompress(MINUTES, &mut |_, _| true)
        .unwrap_err();
    assert!(matches!(nothing, SwapError::NothingOn { .. }), "{nothing}");
    fake.swap().on(&mib(64)).unwrap();
    let one = fake
        .swap()
        .recompress(MINUTES, &mut |_, _| true)
        .unwrap_err();
    assert!(
        one.is_missing() && one.hint().contains("--recompress zstd"),
        "{one}"
    );
    assert_eq!(fake.zram("recompress"), "");

    let fake = able();
    fake.remove("sys/block/zram1/recomp_algorithm");
    let kernel = fake.swap().on(&with_zstd()).unwrap_err();
    assert!(
        kernel.is_missing() && kernel.to_string().contains("CONFIG_ZRAM_MULTI_COMP"),
        "{kernel}"
    );
    assert_eq!((fake.removed().as_str(), fake.calls().len()), ("1", 0));
    assert!(!fake.swap().record_path().exists());

    let fake = able();
    let slip = Request {
        recompress: Some("zsdt".to_owned()),
        ..mib(64)
    };
    let slip = fake.swap().on(&slip).unwrap_err();
    assert!(
        slip.is_bad_request() && slip.to_string().contains("zsdt"),
        "{slip}"
    );
    // The story: the hint was to leave out an option that nobody had given.
    let unknown = Request {
        recompress: Some("842".to_owned()),
        ..mib(64)
    };
    let unknown = fake.swap().on(&unknown).unwrap_err();
    assert!(
        unknown.hint().contains("leave --recompress out"),
        "{unknown}"
    );
    let file = Request {
        file: Some(fake.root().join("file")),
        ..with_zstd()
    };
    let file = fake.swap().on(&file).unwrap_err();
    assert!(
        file.is_bad_request() && file.hint().contains("--recompress"),
        "{file}"
    );
}
