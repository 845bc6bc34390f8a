//! The disk behind a zram, to which the zram writes pages back.
//!
//! Invariant: no data is overwritten. A device is used only if it is not in use (mounted, swapped
//! to, or part of another device), and if its first and last MiB are zeros or its first page has
//! our signature. We write the signature before zram gets the device; zram never uses the first
//! page.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use engine::units::{PAGE_LEN, PAGE_SIZE};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::SwapError;
use super::zram::Zram;

/// Our signature, at the start of the device.
const SIGNATURE: &[u8] = b"pagetide backing 1\n";
/// Bytes at the start and at the end of the device that must be zeros: file systems, partitions,
/// RAID and LVM have their signatures there.
const SCANNED_AT: u64 = 1 << 20;
/// Signatures of formats that leave the first page as it is: offset in bytes, and signature, of
/// RAID (md, version 1.2), bcache and btrfs.
const FOREIGN_SIGNATURES: &[(u64, &[u8])] = &[
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

/// Makes `device` the disk behind a zram that has no size yet.
pub(super) fn put_behind(zram: &Zram<'_>, device: &Path) -> Result<(), SwapError> {
    let path = zram.path();
    let what = format!("cannot put {} behind {}", device.display(), path.display());
    if !zram.may_write_back() {
        return Err(cannot_write_back(what));
    }
    let device = device
        .canonicalize()
        .map_err(|error| SwapError::io(&what, &error))?;
    claim(&device).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => {
            let why = "it is in use (mounted, swapped to, or part of another device)";
            SwapError::failed(
                &what,
                why,
                "give a partition that is not in use: see `lsblk`",
            )
        }
        _ if error.kind() == io::ErrorKind::InvalidInput => {
            SwapError::bad(format!("{what}: {error}"), BLOCK_HINT)
        }
        _ if error.kind() == io::ErrorKind::InvalidData => {
            let hint = format!(
                "if its data may be lost: blkdiscard -z {}",
                device.display()
            );
            SwapError::failed(&what, error.to_string(), hint)
        }
        _ => SwapError::io(&what, &error),
    })?;
    zram.set_backing(&device)
        .map_err(|error| SwapError::io(what, &error))
}

/// Hint of the error for a named disk that is not a block device.
const BLOCK_HINT: &str = "zram accepts only partitions and disks; for a file, give the device that this prints: losetup -f --show FILE";

/// The error if this kernel's zram has no writeback.
pub(super) fn cannot_write_back(what: impl Into<String>) -> SwapError {
    SwapError::missing(
        what,
        "zram of this kernel has no writeback (it was built without CONFIG_ZRAM_WRITEBACK)",
        "Debian's kernels have it; without it, swapped-out memory stays compressed in memory",
    )
}

/// Checks that the device is free, and writes our signature to it.
fn claim(device: &Path) -> io::Result<()> {
    let invalid = |kind, why: &str| Err(io::Error::new(kind, why));
    if !std::fs::metadata(device)?.file_type().is_block_device() {
        return invalid(io::ErrorKind::InvalidInput, "it is not a block device");
    }
    // For a block device, O_EXCL fails if it is in use.
    let exclusive = i32::try_from(OFlags::EXCL.bits()).unwrap_or_default();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(exclusive)
        .open(device)?;
    let size = file.seek(SeekFrom::End(0))?;
    if size < 2 * PAGE_SIZE {
        return invalid(io::ErrorKind::InvalidInput, "it is smaller than two pages");
    }
    if !is_free(&file, size)? {
        return invalid(
            io::ErrorKind::InvalidData,
            "it holds data that pagetide did not write",
        );
    }
    file.write_all_at(&first_page(), 0)?;
    file.sync_all()
}

/// A page with our signature and zeros after it.
fn first_page() -> Vec<u8> {
    let mut page = vec![0; PAGE_LEN];
    page[..SIGNATURE.len()].copy_from_slice(SIGNATURE);
    page
}

/// Whether the device may be used. Either its first page is the one that pagetide writes and no
/// signature of [`FOREIGN_SIGNATURES`] follows, or its first and last MiB are zeros. Our first page
/// alone does not prove that the device is free: RAID has its signature after that page and does
/// not change it.
fn is_free(file: &File, size: u64) -> io::Result<bool> {
    let mut first = first_page();
    file.read_exact_at(&mut first, 0)?;
    if first == first_page() {
        for (at, mark) in FOREIGN_SIGNATURES {
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
    let scanned_at = SCANNED_AT.min(size);
    let mut part = vec![0; usize::try_from(scanned_at).unwrap_or_default()];
    for start in [0, size - scanned_at] {
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
    fn only_an_empty_device_or_ours_is_free() {
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
        file.write_all_at(SIGNATURE, 0).expect("room");
        file.write_all_at(&[7; 4096], 8192).expect("room");
        assert!(is_free(&file, size).expect("it"));
        for (at, mark) in FOREIGN_SIGNATURES {
            file.write_all_at(mark, *at).expect("room");
            assert!(!is_free(&file, size).expect("it"), "{at}");
            file.write_all_at(&vec![0; mark.len()], *at).expect("room");
        }
        file.write_all_at(b"x", 100).expect("room");
        assert!(!is_free(&file, size).expect("it"), "behind our mark");
    }

    #[test]
    fn a_file_or_a_character_device_is_refused() {
        for path in ["/dev/null", "/proc/self/exe"] {
            let error = claim(Path::new(path)).expect_err(path);
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}: {error}");
        }
    }
}
