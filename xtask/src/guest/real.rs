//! Real programs of this machine for a guest: a database, a compiler with sources to compile, a
//! pre-fork server and a program in Go; with the libraries and the files that they need, at the
//! same paths as here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::build::{libraries, names, programs};
use super::commands::output;
use super::files::GuestFile;
use crate::root;

/// Time limit of a preprocessor, or of the Go compiler with an empty cache.
const LIMIT: Duration = Duration::from_secs(300);
/// The PostgreSQL of Debian 12, as in the end-to-end tests.
const POSTGRES: &str = "/usr/lib/postgresql/15";
/// The folder that initdb(1) copies from.
const SHARED: &str = "/usr/share/postgresql/15";
/// Files without which initdb(1) makes no database.
const POSTGRES_FILES: [&str; 7] = [
    "bin/initdb",
    "bin/postgres",
    "bin/psql",
    "bin/pgbench",
    "bin/pg_isready",
    "lib/plpgsql.so",
    "lib/dict_snowball.so",
];
/// Sources that the guest compiles, each on its own.
const SOURCES: &str = "tests/programs/hostile";

/// Returns all of these files.
pub(super) fn files() -> Result<Vec<GuestFile>, String> {
    let mut dynamic: Vec<PathBuf> = (POSTGRES_FILES.iter())
        .map(|name| Path::new(POSTGRES).join(name))
        .collect();
    dynamic.extend(compiler()?);
    let mut files = with_libraries(&dynamic)?;
    below(Path::new(SHARED), &mut files)?;
    files.extend(sources()?);
    files.push(built("workers", "cc", &["-O2", "-static"], "workers.c")?);
    files.push(built("gc", "go", &["build"], "gc.go")?);
    Ok(files)
}

/// Returns the programs of these names in the search path.
pub(super) fn installed(names: &BTreeSet<String>) -> Result<Vec<GuestFile>, String> {
    let programs: Vec<PathBuf> = names
        .iter()
        .map(|name| Path::new("/usr/bin").join(name))
        .collect();
    with_libraries(&programs)
}

/// Returns programs, and the libraries that they name, each once.
fn with_libraries(programs: &[PathBuf]) -> Result<Vec<GuestFile>, String> {
    let (mut files, mut wanted) = (Vec::new(), BTreeSet::new());
    for program in programs {
        wanted.extend(libraries(program)?);
        files.push(at_its_place(program)?);
    }
    for library in &wanted {
        files.push(at_its_place(Path::new(library))?);
    }
    Ok(files)
}

/// Returns the C compiler's driver under a name that does not depend on its version, the compiler
/// itself, and the assembler.
fn compiler() -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for requested in ["cc1", "as"] {
        let argument = format!("-print-prog-name={requested}");
        let reported = output("cc", [&argument], &root(), LIMIT)?;
        let reported = String::from_utf8_lossy(&reported).trim().to_owned();
        // A name without a folder is one of the search path.
        let path = if reported.starts_with('/') {
            reported
        } else {
            format!("/usr/bin/{reported}")
        };
        found.push(PathBuf::from(path));
    }
    found.push("/usr/bin/cc".into());
    Ok(found)
}

/// Returns a program, a library or a file of this machine, at the same path.
fn at_its_place(file: &Path) -> Result<GuestFile, String> {
    GuestFile::dynamic(file, file.to_string_lossy().trim_start_matches('/'))
}

/// Adds all files below a folder.
fn below(folder: &Path, files: &mut Vec<GuestFile>) -> Result<(), String> {
    let cannot = |error| format!("cannot read {}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() {
            below(&path, files)?;
        } else {
            files.push(at_its_place(&path)?);
        }
    }
    Ok(())
}

/// Returns preprocessed sources, because the guest has no headers.
fn sources() -> Result<Vec<GuestFile>, String> {
    let folder = root().join(SOURCES);
    let mut units = Vec::new();
    for name in names(&folder, ".c")? {
        let source = folder.join(format!("{name}.c"));
        let text = output("cc", ["-E".as_ref(), source.as_os_str()], &root(), LIMIT)?;
        units.push(GuestFile::text(&format!("files/sources/{name}.i"), text));
    }
    Ok(units)
}

/// Builds a program of the tests, linked statically.
fn built(name: &str, with: &str, words: &[&str], source: &str) -> Result<GuestFile, String> {
    let program = programs()?.join(name);
    let source = root().join("tests/programs").join(source);
    let words = words.iter().copied().chain(["-o"]).map(AsRef::as_ref);
    let words = words.chain([program.as_os_str(), source.as_os_str()]);
    let words: Vec<&std::ffi::OsStr> = ["CGO_ENABLED=0".as_ref(), with.as_ref()]
        .into_iter()
        .chain(words)
        .collect();
    output("env", words, &root(), LIMIT)?;
    GuestFile::read(&program, &format!("files/{name}"))
}
