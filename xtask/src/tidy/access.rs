//! Rule: some files of other processes make the reader wait for a lock of that process. Only the
//! access worker (`pagetables::access`) opens them, so nothing waits for another process without a
//! deadline.

use super::sources::Source;

/// Files that may open them: the access worker, and the worker process that opens what is
/// requested.
const PLACES: [&str; 2] = [
    "crates/pagetables/src/access.rs",
    "crates/pagetables/src/access/",
];
/// Other files that may, each with the reason why nothing waits there.
const OTHERS: [&str; 2] = [
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
const FILES: [&str; 18] = [
    "auxv",
    "clear_refs",
    "cmdline",
    "cwd",
    "environ",
    "exe",
    "fd",
    "io",
    "map_files",
    "maps",
    "mem",
    "ns",
    "numa_maps",
    "pagemap",
    "root",
    "smaps",
    "smaps_rollup",
    "stat",
];

/// Finds paths of such files made from a process id, outside of tests.
pub(super) fn problems(files: &[Source]) -> Vec<String> {
    let is_product = |file: &&Source| {
        PRODUCT.iter().any(|folder| file.path.starts_with(folder))
            && !PLACES.iter().any(|place| file.path.starts_with(place))
            && !file.path.contains("tests")
            && !OTHERS.contains(&file.path.as_str())
    };
    let mut found = Vec::new();
    for file in files.iter().filter(is_product) {
        let product = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in product.lines().enumerate() {
            let comment = line.trim_start().starts_with("//");
            if let Some(name) = named(line).filter(|_| !comment) {
                found.push(format!(
                    "{}:{}: /proc/PID/{name} may wait without end: read it by pagetables::access",
                    file.path,
                    number + 1
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
    let (_, behind) = behind.split_once("}/")?;
    let (path, _) = behind.split_once('"')?;
    let parts: Vec<&str> = path.split('/').collect();
    FILES.into_iter().find(|name| parts.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_other_processes_are_found() {
        let line = |line: &str| named(line);
        assert_eq!(
            line(r#"File::open(format!("/proc/{pid}/pagemap"))"#),
            Some("pagemap")
        );
        assert_eq!(line(r#"format!("/proc/{}/ns/user", pid)"#), Some("ns"));
        for fine in [
            r#"read("/proc/self/stat")"#,
            r#"format!("/proc/{pid}/status")"#,
            r#"format!("/proc/{pid}")"#,
            r#"format!("{name}/maps")"#,
        ] {
            assert_eq!(line(fine), None, "{fine}");
        }
    }
}
