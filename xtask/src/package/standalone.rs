//! One program that needs no library and no loader: it runs in an empty root.
//!
//! Invariant: what is linked in is this machine's glibc; the build is the release profile of what everybody else runs. musl would
//! take a standard library that no package of Debian's has.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{done, output, stripped};
use crate::{cargo, e2e};

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Builds it, and says where it is.
///
/// # Errors
/// It cannot be built, or is not static.
pub(super) fn build(out: &Path) -> Result<PathBuf, String> {
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
        .args(["--target", TRIPLE, "--target-dir"])
        .arg(&folder)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    done(&mut build)?;
    let name = concat!(
        "pagetide-",
        env!("CARGO_PKG_VERSION"),
        "-x86_64-linux-static"
    );
    let program = out.join(name);
    stripped(&folder.join(TRIPLE).join("release/pagetide"), &program)?;
    let told = output(Command::new("objdump").arg("-p").arg(&program))?;
    let told = String::from_utf8_lossy(&told);
    match told.contains("NEEDED") || told.contains("INTERP") {
        false => Ok(program),
        true => Err(format!("{} is not static:\n{told}", program.display())),
    }
}
