//! Files that are copied into a guest; programs are executable there. A program that needs a
//! dynamic loader could not start, so it is refused before the boot.

use std::path::Path;

/// A file of the guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GuestFile {
    /// Path from the guest's root, without the leading slash.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) is_executable: bool,
}

impl GuestFile {
    /// Makes a file with this text that is not executable.
    pub(super) fn text(path: &str, text: impl Into<Vec<u8>>) -> GuestFile {
        GuestFile {
            path: path.to_owned(),
            bytes: text.into(),
            is_executable: false,
        }
    }

    /// Makes an executable script or static program.
    pub(super) fn executable(path: &str, bytes: impl Into<Vec<u8>>) -> GuestFile {
        GuestFile {
            is_executable: true,
            ..GuestFile::text(path, bytes)
        }
    }

    /// Reads a file of this machine, which gets the path `path` in the guest.
    pub(super) fn read(host: &Path, path: &str) -> Result<GuestFile, String> {
        let name = host.display();
        let bytes = std::fs::read(host).map_err(|error| format!("cannot read {name}: {error}"))?;
        if needs_loader(&bytes) {
            return Err(format!(
                "{name} is linked dynamically, and the guest has no libraries: link it with -static"
            ));
        }
        let is_executable = bytes.starts_with(ELF) || bytes.starts_with(b"#!");
        Ok(GuestFile {
            path: path.to_owned(),
            bytes,
            is_executable,
        })
    }

    /// Reads a program or a library, and its libraries.
    pub(super) fn dynamic(host: &Path, path: &str) -> Result<GuestFile, String> {
        let bytes = std::fs::read(host);
        let bytes = bytes.map_err(|error| format!("cannot read {}: {error}", host.display()))?;
        Ok(GuestFile::executable(path, bytes))
    }

    /// Reads the program that the guest runs.
    pub(super) fn program(host: &Path) -> Result<GuestFile, String> {
        let file = GuestFile::read(host, "program")?;
        if file.is_executable {
            return Ok(file);
        }
        Err(format!(
            "{} is neither an ELF file nor a script: a script's first line is #!/bin/sh",
            host.display()
        ))
    }
}

const ELF: &[u8] = b"\x7fELF";
/// The type of a program header that names the loader.
const PT_INTERP: u32 = 3;

/// Returns whether this is an ELF file of 64 bits that names a dynamic loader.
fn needs_loader(bytes: &[u8]) -> bool {
    let number = |at: usize, size: usize| -> Option<usize> {
        let field = bytes.get(at..at.checked_add(size)?)?;
        let value = field
            .iter()
            .rev()
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        usize::try_from(value).ok()
    };
    let names_loader = || -> Option<bool> {
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let is_interp = |index: usize| {
            let at = index.checked_mul(size).and_then(|at| at.checked_add(table));
            at.and_then(|at| number(at, 4)) == Some(PT_INTERP as usize)
        };
        Some((0..count).any(is_interp))
    };
    bytes.starts_with(ELF) && names_loader().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header with program headers of these types.
    fn elf(types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..4].copy_from_slice(ELF);
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(types.len()).unwrap();
        for kind in types {
            bytes.extend(kind.to_le_bytes());
            bytes.resize(bytes.len() + 52, 0);
        }
        bytes
    }

    #[test]
    fn a_dynamic_program_is_distinguished_from_a_static_one() {
        assert!(needs_loader(&elf(&[6, 3, 1])));
        assert!(!needs_loader(&elf(&[1, 1, 2])));
        assert!(!needs_loader(b"#!/bin/sh\n"));
        assert!(!needs_loader(&elf(&[3])[..60]));
    }

    #[test]
    fn our_own_test_binary_is_dynamic_and_refused() {
        let own = std::env::current_exe().unwrap();
        let why = GuestFile::read(&own, "x").unwrap_err();
        assert!(why.contains("-static"), "{why}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let why = GuestFile::program("/nonexistent/program".as_ref()).unwrap_err();
        assert!(why.contains("/nonexistent/program"), "{why}");
    }
}
