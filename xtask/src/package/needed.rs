//! The packages that a program needs, from the libraries that it names and the versions of their
//! symbols.
//!
//! Invariant: an unknown library or version is an error, it is never left out. The e2e test
//! `package` compares the result with dpkg-shlibdeps(1), which not every machine has.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::output;

/// A library: its file name, the name of its package, and the beginning of its symbols' versions.
const LIBRARIES: [(&str, &str, &str); 4] = [
    ("ld-linux-x86-64.so.2", "libc6", "GLIBC_"),
    ("libc.so.6", "libc6", "GLIBC_"),
    ("libgcc_s.so.1", "libgcc-s1", "GCC_"),
    ("libm.so.6", "libc6", "GLIBC_"),
];
/// Version name that a program with short relocations requires, and the glibc version that
/// introduced it.
const RELR: (&str, [u32; 2]) = ("GLIBC_ABI_DT_RELR", [2, 36]);

/// Returns the packages that a program needs, in the form of `Depends`.
///
/// # Errors
/// If objdump(1) fails, or if a library or version is not known.
pub(super) fn packages(program: &Path) -> Result<String, String> {
    let reported = output(Command::new("objdump").arg("-p").arg(program))?;
    of_objdump(&String::from_utf8_lossy(&reported))
}

fn of_objdump(reported: &str) -> Result<String, String> {
    let mut packages: BTreeMap<&str, [u32; 2]> = BTreeMap::new();
    let mut within = None;
    for line in reported.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["NEEDED", library] => {
                packages.entry(find(library)?.1).or_default();
            }
            ["required", "from", library] => within = Some(find(library.trim_end_matches(':'))?),
            // A program has no `Version definitions`.
            [_, _, _, symbol] if within.is_some() && line.trim().starts_with("0x") => {
                let (library, package, start) = within.unwrap_or_default();
                let version = version(symbol, start)
                    .ok_or(format!("{library} has {symbol}: nobody knows since when"))?;
                let most = packages.entry(package).or_default();
                *most = version.max(*most);
            }
            _ => {}
        }
    }
    let all: Vec<String> = packages
        .iter()
        .map(|(package, [major, minor])| match (major, minor) {
            (0, 0) => (*package).to_owned(),
            _ => format!("{package} (>= {major}.{minor})"),
        })
        .collect();
    Ok(all.join(", "))
}

fn find(library: &str) -> Result<(&'static str, &'static str, &'static str), String> {
    let found = LIBRARIES.iter().find(|(name, _, _)| *name == library);
    found.copied().ok_or(format!(
        "the program needs {library}: say in {} which package has it",
        file!()
    ))
}

/// Parses the version of a symbol: 2.3 for `GLIBC_2.3.4`.
fn version(symbol: &str, start: &str) -> Option<[u32; 2]> {
    if symbol == RELR.0 {
        return Some(RELR.1);
    }
    let mut parts = symbol.strip_prefix(start)?.split('.');
    let mut next = || parts.next()?.parse().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORTED: &str = "
Dynamic Section:
  NEEDED               libgcc_s.so.1
  NEEDED               libc.so.6
  INIT                 0x0000000000012000

Version References:
  required from libgcc_s.so.1:
    0x0b792650 0x00 09 GCC_3.0
    0x0d696910 0x00 03 GCC_4.2.0
  required from libc.so.6:
    0x069691b4 0x00 16 GLIBC_2.34
    0x06969198 0x00 15 GLIBC_2.8
";

    #[test]
    fn the_newest_version_of_each_package_counts() {
        let found = of_objdump(REPORTED).unwrap();
        assert_eq!(found, "libc6 (>= 2.34), libgcc-s1 (>= 4.2)");
        let more = format!("{REPORTED}    0x1 0x00 14 GLIBC_ABI_DT_RELR\n");
        assert!(of_objdump(&more).unwrap().starts_with("libc6 (>= 2.36)"));
        assert_eq!(of_objdump("  NEEDED  libc.so.6\n").unwrap(), "libc6");
        assert_eq!(of_objdump("").unwrap(), "");
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        let unknown = of_objdump("  NEEDED   libfuse3.so.3\n").unwrap_err();
        assert!(unknown.contains("libfuse3.so.3"), "{unknown}");
        let private = format!("{REPORTED}    0x1 0x00 14 GLIBC_PRIVATE\n");
        assert!(of_objdump(&private).unwrap_err().contains("GLIBC_PRIVATE"));
    }
}
