//! Builds what runs inside: everything is static, for a guest has no libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::commands::{limited, output};
use super::files::GuestFile;
use super::{folder, target};
use crate::root;

/// A whole release build on a small machine takes minutes.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const COMPILE_LIMIT: Duration = Duration::from_secs(300);
/// The C library of this machine, linked statically: musl would need a toolchain of its own, for
/// Rust as well as for C.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The folder of what was built.
fn programs() -> Result<PathBuf, String> {
    let folder = folder()?.join("programs");
    std::fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    Ok(folder)
}

/// A release build without optimisations that take minutes and that no guest's clock could show.
const PROFILE: &str = "guest";

/// The `pagetide` that users run, but static and without what only a debugger reads.
pub(super) fn pagetide() -> Result<GuestFile, String> {
    program("cli", "--bin", "pagetide", "pagetide")
}

/// The example of crate host that makes walls.
pub(super) fn wall() -> Result<GuestFile, String> {
    program("host", "--example", "wall", "examples/wall")
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
