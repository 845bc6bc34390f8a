//! Checks whether a command can be run, by the rules of execvp(3) and with the exit codes of
//! shells.
//!
//! Invariant: only a command that certainly cannot run is refused before the start; the kernel
//! decides about every other one.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::error::{Error, ExitCode};

/// Directories in which execvp(3) searches if there is no PATH.
const PATH: &str = "/bin:/usr/bin";

/// Checks whether `program` can be run, as far as that can be known before the exec.
///
/// # Errors
/// It does not exist (127), or may not be run (126).
pub(super) fn check(program: &OsStr) -> Result<(), Error> {
    check_in(program, std::env::var_os("PATH")).map_err(|errno| refused(program, &errno.into()))
}

fn check_in(program: &OsStr, path: Option<OsString>) -> Result<(), Errno> {
    if program.is_empty() {
        return Err(Errno::NOENT);
    }
    if program.as_bytes().contains(&b'/') {
        return check_executable(Path::new(program));
    }
    let mut refused = Errno::NOENT;
    for dir in std::env::split_paths(&path.unwrap_or_else(|| PATH.into())) {
        match check_executable(&directory_of_entry(dir).join(program)) {
            Ok(()) => return Ok(()),
            // The search continues; this error is returned if no other directory has the program.
            Err(Errno::ACCESS) => refused = Errno::ACCESS,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// Returns a directory of PATH; an empty entry stands for the current directory.
fn directory_of_entry(dir: PathBuf) -> PathBuf {
    match dir.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => dir,
    }
}

/// Checks that the file may be executed.
fn check_executable(path: &Path) -> Result<(), Errno> {
    access(path, Access::EXEC_OK)?;
    // access(2) allows to "execute" directories, execve(2) does not.
    match path.is_dir() {
        true => Err(Errno::ACCESS),
        false => Ok(()),
    }
}

/// Returns the error for a program that cannot be run, with the exit code of shells.
pub(super) fn refused(program: &OsStr, error: &io::Error) -> Error {
    let is_absent = error.kind() == io::ErrorKind::NotFound;
    // If the file exists and still is "not found", it names an interpreter that does not exist.
    let is_interpreter =
        is_absent && program.as_bytes().contains(&b'/') && Path::new(program).exists();
    let (exit, hint) = match (is_absent, is_interpreter) {
        (true, false) => (ExitCode::NotFound, "is it installed, and on PATH?"),
        (true, true) => (
            ExitCode::NotFound,
            "its interpreter is missing: see its first line, or `ldd`",
        ),
        (false, _) => (
            ExitCode::NotExecutable,
            "is it a program for this machine, and executable (chmod +x)?",
        ),
    };
    Error::ending(
        exit,
        format!("cannot run {}: {error}", program.display()),
        hint,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(program: &str, path: Option<&str>) -> Option<Errno> {
        check_in(OsStr::new(program), path.map(OsString::from)).err()
    }

    #[test]
    fn programs_are_found_as_shells_find_them() {
        assert_eq!(code("sh", None), None);
        assert_eq!(code("sh", Some("/nowhere:/bin")), None);
        assert_eq!(code("sh", Some("/nowhere")), Some(Errno::NOENT));
        assert_eq!(code("/bin/sh", Some("")), None);
        assert_eq!(code("", None), Some(Errno::NOENT));
        assert_eq!(code("/tmp", None), Some(Errno::ACCESS));
        assert_eq!(code("/etc/passwd/x", None), Some(Errno::NOTDIR));
        assert_eq!(code("passwd", Some("/etc:/nowhere")), Some(Errno::ACCESS));
        assert_eq!(code("etc", Some("/:/nowhere")), Some(Errno::ACCESS));
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        let of =
            |program: &str, errno: Errno| refused(OsStr::new(program), &errno.into()).exit_code();
        assert_eq!(of("x", Errno::NOENT), 127);
        assert_eq!(of("x", Errno::ACCESS), 126);
        assert_eq!(of("x", Errno::NOEXEC), 126);
    }
}
