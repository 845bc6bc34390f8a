//! Limits of tenants as the kernel has them: lowered below what is in use, beside page cache, and what it does not take.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::wait;
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
/// What anything here may take beside a busy machine.
const SOON: Duration = Duration::from_secs(60);

const MAX: &str = "memory.limit_in_bytes";
const USAGE: &str = "memory.usage_in_bytes";

/// What a file of the tenant's group (version 1) says, bytes.
fn of_kernel(tree: &Tree, tenant: &str, file: &str) -> u64 {
    let text = std::fs::read_to_string(tree.group(tenant).join(file));
    let text = text.unwrap_or_else(|error| panic!("{tenant}/{file}: {error}"));
    text.trim().parse().expect("a number")
}

/// A file of so many MiB that is in nobody's page cache.
fn file(folder: &TempDir, mib: usize) -> String {
    let file = folder.file("data");
    std::fs::write(&file, vec![7; mib << 20]).expect("there is room");
    file
}

/// Has a tenant read it: cache is whose who reads it first.
fn read_by(tree: &Tree, tenant: &str, file: &str) {
    let script = format!(
        "dd of={file} oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null; cat {file} > /dev/null"
    );
    let words = ["sh", "-c", &script].map(str::to_owned);
    let read = Run::new(tree.inside(tenant).into_iter().chain(words)).finish(SOON);
    assert!(read.status.success(), "{}", read.stderr);
}

/// (The story: what was above a lowered limit was page cache, which was left to the kernel, to drop at its wall; and no wall was put, as too much was
/// charged. It was said to be limited, and grew without end.)
#[test]
fn a_lowered_limit_takes_its_place_where_cache_is_above_it() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 96);
    // What one with others below it has read itself is charged to none of these.
    ["a", "b", "b/c"].iter().for_each(|name| tree.make(name));
    for tenant in ["a", "b"] {
        let sleeper = Sleeper::start(tree.inside(tenant), 16);
        read_by(&tree, tenant, &file);
        assert!(of_kernel(&tree, tenant, USAGE) > 100 * MIB);
        tree.write(&format!("{tenant}/memory.max"), "48m");
        wait::until("its wall stands", SOON, || {
            of_kernel(&tree, tenant, MAX) == 48 * MIB
        });
        assert!(of_kernel(&tree, tenant, USAGE) <= 48 * MIB);
        let out = sleeper.status("VmSwap");
        assert!(out < 4 * MIB, "{out} bytes left though cache was there");
        let _ = sleeper.touch();
    }
}

/// The same for all tenants together: of their budget.
#[test]
fn a_lowered_budget_takes_its_place_where_cache_is_above_it() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let (folder, tree) = (TempDir::new(), Tree::serve(&["--age-every", "1s"]));
    let file = file(&folder, 96);
    ["a", "b"].iter().for_each(|name| tree.make(name));
    let sleeper = Sleeper::start(tree.inside("a"), 16);
    read_by(&tree, "b", &file);
    tree.write("memory.max", "48m");
    wait::until("its wall stands", SOON, || {
        of_kernel(&tree, "", MAX) == 48 * MIB
    });
    let out = sleeper.status("VmSwap");
    assert!(out < 4 * MIB, "{out} bytes left though cache was there");
    let _ = sleeper.touch();
}
