//! The disk behind a zram: where it writes what is not to stay in memory.
//!
//! Invariant: nothing is written over. A device is taken only if it is nobody's (not mounted, not swapped to, not part of another) and
//! its first and last MiB are zeros, or carry our mark, which is written before zram gets it. zram leaves the first page alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::SwapError;
use super::zram::Zram;

const MARK: &[u8] = b"pagetide backing 1\n";
/// Where file systems, partitions, RAID and LVM have what they are known by.
const LOOKED_AT: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// What leaves the first page alone has these, in bytes from the beginning: RAID (md, version 1.2), bcache, btrfs.
const MARKS_BEHIND: &[(u64, &[u8])] = &[
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    (
        4120,
        &[
            0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba,
            0x6d, 0x81,
        ],
    ),
    (65_600, b"_BHRfS_M"),
];

/// Puts `device` behind a zram that has no size yet.
pub(super) fn put_behind(zram: &Zram<'_>, device: &Path) -> Result<(), SwapError> {
    let path = zram.path();
    let what = format!("cannot put {} behind {}", device.display(), path.display());
    if !zram.may_write_back() {
        return Err(cannot_write_back(what));
    }
    let device = device
        .canonicalize()
        .map_err(|error| SwapError::io(&what, &error))?;
    mark(&device).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => {
            let why = "it is in use (mounted, swapped to, or part of another device)";
            SwapError::failed(&what, why, "give a partition that is nobody's: see `lsblk`")
        }
        _ if error.kind() == io::ErrorKind::InvalidInput => {
            SwapError::bad(format!("{what}: {error}"), BLOCK_HINT)
        }
        _ if error.kind() == io::ErrorKind::InvalidData => {
            let hint = format!(
                "if all on it may be lost: blkdiscard -z {}",
                device.display()
            );
            SwapError::failed(&what, error.to_string(), hint)
        }
        _ => SwapError::io(&what, &error),
    })?;
    zram.set_backing(&device)
        .map_err(|error| SwapError::io(what, &error))
}

const BLOCK_HINT: &str = "zram takes partitions and disks alone; for a file: losetup -f --show FILE, and what that prints";

/// This kernel's zram has nothing like it.
pub(super) fn cannot_write_back(what: impl Into<String>) -> SwapError {
    SwapError::missing(
        what,
        "the zram of this kernel writes nothing back (it was built without CONFIG_ZRAM_WRITEBACK)",
        "Debian's kernels have it; without it, what is out stays in memory, compressed",
    )
}

/// Sees that nothing is on the device, and marks it as ours.
fn mark(device: &Path) -> io::Result<()> {
    let invalid = |kind, why: &str| Err(io::Error::new(kind, why));
    if !std::fs::metadata(device)?.file_type().is_block_device() {
        return invalid(io::ErrorKind::InvalidInput, "it is no block device");
    }
    // On a device this asks for nobody else to have it.
    let exclusive = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(exclusive)
        .open(device)?;
    let size = file.seek(SeekFrom::End(0))?;
    if size < 2 * PAGE {
        return invalid(io::ErrorKind::InvalidInput, "it is smaller than two pages");
    }
    if !is_free(&file, size)? {
        return invalid(
            io::ErrorKind::InvalidData,
            "there is something on it that is not pagetide's",
        );
    }
    file.write_all_at(&first_page(), 0)?;
    file.sync_all()
}

/// Our mark, and nothing behind it.
fn first_page() -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..MARK.len()].copy_from_slice(MARK);
    page
}

/// Whether what is there is our mark, or nothing where anything would be. (The story, of a reading: a RAID, which has its own mark behind the first page and
/// leaves that as it is, would have been written over on a partition that had been behind a zram once.)
fn is_free(file: &File, size: u64) -> io::Result<bool> {
    let mut first = first_page();
    file.read_exact_at(&mut first, 0)?;
    if first == first_page() {
        for (at, mark) in MARKS_BEHIND {
            let mut found = vec![0; mark.len()];
            if at + mark.len() as u64 <= size {
                file.read_exact_at(&mut found, *at)?;
            }
            if found == *mark {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let looked_at = LOOKED_AT.min(size);
    let mut part = vec![0; usize::try_from(looked_at).unwrap_or_default()];
    for start in [0, size - looked_at] {
        file.read_exact_at(&mut part, start)?;
        if part.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_empty_or_ours_is_free() {
        let path = std::env::temp_dir().join(format!("pagetide-backing-{}", std::process::id()));
        let size = 4 << 20;
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path);
        let file = file.expect("a file");
        std::fs::remove_file(&path).expect("it");
        file.set_len(size).expect("room");
        assert!(is_free(&file, size).expect("it"));
        for at in [0, 1080, 65_600, size - 1, size - 65_536] {
            file.write_all_at(&[0x53], at).expect("room");
            assert!(!is_free(&file, size).expect("it"), "{at}");
            file.write_all_at(&[0], at).expect("room");
        }
        file.write_all_at(MARK, 0).expect("room");
        file.write_all_at(&[7; 4096], 8192).expect("room");
        assert!(is_free(&file, size).expect("it"));
        for (at, mark) in MARKS_BEHIND {
            file.write_all_at(mark, *at).expect("room");
            assert!(!is_free(&file, size).expect("it"), "{at}");
            file.write_all_at(&vec![0; mark.len()], *at).expect("room");
        }
        file.write_all_at(b"x", 100).expect("room");
        assert!(!is_free(&file, size).expect("it"), "behind our mark");
    }

    #[test]
    fn a_file_or_a_character_device_is_none() {
        for path in ["/dev/null", "/proc/self/exe"] {
            let error = mark(Path::new(path)).expect_err(path);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}: {error}");
        }
    }
}
