//! Rule: files of other processes that the kernel prints under a lock of the process are opened in one place, by an access
//! worker (`pagetables::access`): nothing waits on another process without a deadline.

use super::sources::Source;

/// The one place; and the worker that opens what it is told to.
const PLACES: [&str; 2] = [
    "crates/pagetables/src/access.rs",
    "crates/pagetables/src/access/",
];
/// Elsewhere, with why nothing waits.
const OTHERS: [&str; 2] = [
    // It opens clear_refs, and the open waits for nothing.
    "crates/host/src/ages/claim.rs",
    // It asks about root's processes alone.
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
/// What waits for the memory lock or for the end of an exec (list and kernels: `pagetables::access`).
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

/// Paths of such files that are made from a number of a process, outside of tests.
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

/// The file of another process that a line's path `/proc/{...}/NAME` names, if it is one of [`FILES`].
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
