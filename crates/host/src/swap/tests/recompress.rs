//! Recompression in trees that imitate the kernel's. (With a real kernel it is tested in
//! `tests/guest/54-recompress.sh`.)

use std::time::{Duration, Instant};

use super::*;

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// A request for a zram with a second algorithm.
fn with_zstd() -> Request {
    Request {
        recompress: Some("zstd".to_owned()),
        ..mib(64)
    }
}

/// Trees of a kernel in which a zram can have two algorithms.
fn able() -> Fake {
    let fake = Fake::new();
    fake.write("sys/block/zram1/comp_algorithm", "[lz4] zstd\n");
    for name in ["recomp_algorithm", "idle", "recompress"] {
        fake.write(&format!("sys/block/zram1/{name}"), "");
    }
    fake
}

#[test]
fn idle_pages_are_recompressed() {
    let fake = able();
    fake.swap().on(&with_zstd()).unwrap();
    assert_eq!(fake.zram("recomp_algorithm"), "algo=zstd priority=1");
    // The kernel's text once the second algorithm is set.
    fake.write("sys/block/zram1/recomp_algorithm", "#1: lz4 [zstd] \n");
    let status = fake.swap().status().unwrap();
    let compressed = status.areas[1].compressed.as_ref().unwrap();
    assert_eq!(compressed.recompress.as_deref(), Some("zstd"));

    let done = fake
        .swap()
        .recompress(TEN_MINUTES, &mut |_, _| true)
        .unwrap();
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
    // The kernel compares whole seconds, so the age is rounded up: younger pages are not
    // recompressed.
    for (age, reported) in [(Duration::ZERO, "all"), (Duration::from_millis(1500), "2")] {
        fake.swap().recompress(age, &mut |_, _| true).unwrap();
        assert_eq!(fake.zram("idle"), reported);
    }
}

#[test]
fn missing_features_are_reported_and_nothing_stays() {
    let fake = able();
    let nothing = fake
        .swap()
        .recompress(TEN_MINUTES, &mut |_, _| true)
        .unwrap_err();
    assert!(matches!(nothing, SwapError::NothingOn { .. }), "{nothing}");
    fake.swap().on(&mib(64)).unwrap();
    let one = fake
        .swap()
        .recompress(TEN_MINUTES, &mut |_, _| true)
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
    // Regression: the hint was to leave out an option that the user had not given.
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

/// Calls without effect are followed by others for as long as incompressible pages can explain
/// them.
#[test]
fn incompressible_pages_do_not_stop_recompression() {
    let fake = able();
    fake.swap().on(&with_zstd()).unwrap();
    fake.write("sys/block/zram1/recomp_algorithm", "#1: lz4 [zstd] \n");
    let calls = |huge: u64| {
        let stat = format!("1073741824 500000000 500000000 0 0 0 0 {huge} 0\n");
        fake.write("sys/block/zram1/mm_stat", &stat);
        let mut made = 0;
        let mut count = |_, _| {
            made += 1;
            true
        };
        fake.swap().recompress(TEN_MINUTES, &mut count).unwrap();
        made
    };
    // 1 GiB takes four calls. (`count` is not called after the call that ends the recompression.)
    assert_eq!((calls(0), calls(65_536), calls(200_000)), (0, 1, 3));
}

/// Regression: a command that waited for the lock hardly ever got it during a recompression.
#[test]
fn other_commands_get_the_lock_between_two_calls() {
    let fake = able();
    fake.swap().on(&with_zstd()).unwrap();
    fake.write("sys/block/zram1/recomp_algorithm", "#1: lz4 [zstd] \n");
    let stat = format!("{} 1 1 0 0 0 0 {} 0\n", 1_u64 << 40, 1_u64 << 40);
    fake.write("sys/block/zram1/mm_stat", &stat);
    let lock = fake.swap().places.run.join("swap.lock");
    let end = std::sync::atomic::AtomicBool::new(false);
    let turns = || {
        let file = File::open(&lock).expect("it is there");
        let got = || flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let begin = Instant::now();
        while !got() && begin.elapsed() < PATIENCE {
            std::thread::sleep(POLL);
        }
        let is_in_time = begin.elapsed() < PATIENCE;
        end.store(true, std::sync::atomic::Ordering::Relaxed);
        is_in_time
    };
    std::thread::scope(|scope| {
        let waits = scope.spawn(turns);
        let mut go_on = |_, _| !end.load(std::sync::atomic::Ordering::Relaxed);
        let _ = fake.swap().recompress(TEN_MINUTES, &mut go_on);
        assert!(waits.join().expect("it ends"), "it had its turn");
    });
}
