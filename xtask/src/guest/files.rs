//! The files of a guest: a folder that becomes the archive which the kernel unpacks. Shell scripts
//! do the work: `files.sh` copies and compiles, and `kernel.sh` adds the kernel's part.
//!
//! Invariant: a program is there together with the libraries that it names, at the same paths as on
//! this machine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Machine;
use crate::command::done;
use crate::root;

/// Memory that the kernel itself needs at most, MiB. The rest of the guest's memory has the archive
/// and the files unpacked from it.
const KERNEL_MIB: u64 = 192;

/// A temporary folder with the files of guests; it is removed when this value is dropped.
pub(super) struct GuestFiles {
    folder: PathBuf,
}

impl GuestFiles {
    /// Makes an empty folder in `parent`, and removes the folders of processes that have ended.
    pub(super) fn new(parent: &Path) -> Result<GuestFiles, String> {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            if is_orphan(&entry.file_name().to_string_lossy()) {
                // Another process may remove it at the same time.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let folder = parent.join(format!("run-{}", std::process::id()));
        let files = GuestFiles { folder };
        let made = std::fs::create_dir_all(files.root().join("files"));
        made.map_err(|error| format!("cannot make {}: {error}", files.root().display()))?;
        Ok(files)
    }

    /// Returns the folder with the guest's files.
    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Returns the path of a file beside the guest's files, which is removed with them.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file at the guest's root.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let to = self.root().join(name);
        std::fs::write(&to, text).map_err(|error| format!("cannot write {}: {error}", to.display()))
    }

    /// Copies a file of this machine, and the libraries that it names.
    pub(super) fn copy(&self, host: &Path, path: &str) -> Result<(), String> {
        self.add([OsStr::new("copy"), host.as_os_str(), OsStr::new(path)])
    }

    /// Runs a command of `files.sh`.
    pub(super) fn add<W: AsRef<OsStr>>(
        &self,
        command: impl IntoIterator<Item = W>,
    ) -> Result<(), String> {
        let mut add = Command::new("sh");
        add.args(["-c", include_str!("files.sh"), "files.sh"]);
        done(add.arg(self.root()).arg(root().join("tests")).args(command))
    }

    /// Adds the kernel's part, and the first process with the arguments of the program. Then the
    /// kernel `vmlinuz` and the archive `initrd` are beside the files.
    pub(super) fn finish(
        &self,
        machine: &Machine,
        packages: &Path,
        arguments: &[String],
    ) -> Result<(), String> {
        self.write("init", include_str!("init.sh"))?;
        self.write("guest", &variables(machine, arguments))?;
        // Since 6.12 zram has its own compressors; before, it used those of the kernel.
        let modules: &[&str] = match machine.zram_mib {
            0 => &["fuse"],
            _ => &["fuse", "lz4", "zram"],
        };
        let mut finish = Command::new("sh");
        finish.args(["-c", include_str!("kernel.sh"), "kernel.sh"]);
        finish.arg(&machine.kernel).arg(packages);
        done(finish.arg(self.root()).args(modules))?;
        let bytes = std::fs::metadata(self.beside("initrd")).map_or(0, |archive| archive.len());
        let needed = (2 * bytes).div_ceil(1 << 20) + KERNEL_MIB;
        match needed > machine.memory_mib.into() {
            true => Err(format!(
                "the guest's files have {} MiB, so that it needs {needed} MiB of memory to begin \
                 with: give it more with -m",
                bytes >> 20
            )),
            false => Ok(()),
        }
    }
}

impl Drop for GuestFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns whether this is the name of a temporary folder whose process has ended.
fn is_orphan(name: &str) -> bool {
    let id = name.strip_prefix("run-");
    id.is_some_and(|id| !Path::new("/proc").join(id).exists())
}

/// Returns the variables that the first process reads.
fn variables(machine: &Machine, arguments: &[String]) -> String {
    let quoted = |text: &String| format!(" '{}'", text.replace('\'', r"'\''"));
    let arguments: String = arguments.iter().map(quoted).collect();
    let (kernel, zram) = (&machine.kernel, machine.zram_mib);
    format!("GUEST_KERNEL={kernel}\nGUEST_ZRAM_MIB={zram}\nset --{arguments}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::options;
    use super::*;
    use crate::command::text;

    #[test]
    fn a_program_is_copied_with_its_libraries_and_removed_with_the_folder() {
        let parent = std::env::temp_dir().join(format!("xtask-files-{}", std::process::id()));
        let orphan = parent.join("run-4294967295");
        std::fs::create_dir_all(orphan.join("x")).expect("there is room");
        let files = GuestFiles::new(&parent).expect("there is room");
        assert!(!orphan.exists() && !is_orphan("packages"));
        let own = std::env::current_exe().expect("it runs");
        files.copy(&own, "files/own").expect("it can be copied");
        for path in ["files/own", "lib64/ld-linux-x86-64.so.2"] {
            assert!(files.root().join(path).exists(), "{path}");
        }
        assert!(files.copy(Path::new("/nonexistent/program"), "x").is_err());
        drop(files);
        // The folder is empty again, so it can be removed.
        std::fs::remove_dir(&parent).expect("it is ours");
    }

    #[test]
    fn the_shell_reads_arguments_unchanged() {
        let words = ["", "a b", "it's", "$x `y` \\ \"z\"", "*\n?"].map(str::to_owned);
        let options = options::parse(&[]).expect("no options are needed");
        let machine = options.machine("6.1", Duration::ZERO, 64);
        let script = variables(&machine, &words);
        let script = format!("{script}printf '%s|' $GUEST_KERNEL \"$@\"");
        let said = text(Command::new("sh").args(["-c", &script]));
        assert_eq!(said, Ok(format!("6.1|{}|", words.join("|"))));
    }
}
