//! The guest's files, in the archive that the kernel unpacks: busybox, the first process, modules,
//! the program and its files. The archive is not compressed, because an emulated processor unpacks
//! slower than it copies memory.

use std::path::Path;

use super::Machine;
use super::cpio::Archive;
use super::files::GuestFile;
use super::packages::file_in;
use super::{init, modules};

/// Folders that are mount points, or are written to.
const FOLDERS: [&str; 7] = ["bin", "dev", "files", "proc", "run", "sys", "tmp"];
const USERS: &str = "root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nnogroup:x:65534:\n";
/// Memory that the kernel itself needs at most, MiB. The rest of the guest's memory has the archive
/// and the files unpacked from it.
const KERNEL_MIB: usize = 192;

/// Builds the archive for this machine from the unpacked package of its kernel.
pub(super) fn build(
    machine: &Machine,
    kernel: &Path,
    busybox: &Path,
    files: Vec<GuestFile>,
    arguments: &[String],
) -> Result<Vec<u8>, String> {
    // Since 6.12 zram has its own compressors; before, it used those of the kernel.
    let wanted: &[&str] = if machine.zram_mib > 0 {
        &["fuse", "lz4", "zram"]
    } else {
        &["fuse"]
    };
    let modules = modules::load(kernel, wanted)?;
    let names: Vec<&str> = modules.iter().map(|module| module.name.as_str()).collect();
    let config = GuestFile::read(&file_in(&kernel.join("boot"), "config-")?, "config")?;
    let mut all = vec![
        GuestFile::read(busybox, "bin/busybox")?,
        GuestFile::executable("init", init::script(machine, &names, arguments)),
        GuestFile::text("etc/passwd", USERS),
        GuestFile::text("etc/group", GROUPS),
        config,
    ];
    all.extend(
        modules
            .into_iter()
            .map(|module| GuestFile::text(&format!("modules/{}.ko", module.name), module.bytes)),
    );
    all.extend(files);
    let mut archive = Archive::default();
    for folder in FOLDERS {
        archive.folder(folder);
    }
    for file in &all {
        archive.file(&file.path, &file.bytes, file.is_executable)?;
    }
    let bytes = archive.finish();
    let needed = (2 * bytes.len()).div_ceil(1 << 20) + KERNEL_MIB;
    if needed > machine.memory_mib as usize {
        return Err(format!(
            "the guest's files have {} MiB, so that it needs {needed} MiB of memory to begin with: \
             give it more with -m",
            bytes.len() >> 20
        ));
    }
    Ok(bytes)
}
