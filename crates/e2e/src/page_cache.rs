//! Files that tenants read: their page cache is charged to whoever reads them first.

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use crate::guard::Run;
use crate::temp::TempDir;
use crate::tenants::Tree;
use crate::wait;

/// What anything here may take beside a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A file of so many MiB that is in nobody's page cache. (The story: up to 5 MiB of 64 were under writeback or on their way to a list when they were to be
/// dropped, and stayed the test's own.)
///
/// # Panics
/// If it cannot be written, or stays in the cache.
#[must_use]
pub fn file(folder: &TempDir, mib: usize) -> String {
    let name = folder.file("data");
    let mut file = File::create(&name).expect("a file");
    let block = vec![7; 1 << 20];
    (0..mib).for_each(|_| file.write_all(&block).expect("there is room"));
    wait::until("nobody has it in page cache", SOON, || {
        file.sync_all().expect("it is written");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a file");
        cached(&name) == "0"
    });
    name
}

/// How many pages of a file are in page cache, by fincore(1).
fn cached(file: &str) -> String {
    let words = ["--noheadings", "--output", "PAGES", file];
    let told = Command::new("fincore").args(words).output();
    let told = told.expect("util-linux is there").stdout;
    String::from_utf8_lossy(&told).trim().to_owned()
}

/// Reads it when it is in nobody's cache any more: cache is whose who reads it first.
#[must_use]
pub fn reading(file: &str) -> String {
    format!(
        "dd of={file} oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null; cat {file} > /dev/null"
    )
}

/// Has a tenant read it.
pub fn read_by(tree: &Tree, tenant: &str, file: &str) {
    let script = reading(file);
    let words = ["sh", "-c", &script].map(str::to_owned);
    let read = Run::new(tree.inside(tenant).into_iter().chain(words)).finish(SOON);
    assert!(read.status.success(), "{}", read.stderr);
}
