//! Builds the programs that run in a guest. Programs that were built for the end-to-end tests are
//! copied, with the libraries that they need (a static build of them took a minute of processor
//! time). All others are static, because a guest has no libraries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::commands::{limited, output};
use super::files::GuestFile;
use super::{folder, target};
use crate::{e2e, root};

/// Time limit of a build: a whole release build on a small machine takes minutes.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const COMPILE_LIMIT: Duration = Duration::from_secs(300);
/// Build target: this machine's C library, linked statically. musl would need a separate toolchain
/// for Rust and for C.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Returns the folder of the built programs.
pub(super) fn programs() -> Result<PathBuf, String> {
    let folder = folder()?.join("programs");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    Ok(folder)
}

/// Build profile: as a release build, without the optimisations that take minutes and make no
/// visible difference in a guest.
const PROFILE: &str = "guest";

/// Returns the `pagetide` that users run, without debug information, and the example of crate host
/// that makes hard-limit cgroups; with their libraries.
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
    for built in [e2e::release_binary(), e2e::examples().join("hard_limit")] {
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

/// Returns the paths of the libraries that a program or a library of this machine needs.
pub(super) fn libraries(of: &Path) -> Result<Vec<String>, String> {
    let reported = output("ldd", [of.as_os_str()], &root(), COMPILE_LIMIT)?;
    Ok(libraries_of(&String::from_utf8_lossy(&reported)))
}

/// Returns the paths in the output of ldd(1): after an arrow, or alone (the loader). An entry
/// without a path is provided by the kernel.
fn libraries_of(reported: &str) -> Vec<String> {
    let words = reported.lines().filter_map(|line| {
        let line = line.split(" (0x").next()?.trim();
        Some(line.split("=> ").last()?.trim())
    });
    words
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect()
}

/// Builds the program that touches pages as the simulator's tenants do.
pub(super) fn touches() -> Result<GuestFile, String> {
    program("touches", "--bin", "touches", "touches")
}

/// Builds the program `name` of this kind (cargo's option) in a package; cargo writes it to
/// `built`.
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

/// Builds the C programs in this folder, each named as its source without the ending.
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

/// Builds programs of the end-to-end tests, each from a folder of sources or a single file.
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

/// Returns the names of files with this ending in a folder, sorted and without the ending.
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
        let reported = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries_of(reported),
            [
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
        assert_eq!(libraries_of("\tstatically linked\n"), [""; 0]);
    }
}
