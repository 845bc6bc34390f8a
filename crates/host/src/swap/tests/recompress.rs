//! Compressing once more: over a tree that looks like the kernel's. (On a kernel that has it: `tests/guest/54-recompress.sh`.)

use std::time::{Duration, Instant};

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

/// Calls that win nothing while pages that do not become smaller may have been all that they tried.
#[test]
fn what_does_not_become_smaller_does_not_hide_what_does() {
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
        fake.swap().recompress(MINUTES, &mut count).unwrap();
        made
    };
    // (Of the last one nobody is told.) Four calls go through a GiB.
    assert_eq!((calls(0), calls(65_536), calls(200_000)), (0, 1, 3));
}

/// The story, of a reading: who waited for the lock of a recompression, for as long as it is patient, hardly ever got it.
#[test]
fn whoever_switches_swap_comes_between_two_calls() {
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
        let _ = fake.swap().recompress(MINUTES, &mut go_on);
        assert!(waits.join().expect("it ends"), "it had its turn");
    });
}
