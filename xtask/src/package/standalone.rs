//! Builds a single program that needs no library and no loader, so it runs in an empty root.
//!
//! Invariant: the build has the release profile that other users get. The C library that is linked
//! in is this machine's glibc, or musl. Rust's standard library for musl comes from rustup, because
//! no package of Debian has it; so no step that must pass on a fresh machine needs musl.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{done, text};
use crate::{cargo, programs};

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

    /// Returns the word for the C library in the name of the built program.
    const fn name(self) -> &'static str {
        match self {
            Libc::Gnu => "static",
            Libc::Musl => "musl",
        }
    }
}

/// Builds the program; returns its path.
///
/// # Errors
/// If it cannot be built (cargo says what is missing), or the result is not static.
pub(super) fn build(libc: Libc, out: &Path) -> Result<PathBuf, String> {
    let triple = libc.triple();
    // A separate folder: with other flags, cargo would rebuild the whole usual build.
    let folder = programs::target().join("standalone");
    let mut build =
        cargo("build --release --package cli --bin pagetide --features simulator --target-dir");
    build
        .arg(&folder)
        .args(["--target", triple])
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    if libc == Libc::Musl {
        // The compression library is in C.
        build.env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    }
    done(&mut build)?;
    let version = env!("CARGO_PKG_VERSION");
    let program = out.join(format!("pagetide-{version}-x86_64-linux-{}", libc.name()));
    let mut strip = Command::new("strip");
    strip.args(["--strip-unneeded", "--remove-section=.comment", "-o"]);
    strip
        .arg(&program)
        .arg(folder.join(triple).join("release/pagetide"));
    done(&mut strip)?;
    let reported = text(Command::new("objdump").arg("-p").arg(&program))?;
    match reported.contains("NEEDED") || reported.contains("INTERP") {
        false => Ok(program),
        true => Err(format!("{} is not static:\n{reported}", program.display())),
    }
}
