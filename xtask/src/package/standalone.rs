//! One program that needs no library and no loader: it runs in an empty root.
//!
//! Invariant: what is linked in is the C library that the name says, glibc by this machine's compiler or musl by Debian's; the
//! build is the release profile of what everybody else runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{done, output, stripped};
use crate::{cargo, e2e, root};

const GLIBC: &str = "x86_64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

/// Debian's packages of a Rust compiler that is new enough, its standard library's sources among them: no package has that
/// library for musl, so it is built with the program. They conflict with other compilers and are only unpacked.
const COMPILER: [&str; 3] = ["rustc-web", "libstd-rust-web-dev", "rust-web-src"];

/// With glibc.
///
/// # Errors
/// It cannot be built.
pub(super) fn glibc(out: &Path) -> Result<PathBuf, String> {
    let mut build = build(GLIBC);
    build.env("RUSTFLAGS", "-C target-feature=+crt-static");
    done(&mut build)?;
    finish(GLIBC, "glibc", out)
}

/// With musl.
///
/// # Errors
/// A package cannot be fetched, musl-gcc(1) is not there, or it cannot be built.
pub(super) fn musl(out: &Path) -> Result<PathBuf, String> {
    output(Command::new("musl-gcc").arg("--version"))
        .map_err(|why| format!("{why}\ninstall musl's compiler: apt-get install musl-tools"))?;
    let folder = folder(MUSL);
    let compiler = compiler(&folder.join("debian"))?;
    let unwind = unwinder(&folder)?;
    let libraries = compiler.join("usr/lib/x86_64-linux-gnu");
    let mut build = build(MUSL);
    build
        .args(["-Z", "build-std=std,panic_unwind"])
        // Building the standard library is not for everybody yet; Debian's compiler is built the same way.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", compiler.join("usr/bin/rustc"))
        .env("LD_LIBRARY_PATH", libraries)
        .env("CC_x86_64_unknown_linux_musl", "musl-gcc")
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER", "musl-gcc")
        .env(
            "RUSTFLAGS",
            format!(
                // musl-gcc's own start of a static program does not relocate itself.
                "-C link-self-contained=no -C target-feature=+crt-static -C relocation-model=static -L native={}",
                unwind.display()
            ),
        );
    done(&mut build)?;
    finish(MUSL, "musl", out)
}

/// The release build for a target, in a folder of its own: other flags would have all of the usual one built anew.
fn build(target: &str) -> Command {
    let mut build = cargo(&[
        "build",
        "--release",
        "--package",
        "cli",
        "--bin",
        "pagetide",
    ]);
    build
        .args(["--target", target, "--target-dir"])
        .arg(folder(target))
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    build
}

fn folder(target: &str) -> PathBuf {
    e2e::target().join("standalone").join(target)
}

fn finish(target: &str, library: &str, out: &Path) -> Result<PathBuf, String> {
    let built = folder(target).join(target).join("release/pagetide");
    let name = concat!("pagetide-", env!("CARGO_PKG_VERSION"));
    let program = out.join(format!("{name}-x86_64-linux-{library}"));
    stripped(&built, &program)?;
    let told = output(Command::new("objdump").arg("-p").arg(&program))?;
    let told = String::from_utf8_lossy(&told);
    match told.contains("NEEDED") || told.contains("INTERP") {
        false => Ok(program),
        true => Err(format!("{} is not static:\n{told}", program.display())),
    }
}

/// Where Debian's compiler is unpacked; fetched if it is not there yet.
fn compiler(place: &Path) -> Result<PathBuf, String> {
    if place.is_dir() {
        return Ok(place.to_path_buf());
    }
    let part = place.with_extension("part");
    let _ = std::fs::remove_dir_all(&part);
    std::fs::create_dir_all(&part)
        .map_err(|error| format!("cannot make the folder {}: {error}", part.display()))?;
    let mut packages = COMPILER.map(str::to_owned).to_vec();
    for library in ["libstd-rust-web-", "libllvm"] {
        packages.extend(depends(&packages, library)?);
    }
    // apt's user for downloads cannot write here, and says so every time it is asked to.
    let mut fetch = Command::new("sh");
    let script = "cd \"$0\" && apt-get -o APT::Sandbox::User=root -q download \"$@\"";
    output(fetch.args(["-c", script]).arg(&part).args(&packages)).map_err(|why| {
        format!(
            "cannot fetch Debian's Rust compiler: {why}\nare apt's lists fresh (`apt-get update`)?"
        )
    })?;
    let mut unpack = Command::new("sh");
    let script = "cd \"$0\" && for deb in *.deb; do dpkg-deb -x \"$deb\" . && rm \"$deb\"; done";
    output(unpack.args(["-c", script]).arg(&part))?;
    std::fs::rename(&part, place).map_err(|error| format!("{}: {error}", place.display()))?;
    Ok(place.to_path_buf())
}

/// The packages with this beginning that one of these depends on.
fn depends(packages: &[String], start: &str) -> Result<Vec<String>, String> {
    let told = output(Command::new("apt-cache").arg("depends").args(packages))?;
    let told = String::from_utf8_lossy(&told);
    let mut found: Vec<String> = told
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|name| name.starts_with(start) && !name.ends_with("-dev"))
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// A folder with the unwinder that the standard library asks for by its LLVM name. GCC's has the same interface, but takes a
/// function of glibc's, which ours stands in for.
fn unwinder(folder: &Path) -> Result<PathBuf, String> {
    let told = output(Command::new("cc").arg("-print-file-name=libgcc_eh.a"))?;
    let from = String::from_utf8_lossy(&told).trim().to_owned();
    let place = folder.join("unwinder");
    let (library, object) = (place.join("libunwind.a"), place.join("find_object.o"));
    let copied = std::fs::create_dir_all(&place).and_then(|()| std::fs::copy(&from, &library));
    copied.map_err(|error| format!("cannot copy {from}: {error}"))?;
    let source = root().join("xtask/src/package/find_object.c");
    let mut compile = Command::new("musl-gcc");
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-c", "-o"]);
    output(compile.arg(&object).arg(source))?;
    output(Command::new("ar").arg("r").arg(&library).arg(&object))?;
    Ok(place)
}
