//! Files that tenants read: their page cache is charged to whoever reads them first.

use std::time::Duration;

use crate::guard::Run;
use crate::temp::TempDir;
use crate::tenants::Tree;

/// What anything here may take beside a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A file of so many MiB that is in nobody's page cache.
#[must_use]
pub fn file(folder: &TempDir, mib: usize) -> String {
    let file = folder.file("data");
    std::fs::write(&file, vec![7; mib << 20]).expect("there is room");
    file
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
