//! One program that needs no library and no loader: it runs in an empty root.
//!
//! Invariant: the build is the release profile of what everybody else runs. What is linked in is this machine's glibc, or musl, for which Rust's standard
//! library is rustup's to get: no package of Debian's has it, so nothing that must pass on a fresh machine needs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{done, output, stripped};
use crate::{cargo, e2e};

/// What is linked in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Libc {
    Gnu,
    Musl,
}

impl Libc {
    const fn triple(self) -> &'static str {
        match self {
            Libc::Gnu => "x86_64-unknown-linux-gnu",
            Libc::Musl => "x86_64-unknown-linux-musl",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Libc::Gnu => concat!(
                "pagetide-",
                env!("CARGO_PKG_VERSION"),
                "-x86_64-linux-static"
            ),
            Libc::Musl => concat!("pagetide-", env!("CARGO_PKG_VERSION"), "-x86_64-linux-musl"),
        }
    }
}

/// Where the library for another target is, or what gets it.
fn has_what_it_takes(triple: &str) -> Result<(), String> {
    let told =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    let folder = String::from_utf8_lossy(&told).trim().to_owned();
    if !Path::new(&folder).exists() {
        return Err(format!(
            "Rust has no standard library for {triple} here: there is no {folder}\nget it: rustup target add {triple}"
        ));
    }
    Ok(())
}

/// Builds it, and says where it is.
///
/// # Errors
/// It cannot be built, what it takes is not there, or it is not static.
pub(super) fn build(libc: Libc, out: &Path) -> Result<PathBuf, String> {
    let triple = libc.triple();
    has_what_it_takes(triple)?;
    // A folder of its own: other flags would have all of the usual build built anew.
    let folder = e2e::target().join("standalone");
    let mut build = cargo(&[
        "build",
        "--release",
        "--package",
        "cli",
        "--bin",
        "pagetide",
    ]);
    build
        .args(["--target", triple, "--target-dir"])
        .arg(&folder)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    if libc == Libc::Musl {
        // The compression library is in C.
        build.env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    }
    done(&mut build)?;
    let program = out.join(libc.name());
    stripped(&folder.join(triple).join("release/pagetide"), &program)?;
    let told = output(Command::new("objdump").arg("-p").arg(&program))?;
    let told = String::from_utf8_lossy(&told);
    match told.contains("NEEDED") || told.contains("INTERP") {
        false => Ok(program),
        true => Err(format!("{} is not static:\n{told}", program.display())),
    }
}
