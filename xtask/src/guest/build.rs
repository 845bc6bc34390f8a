//! Builds the programs of this workspace that run in a guest.

use std::process::Command;

use super::files::GuestFiles;
use crate::command::{done, text};
use crate::{cargo, programs};

/// Build target of the program that touches pages.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Adds the `pagetide` that users run, and the example of crate host that makes hard-limit cgroups.
pub(super) fn programs_of_tests(files: &GuestFiles) -> Result<(), String> {
    if std::env::var_os("PAGETIDE_BUILT").is_none() {
        done(programs::release_build().arg("--quiet"))?;
        done(programs::examples_build().arg("--quiet"))?;
    }
    files.copy(&programs::release_binary(), "files/pagetide")?;
    let (example, stripped) = (
        programs::examples().join("hard_limit"),
        files.beside("stripped"),
    );
    text(Command::new("strip").arg("-o").arg(&stripped).arg(example))?;
    files.copy(&stripped, "files/hard_limit")
}

/// Builds the program that touches pages as the simulator's tenants do. It is static, so that no
/// page of a library is among its memory.
pub(super) fn touches(files: &GuestFiles) -> Result<(), String> {
    let mut build = cargo("build --quiet --release --package touches --bin touches --target-dir");
    build
        .arg(programs::target())
        .args(["--target", TRIPLE])
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    done(&mut build)?;
    files.copy(
        &programs::target().join(TRIPLE).join("release/touches"),
        "program",
    )
}
