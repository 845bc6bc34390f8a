//! Builds what runs inside. What was built for the end-to-end tests goes there as it is, with the libraries that it names
//! (a static build of it all took a minute of a processor); the rest is static, for a guest has no libraries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::commands::{limited, output};
use super::files::GuestFile;
use super::{folder, target};
use crate::{e2e, root};

/// A whole release build on a small machine takes minutes.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const COMPILE_LIMIT: Duration = Duration::from_secs(300);
/// The C library of this machine, linked statically: musl would need a toolchain of its own, for
/// Rust as well as for C.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The folder of what was built.
pub(super) fn programs() -> Result<PathBuf, String> {
    let folder = folder()?.join("programs");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    Ok(folder)
}

/// A release build without optimisations that take minutes and that no guest's clock could show.
const PROFILE: &str = "guest";

/// The `pagetide` that users run, without what only a debugger reads, and the example of crate host that makes walls; with
/// their libraries.
pub(super) fn programs_of_tests() -> Result<Vec<GuestFile>, String> {
    let builds = match std::env::var_os("PAGETIDE_BUILT") {
        Some(_) => vec![],
        None => vec![e2e::release_build(), e2e::examples_build()],
    };
    for mut build in builds {
        let status = build.arg("--quiet").stdin(Stdio::null()).status();
        let status = status.map_err(|error| format!("cargo cannot be run: {error}"))?;
        if !status.success() {
            return Err(format!("cargo ended with {status}"));
        }
    }
    let (mut files, mut libraries) = (Vec::new(), BTreeSet::new());
    for built in [e2e::release_binary(), e2e::examples().join("wall")] {
        let name = built
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let stripped = programs()?.join(&name);
        let args = ["-o".as_ref(), stripped.as_os_str(), built.as_os_str()];
        output("strip", args, &root(), COMPILE_LIMIT)?;
        files.push(GuestFile::dynamic(&stripped, &format!("files/{name}"))?);
        libraries.extend(self::libraries(&built)?);
    }
    for library in libraries {
        files.push(GuestFile::dynamic(
            Path::new(&library),
            library.trim_start_matches('/'),
        )?);
    }
    Ok(files)
}

/// The paths of the libraries that a program or a library of this machine needs.
pub(super) fn libraries(of: &Path) -> Result<Vec<String>, String> {
    let told = output("ldd", [of.as_os_str()], &root(), COMPILE_LIMIT)?;
    Ok(libraries_of(&String::from_utf8_lossy(&told)))
}

/// The paths that ldd(1) names: behind an arrow, or alone (the loader). What has none is the kernel's.
fn libraries_of(told: &str) -> Vec<String> {
    let words = told.lines().filter_map(|line| {
        let line = line.split(" (0x").next()?.trim();
        Some(line.split("=> ").last()?.trim())
    });
    words
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect()
}

/// The program that touches pages as the simulator's tenants do.
pub(super) fn touches() -> Result<GuestFile, String> {
    program("touches", "--bin", "touches", "touches")
}

/// A program of this kind and name in a package, which cargo puts at `built`.
fn program(package: &str, kind: &str, name: &str, built: &str) -> Result<GuestFile, String> {
    let target = target()?;
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut build: Command = limited(&cargo, BUILD_LIMIT);
    let status = build
        .args(["build", "--quiet", "--profile", PROFILE])
        .args(["--package", package, kind, name])
        .args(["--target", TRIPLE, "--target-dir"])
        .arg(&target)
        .current_dir(root())
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .status()
        .map_err(|error| format!("cannot start cargo by setpriv(1): {error}"))?;
    if !status.success() {
        return Err(format!("the static build of {name} ended with {status}"));
    }
    let built = target.join(TRIPLE).join(PROFILE).join(built);
    let stripped = programs()?.join(name);
    let args = ["-o".as_ref(), stripped.as_os_str(), built.as_os_str()];
    output("strip", args, &root(), COMPILE_LIMIT)?;
    GuestFile::read(&stripped, &format!("files/{name}"))
}

/// The C programs in this folder, each by its name without the ending.
pub(super) fn c_programs(sources: &Path) -> Result<Vec<GuestFile>, String> {
    let folder = programs()?;
    let mut built = Vec::new();
    for name in names(sources, ".c")? {
        let program = folder.join(&name);
        let args = ["-O2", "-static", "-pthread", "-o"].map(AsRef::as_ref);
        let source = sources.join(format!("{name}.c"));
        let args = args
            .into_iter()
            .chain([program.as_os_str(), source.as_os_str()]);
        output("cc", args, &root(), COMPILE_LIMIT)?;
        built.push(GuestFile::read(&program, &format!("files/{name}"))?);
    }
    Ok(built)
}

/// Programs of the end-to-end tests, each a folder of sources or one.
pub(super) fn shared_programs(wanted: &BTreeSet<String>) -> Result<Vec<GuestFile>, String> {
    let mut built = Vec::new();
    for name in wanted {
        let sources = root().join("tests/programs").join(name);
        let files: Vec<PathBuf> = match sources.is_dir() {
            true => (names(&sources, ".c")?.into_iter())
                .map(|one| sources.join(one + ".c"))
                .collect(),
            false => vec![sources.with_extension("c")],
        };
        let program = programs()?.join(name);
        let mut args: Vec<std::ffi::OsString> = ["-O2", "-static", "-pthread", "-o"]
            .map(Into::into)
            .to_vec();
        args.push(program.clone().into());
        args.extend(files.into_iter().map(Into::into));
        args.push("-lm".into());
        output("cc", &args, &root(), COMPILE_LIMIT)?;
        built.push(GuestFile::read(&program, &format!("files/{name}"))?);
    }
    Ok(built)
}

/// The names, sorted and without it, of the files in a folder that have this ending.
pub(super) fn names(folder: &Path, ending: &str) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.strip_suffix(ending).map(str::to_owned)
        })
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_path() {
        let told = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries_of(told),
            [
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
        assert_eq!(libraries_of("\tstatically linked\n"), [""; 0]);
    }
}
