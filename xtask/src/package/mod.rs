//! `cargo xtask package`: makes what people install.
//!
//! Invariant: the same commit, program and tools produce the same bytes. All times are the
//! commit's, owners are root, and no clock or user name has any influence.

mod standalone;
mod third_party;

mod deb;

use std::path::PathBuf;

use standalone::Libc;

use crate::command::done;
use crate::programs;

const USAGE: &str = "\
usage: cargo xtask package KIND [--binary FILE] [--out DIR]
  deb     Debian's package; of FILE, or of a release build
  static  one program that needs no library, linked with glibc
  musl    the same, linked with musl: needs `rustup target add x86_64-unknown-linux-musl` and musl-tools
What is built is in DIR, target/package if none is given.";

/// Builds a package, and prints its path.
///
/// # Errors
/// If the words are wrong, or the package cannot be built.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let requested = PackageArgs::of(words).ok_or(USAGE)?;
    println!("{}", requested.build()?.display());
    Ok(())
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
            out: programs::target().join("package"),
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
        match (self.kind, self.binary) {
            (Kind::Static(libc), _) => standalone::build(libc, &self.out),
            (Kind::Deb, Some(binary)) => deb::build(&binary, &self.out),
            (Kind::Deb, None) => {
                done(&mut programs::release_build())?;
                deb::build(&programs::release_binary(), &self.out)
            }
        }
    }
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
        for words in ["", "rpm", "deb --binary", "deb x", "static --binary b"] {
            let words: Vec<&str> = words.split_whitespace().collect();
            assert_eq!(PackageArgs::of(&words), None, "{words:?}");
        }
    }
}
