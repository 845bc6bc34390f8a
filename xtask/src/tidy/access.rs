//! Rule: only the access worker (`pagetables::access`) opens those files of other processes that
//! make the reader wait for a lock of that process. So nothing waits for another process without a
//! deadline.

use super::sources::Source;

/// Files that may open them.
const PLACES: [&str; 4] = [
    // The access worker, and the worker process that opens what is requested.
    "crates/pagetables/src/access.rs",
    "crates/pagetables/src/access/",
    // It opens clear_refs, and that open does not wait.
    "crates/host/src/ages/claim.rs",
    // It reads only files of root's processes.
    "crates/daemon/src/control/peer.rs",
];
/// Crates of the product.
const PRODUCT: [&str; 5] = [
    "crates/cli/src/",
    "crates/daemon/src/",
    "crates/host/src/",
    "crates/pagetables/src/",
    "crates/python/src/",
];
/// Files that make a reader wait for the memory lock or for the end of an exec (list and kernels:
/// `pagetables::access`).
const FILES: &str = "auxv clear_refs cmdline cwd environ exe fd io map_files maps mem ns numa_maps \
                     pagemap root smaps smaps_rollup stat";

/// Finds paths of such files made from a process id, outside of tests.
pub(super) fn problems(files: &[Source]) -> Vec<String> {
    let begins = |file: &Source, with: &[&str]| with.iter().any(|one| file.path.starts_with(one));
    let is_checked = |file: &&Source| {
        begins(file, &PRODUCT) && !begins(file, &PLACES) && !file.path.contains("tests")
    };
    let mut found = Vec::new();
    for file in files.iter().filter(is_checked) {
        for (number, line) in file.product_lines() {
            let is_comment = line.trim_start().starts_with("//");
            if let Some(name) = named(line).filter(|_| !is_comment) {
                found.push(format!(
                    "{}:{number}: /proc/PID/{name} may wait without end: read it by \
                     pagetables::access",
                    file.path
                ));
            }
        }
    }
    found
}

/// Returns the file that a line names by a path `/proc/{...}/NAME` of another process, if it is one
/// of [`FILES`].
fn named(line: &str) -> Option<&'static str> {
    let (_, behind) = line.split_once("\"/proc/{")?;
    let (path, _) = behind.split_once("}/")?.1.split_once('"')?;
    let parts: Vec<&str> = path.split('/').collect();
    FILES.split(' ').find(|name| parts.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_other_processes_are_found() {
        for (line, name) in [
            (
                r#"File::open(format!("/proc/{pid}/pagemap"))"#,
                Some("pagemap"),
            ),
            (r#"format!("/proc/{}/ns/user", pid)"#, Some("ns")),
            (r#"read("/proc/self/stat")"#, None),
            (r#"format!("/proc/{pid}/status")"#, None),
            (r#"format!("/proc/{pid}")"#, None),
            (r#"format!("{name}/maps")"#, None),
        ] {
            assert_eq!(named(line), name, "{line}");
        }
    }
}
