//! The real backings: a memfd and an unnamed file.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU16;

use rustix::fs::{MemfdFlags, memfd_create};

use super::{WARM, assert_holds, page};
use crate::store::{Backing, Compress, DiskBacking, MemBacking, Options, RefCounts, Store, Tier};

const SLABS: u64 = 8;

fn counts() -> Box<dyn RefCounts> {
    let counts: Vec<_> = (0..SLABS * 2048).map(|_| AtomicU16::new(0)).collect();
    Box::new(counts)
}

fn tier(backing: impl Backing + 'static) -> Tier {
    Tier {
        backing: Box::new(backing),
        refs: counts(),
    }
}

fn memfd() -> File {
    File::from(memfd_create("pagetide-test", MemfdFlags::CLOEXEC).unwrap())
}

fn options(pool_slabs: u64) -> Options {
    let bytes = 128 * 1024;
    Options {
        compress: Compress::None,
        pool_max: pool_slabs * bytes,
        file_max: SLABS * bytes,
    }
}

/// Puts 128 pages of noise, frees all but the first, and gives back what is idle: `blocks`
/// before and after, in bytes.
fn blocks_around_shrink(store: &mut Store, file: &File) -> (u64, u64) {
    let seeds = (0..128).map(|n| n * 4 + 1);
    let stored: Vec<_> = seeds
        .map(|seed| (store.put(&page(seed), WARM).unwrap(), seed))
        .collect();
    let blocks = || file.metadata().unwrap().blocks() * 512;
    let before = blocks();
    stored[1..].iter().for_each(|(place, _)| store.free(*place));
    let given = store.shrink();
    assert_holds(store, stored[0].0, stored[0].1);
    let after = blocks();
    assert!(
        given >= before - after,
        "{given} said to be given back, {before} -> {after}"
    );
    (before, after)
}

#[test]
fn punched_memory_is_given_back_page_by_page() {
    let file = memfd();
    let pool = tier(MemBacking(file.try_clone().unwrap()));
    let mut store = Store::new(pool, None, options(SLABS));
    let (before, after) = blocks_around_shrink(&mut store, &file);
    assert_eq!((before, after), (128 * 4096, 4096));
    assert_eq!(store.used_bytes(), after);
}

#[test]
fn punched_disk_is_given_back_slab_by_slab() {
    let disk = DiskBacking::create(&std::env::temp_dir()).unwrap();
    let file = disk.file().try_clone().unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let pool = tier(MemBacking(memfd()));
    let mut store = Store::new(pool, Some(tier(disk)), options(0));
    let (before, after) = blocks_around_shrink(&mut store, &file);
    // File systems may count their own blocks too.
    assert!(
        before >= 4 * 128 * 1024 && before - after >= 3 * 128 * 1024,
        "{before} -> {after}"
    );
}

#[test]
fn a_directory_that_cannot_hold_the_file_is_refused() {
    assert!(DiskBacking::create(Path::new("/proc")).is_err());
    assert!(DiskBacking::create(Path::new("/nonexistent/pagetide")).is_err());
}

#[test]
fn a_successor_over_the_same_memory_reads_the_same_pages() {
    let file = memfd();
    let open = || {
        let pool = tier(MemBacking(file.try_clone().unwrap()));
        Store::new(
            pool,
            None,
            Options {
                compress: Compress::Tiered,
                ..options(SLABS)
            },
        )
    };
    let mut first = open();
    let stored: Vec<_> = (0..60)
        .map(|seed| (first.put(&page(seed), WARM).unwrap(), seed))
        .collect();
    drop(first);
    let mut second = open();
    let found = second.rebuild(stored.iter().map(|(place, _)| *place));
    assert_eq!((found.references, found.slots, found.refused), (60, 45, 0));
    let blocks = || file.metadata().unwrap().blocks() * 512;
    assert_eq!(second.used_bytes(), blocks());
    // What the first had not yet told anybody about when it died goes back.
    let halves = stored.len() / 2;
    let before = blocks();
    open().rebuild(stored[..halves].iter().map(|(place, _)| *place));
    assert!(blocks() < before, "leaked slots keep their memory");
    let stored = &stored[..halves];
    second.rebuild(stored.iter().map(|(place, _)| *place));
    second.put(&page(61), WARM).unwrap();
    for (place, seed) in stored {
        assert_holds(&mut second, *place, *seed);
    }
}
