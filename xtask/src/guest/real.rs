//! Real programs of this machine for a guest: a database, a compiler with sources to compile, a pre-fork server and a program
//! in Go; with the libraries and the files that they need, at the places where they have them here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::build::{libraries, names, programs};
use super::commands::output;
use super::files::GuestFile;
use crate::root;

/// A preprocessor, or the Go compiler with nothing in its cache.
const LIMIT: Duration = Duration::from_secs(300);
/// Debian 12's, as in the end-to-end tests.
const POSTGRES: &str = "/usr/lib/postgresql/15";
/// What initdb(1) copies from.
const SHARED: &str = "/usr/share/postgresql/15";
/// Without these initdb(1) makes no database.
const POSTGRES_FILES: [&str; 7] = [
    "bin/initdb",
    "bin/postgres",
    "bin/psql",
    "bin/pgbench",
    "bin/pg_isready",
    "lib/plpgsql.so",
    "lib/dict_snowball.so",
];
/// Sources of a program that is tested anyway, each a unit of the compile.
const SOURCES: &str = "tests/programs/hostile";

/// All of them.
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

/// Programs of these names, of the search path.
pub(super) fn installed(names: &BTreeSet<String>) -> Result<Vec<GuestFile>, String> {
    let programs: Vec<PathBuf> = names
        .iter()
        .map(|name| Path::new("/usr/bin").join(name))
        .collect();
    with_libraries(&programs)
}

/// Programs, and the libraries that they name, each once.
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

/// The driver of the C compiler under a name that does not depend on its version, the compiler itself, and the assembler.
fn compiler() -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for asked in ["cc1", "as"] {
        let argument = format!("-print-prog-name={asked}");
        let told = output("cc", [&argument], &root(), LIMIT)?;
        let told = String::from_utf8_lossy(&told).trim().to_owned();
        // A name without a folder is one of the search path.
        let path = if told.starts_with('/') {
            told
        } else {
            format!("/usr/bin/{told}")
        };
        found.push(PathBuf::from(path));
    }
    found.push("/usr/bin/cc".into());
    Ok(found)
}

/// A program, a library or a file of this machine, where it is here.
fn at_its_place(file: &Path) -> Result<GuestFile, String> {
    GuestFile::dynamic(file, file.to_string_lossy().trim_start_matches('/'))
}

/// All files below a folder.
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

/// Sources with all that they include, for there are no headers in the guest.
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

/// A program of the tests, linked statically.
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
