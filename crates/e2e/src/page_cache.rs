//! Files that tenants read: their page cache is charged to the tenant that reads them first.

use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use crate::guard::Run;
use crate::temp::TempDir;
use crate::tenants::Tree;
use crate::wait;

/// Time limit of each operation, also on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Makes a file of `mib` MiB with no pages in the page cache; returns its path.
///
/// Regression: up to 5 of 64 MiB stayed charged to the test. These pages could not be dropped, as
/// they were under writeback or were just being put on an LRU list.
///
/// # Panics
/// If the file cannot be written, or stays in the page cache.
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

/// Number of pages of a file in the page cache, by fincore(1).
fn cached(file: &str) -> String {
    let words = ["--noheadings", "--output", "PAGES", file];
    let reported = Command::new("fincore").args(words).output();
    let reported = reported.expect("util-linux is there").stdout;
    String::from_utf8_lossy(&reported).trim().to_owned()
}

/// A shell command that drops a file from the page cache and then reads it: the pages are charged
/// to the group of the process that reads them.
#[must_use]
pub fn reading(file: &str) -> String {
    format!(
        "dd of={file} oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null; cat {file} > /dev/null"
    )
}

/// Makes a process in a tenant read the file.
pub fn read_by(tree: &Tree, tenant: &str, file: &str) {
    let script = reading(file);
    let words = ["sh", "-c", &script].map(str::to_owned);
    let read = Run::new(tree.inside(tenant).into_iter().chain(words)).finish(SOON);
    assert!(read.status.success(), "{}", read.stderr);
}
