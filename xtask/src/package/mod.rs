//! `cargo xtask package`: makes what people install, with tools that every Debian has: cargo, a
//! linker, dpkg-deb, gzip.
//!
//! Invariant: the same commit, program and tools produce the same bytes. All times are the
//! commit's, owners are root, lists are sorted, and no clock or user name has any influence.

mod control;
mod deb;
mod files;
mod needed;
mod stage;
mod standalone;
mod third_party;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use standalone::Libc;

use crate::{e2e, root};

const USAGE: &str = "\
usage: cargo xtask package KIND [--binary FILE] [--out DIR]
  deb     Debian's package; of FILE, or of a release build
  static  one program that needs no library, linked with glibc
  musl    the same, linked with musl: needs `rustup target add x86_64-unknown-linux-musl` and musl-tools
What is built is in DIR, target/package if none is given.";

/// Builds a package, and prints its path; returns whether that succeeded.
pub(crate) fn run(words: &[&str]) -> bool {
    let Some(requested) = PackageArgs::of(words) else {
        eprintln!("{USAGE}");
        return false;
    };
    match requested.build() {
        Ok(built) => println!("{}", built.display()),
        Err(why) => {
            eprintln!("{why}");
            return false;
        }
    }
    true
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Deb,
    Static(Libc),
}

/// What the command line requests.
#[derive(PartialEq, Eq, Debug)]
struct PackageArgs {
    kind: Kind,
    binary: Option<PathBuf>,
    out: PathBuf,
}

impl PackageArgs {
    /// Parses the words; `None` for bad usage.
    fn of(words: &[&str]) -> Option<PackageArgs> {
        let (kind, mut rest) = words.split_first()?;
        let kind = match *kind {
            "deb" => Kind::Deb,
            "static" => Kind::Static(Libc::Gnu),
            "musl" => Kind::Static(Libc::Musl),
            _ => return None,
        };
        let mut requested = PackageArgs {
            kind,
            binary: None,
            out: e2e::target().join("package"),
        };
        while let [name, value, more @ ..] = rest {
            match *name {
                "--binary" if kind == Kind::Deb => requested.binary = Some(value.into()),
                "--out" => requested.out = value.into(),
                _ => return None,
            }
            rest = more;
        }
        rest.is_empty().then_some(requested)
    }

    fn build(self) -> Result<PathBuf, String> {
        std::fs::create_dir_all(&self.out)
            .map_err(|error| format!("cannot make the folder {}: {error}", self.out.display()))?;
        match self.kind {
            Kind::Static(libc) => standalone::build(libc, &self.out),
            Kind::Deb => {
                let binary = match self.binary {
                    Some(binary) => binary,
                    None => {
                        done(&mut e2e::release_build())?;
                        e2e::release_binary()
                    }
                };
                deb::build(&binary, &self.out)
            }
        }
    }
}

/// Returns the time of the commit that is built, in seconds since 1970; all files of the package
/// have this time.
fn epoch() -> Result<u64, String> {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let text = match given {
        Some(text) => text,
        None => output(Command::new("git").args(["log", "-1", "--format=%ct"]))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|why| {
                format!("{why}\nset SOURCE_DATE_EPOCH to the time of the sources, in seconds")
            })?,
    };
    let text = text.trim();
    text.parse()
        .map_err(|_| format!("the time of the sources is `{text}`, not a number of seconds"))
}

/// Runs a command in the workspace; returns what it prints.
fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .current_dir(root())
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {name}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!(
            "{name} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Runs a command and shows its output.
fn done(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|error| format!("cannot start {name}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{name} ended with {status}")),
    }
}

/// Writes a program without its symbols for debuggers and linkers.
fn stripped(binary: &Path, to: &Path) -> Result<(), String> {
    let mut strip = Command::new("strip");
    strip.args(["--strip-unneeded", "--remove-section=.comment"]);
    output(strip.arg("-o").arg(to).arg(binary)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let requested = PackageArgs::of(&["deb", "--binary", "b", "--out", "/o"]);
        let expected = PackageArgs {
            kind: Kind::Deb,
            binary: Some("b".into()),
            out: "/o".into(),
        };
        assert_eq!(requested, Some(expected));
        for words in [
            &[][..],
            &["rpm"],
            &["deb", "--binary"],
            &["deb", "x"],
            &["static", "--binary", "b"],
            &["musl", "--binary", "b"],
        ] {
            assert_eq!(PackageArgs::of(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let why = output(Command::new("sh").args(["-c", "echo no >&2; exit 4"]));
        let why = why.expect_err("it failed");
        assert!(why.contains("no") && why.contains('4'), "{why}");
        assert!(done(&mut Command::new("/nonexistent/program")).is_err());
    }
}
