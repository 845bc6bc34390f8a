//! Finds the bit by which the kernel marks an open file whose pages are used only once
//! (POSIX_FADV_NOREUSE).
//!
//! Invariant: a bit counts only if this process gave that advice for an open file of its own, and
//! the kernel then set this bit of the file's mode and no other, and cleared the bit when the
//! advice was withdrawn. The kernel's type information does not have the bit's value, and its value
//! may differ from kernel to kernel.
//!
//! The bit stays unknown before Linux 6.3, which ignores the advice, and if this program's file is
//! on a file system in memory: there the kernel ignores the advice, too.

use std::fs::File;
use std::io;

use crate::calls::{MappedFile, advise_used_once};
use crate::mappings::Layout;
use crate::reader::Reader;

/// The file of this program: a file that exists for certain.
const OWN: &str = "/proc/self/exe";

/// Returns the mask of the bit in an open file's mode that marks the file as used only once; 0 if
/// it cannot be found out.
pub(crate) fn find(reader: &mut Reader, layout: Layout) -> u32 {
    let bit = File::open(OWN).and_then(|file| bit_by(reader, layout, &file));
    bit.ok().flatten().unwrap_or(0)
}

/// Finds the bit by giving advice for `file`. Maps the file and reads the mode of the open file
/// that the kernel uses for the mapping. On an overlay file system that is another open file than
/// `file`, and the file system passes the advice on to it.
fn bit_by(reader: &mut Reader, layout: Layout, file: &File) -> io::Result<Option<u32>> {
    let mapped = MappedFile::map(file)?;
    let space = reader.attach(std::process::id())?;
    let Some(at) = layout.file_at(reader, &space, mapped.address())? else {
        return Ok(None);
    };
    let before = layout.mode_of(reader, at)?;
    advise_used_once(file, true)?;
    let advised = layout.mode_of(reader, at)?;
    advise_used_once(file, false)?;
    let after = layout.mode_of(reader, at)?;
    Ok(bit_of(before, advised, after))
}

/// Returns the bit that the advice set. The arguments are the file's mode before the advice, with
/// it, and after it was withdrawn. `None` unless exactly one bit was set and cleared again.
fn bit_of(before: u32, advised: u32, after: u32) -> Option<u32> {
    let changed = before ^ advised;
    let is_set = changed.is_power_of_two() && advised & changed != 0;
    (is_set && after == before).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_counts_only_if_the_advice_changes_it_alone() {
        assert_eq!(bit_of(0x1d, 0x80_001d, 0x1d), Some(0x80_0000));
        assert_eq!(bit_of(0, 0x8000_0000, 0), Some(0x8000_0000));
        for (before, advised, after) in [
            // The kernel ignores the advice.
            (0x1d, 0x1d, 0x1d),
            // Two bits change, or one is cleared.
            (0x1d, 0x180_001d, 0x1d),
            (0x1d, 0x80_001c, 0x1d),
            (0x1d, 0x1c, 0x1d),
            // Taking the advice back does not clear the bit, or changes another.
            (0x1d, 0x80_001d, 0x80_001d),
            (0x1d, 0x80_001d, 0x1c),
        ] {
            assert_eq!(
                bit_of(before, advised, after),
                None,
                "{before:x} {advised:x}"
            );
        }
    }
}
