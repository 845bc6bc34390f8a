//! The kernel modules that a guest loads, each after the modules that it needs. A module's file
//! names these, so the index of depmod(8) is not needed. Modules that are built into the kernel are
//! not loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::commands;

/// A module, ready to be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Finds these modules, and those that they need, in the kernel unpacked at `package`. Returns them
/// in the order in which they can be loaded.
pub(super) fn load(package: &Path, names: &[&str]) -> Result<Vec<Module>, String> {
    let mut files = BTreeMap::new();
    // Debian 13 has them below /usr.
    let folders = ["lib/modules", "usr/lib/modules"].map(|folder| package.join(folder));
    let [first, second] = folders;
    let folder = if second.is_dir() { second } else { first };
    find(&folder, &mut files)?;
    let mut builtin = String::new();
    for version in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        // Without this list, a built-in module is reported as missing, with its name.
        builtin +=
            &std::fs::read_to_string(version.path().join("modules.builtin")).unwrap_or_default();
    }
    let read = |name: &str| match files.get(name) {
        Some(path) => unpack(path).map(Some),
        None if is_builtin(&builtin, name) => Ok(None),
        None => Err(format!(
            "{} has no module {name}, and does not list it as built in",
            folder.display()
        )),
    };
    order(names, read)
}

/// Adds every module below `folder` by its name.
fn find(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            find(&path, files)?;
        } else if let Some((stem, "" | ".xz")) =
            entry.file_name().to_string_lossy().split_once(".ko")
        {
            files.insert(stem.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn unpack(path: &Path) -> Result<Vec<u8>, String> {
    if path.extension().is_some_and(|end| end == "xz") {
        let args = ["-dc".as_ref(), path.as_os_str()];
        return commands::output("xz", args, Path::new("/"), Duration::from_secs(60));
    }
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn is_builtin(list: &str, name: &str) -> bool {
    let stem = |line: &str| {
        let file = line.rsplit('/').next().unwrap_or(line);
        file.strip_suffix(".ko").unwrap_or(file).replace('-', "_")
    };
    list.lines().any(|line| stem(line) == name)
}

/// Orders the modules of `names` and those that they need, each after what it needs. `read` returns
/// a module's bytes, or `None` if it is built in.
fn order(
    names: &[&str],
    read: impl Fn(&str) -> Result<Option<Vec<u8>>, String>,
) -> Result<Vec<Module>, String> {
    let mut ready: Vec<Module> = Vec::new();
    // A module is popped twice: first to push what it needs above it, then to append it to the
    // result.
    let mut stack: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    stack.extend(names.iter().rev().map(|name| ((*name).to_owned(), None)));
    while let Some((name, bytes)) = stack.pop() {
        if ready.iter().any(|module| module.name == name) {
            continue;
        }
        if let Some(bytes) = bytes {
            ready.push(Module { name, bytes });
            continue;
        }
        if stack
            .iter()
            .any(|(below, bytes)| *below == name && bytes.is_some())
        {
            return Err(format!("module {name} needs itself"));
        }
        if let Some(bytes) = read(&name)? {
            let needed = depends(&bytes);
            stack.push((name, Some(bytes)));
            stack.extend(needed.into_iter().map(|name| (name, None)));
        }
    }
    Ok(ready)
}

/// Returns the modules that a module needs, from its property `depends=a,b`, which ends with a zero
/// byte.
fn depends(module: &[u8]) -> Vec<String> {
    let key = b"depends=";
    let property = module
        .split(|byte| *byte == 0)
        .find_map(|text| text.strip_prefix(key));
    String::from_utf8_lossy(property.unwrap_or_default())
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &[&str], all: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let read = |name: &str| match all.iter().find(|(known, _)| *known == name) {
            Some((_, "builtin")) => Ok(None),
            Some((_, needs)) => Ok(Some(
                format!("\x7fELF\0a=b\0depends={needs}\0").into_bytes(),
            )),
            None => Err(format!("no {name}")),
        };
        order(wanted, read).map(|found| found.into_iter().map(|module| module.name).collect())
    }

    #[test]
    fn a_module_comes_after_what_it_needs_and_once() {
        let all = [
            ("zram", "zsmalloc,lz4-compress"),
            ("zsmalloc", "base"),
            ("lz4_compress", "base"),
            ("base", "core"),
            ("core", "builtin"),
        ];
        let found = names(&["base", "zram"], &all).unwrap();
        assert_eq!(found, ["base", "lz4_compress", "zsmalloc", "zram"]);
        assert_eq!(names(&["core"], &all), Ok(vec![]));
    }

    #[test]
    fn a_missing_module_and_a_cycle_are_errors() {
        assert_eq!(names(&["a"], &[("a", "b")]), Err("no b".to_owned()));
        let circle = names(&["a"], &[("a", "b"), ("b", "a")]);
        assert_eq!(circle, Err("module a needs itself".to_owned()));
    }

    #[test]
    fn a_module_that_is_built_in_is_known_by_its_file() {
        let list = "kernel/lib/lz4/lz4-decompress.ko\nkernel/fs/fuse/fuse.ko\n";
        assert!(is_builtin(list, "lz4_decompress"));
        assert!(!is_builtin(list, "lz4"));
    }
}
