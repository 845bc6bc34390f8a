//! Builds a single program that needs no library and no loader, so it runs in an empty root.
//!
//! Invariant: the build has the release profile that other users get. The C library that is linked
//! in is this machine's glibc, or musl. Rust's standard library for musl comes from rustup, because
//! no package of Debian has it; so no step that must pass on a fresh machine needs musl.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{done, output, stripped};
use crate::{cargo, e2e};

/// The C library that is linked in.
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

/// Checks that the standard library for another target is there; the error says how to get it.
fn has_what_it_takes(triple: &str) -> Result<(), String> {
    let reported =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", triple]))?;
    let folder = String::from_utf8_lossy(&reported).trim().to_owned();
    if !Path::new(&folder).exists() {
        return Err(format!(
            "Rust has no standard library for {triple} here: there is no {folder}\nget it: rustup target add {triple}"
        ));
    }
    Ok(())
}

/// Builds the program; returns its path.
///
/// # Errors
/// If it cannot be built, something that it needs is missing, or the result is not static.
pub(super) fn build(libc: Libc, out: &Path) -> Result<PathBuf, String> {
    let triple = libc.triple();
    has_what_it_takes(triple)?;
    // A separate folder: with other flags, cargo would rebuild the whole usual build.
    let folder = e2e::target().join("standalone");
    let mut build = cargo(&[
        "build",
        "--release",
        "--package",
        "cli",
        "--features",
        "simulator",
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
    let reported = output(Command::new("objdump").arg("-p").arg(&program))?;
    let reported = String::from_utf8_lossy(&reported);
    match reported.contains("NEEDED") || reported.contains("INTERP") {
        false => Ok(program),
        true => Err(format!("{} is not static:\n{reported}", program.display())),
    }
}
