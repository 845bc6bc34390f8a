//! The keeper's image: what is written into a target, laid out for a given address.
//!
//! Layout: one header page (`keeper`'s `boot.rs` lists its words), the ELF image, three stacks.
//! Invariant: the image is position independent but for its relative relocations, applied here.

mod built {
    include!(concat!(env!("OUT_DIR"), "/keeper_image.rs"));
}

const PAGE: u64 = 4096;
const STACK: u64 = 128 << 10;

/// Bytes to map for header, image and stacks.
pub(super) const LEN: u64 = PAGE + built::MEMORY.next_multiple_of(PAGE) + 3 * STACK;

/// What the header says beside addresses.
pub(super) struct Header {
    /// The target's process id.
    pub(super) target: u64,
    /// Where the stub is, and how long.
    pub(super) stub: (u64, u64),
    /// For a keeper that takes over descriptors: where table and file-tier counts are mapped.
    pub(super) inherit: Option<(u64, u64)>,
}

/// Addresses of the image at `base`.
pub(super) struct Layout {
    /// Executable part.
    pub(super) text: u64,
    /// Its bytes.
    pub(super) text_len: u64,
    /// Entry point.
    pub(super) entry: u64,
    /// Top of the stack of the first, short-lived process.
    pub(super) boot_stack: u64,
}

/// The layout at `base`.
pub(super) const fn layout(base: u64) -> Layout {
    let elf = base + PAGE;
    let (start, end) = built::TEXT;
    Layout {
        text: elf + start,
        text_len: end - start,
        entry: elf + built::ENTRY,
        boot_stack: base + LEN,
    }
}

/// The bytes for `base`: the header page without its ready mark, then the relocated image.
pub(super) fn bytes(base: u64, header: &Header) -> Vec<u8> {
    let elf = base + PAGE;
    let mut out = vec![0u8; 4096];
    out.extend_from_slice(built::BYTES);
    for &(offset, addend) in built::RELOCATIONS {
        let at = 4096 + usize::try_from(offset).unwrap_or(usize::MAX);
        let value = elf.wrapping_add_signed(addend).to_le_bytes();
        if out.len() < at + 8 {
            out.resize(at + 8, 0);
        }
        out[at..at + 8].copy_from_slice(&value);
    }
    let stacks = base + PAGE + built::MEMORY.next_multiple_of(PAGE);
    let (mode, table, refs) = header.inherit.map_or((0, 0, 0), |(t, r)| (1, t, r));
    let words = [
        0,
        0,
        0,
        0,
        header.target,
        LEN,
        stacks + STACK,
        STACK,
        header.stub.0,
        header.stub.1,
        mode,
        table,
        refs,
        0,
    ];
    for (i, word) in words.iter().enumerate() {
        out[i * 8..i * 8 + 8].copy_from_slice(&u64::to_le_bytes(*word));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relocations_land_inside_and_point_inside() {
        let base = 0x7000_0000_0000;
        let header = Header {
            target: 1,
            stub: (0, 0),
            inherit: None,
        };
        let image = bytes(base, &header);
        assert!(image.len() as u64 <= LEN - 3 * STACK);
        let plain = bytes(0, &header);
        for &(offset, addend) in built::RELOCATIONS {
            let at = 4096 + usize::try_from(offset).unwrap();
            let word = |b: &[u8]| u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
            assert_eq!(word(&image) - word(&plain), base);
            assert!(u64::try_from(addend).unwrap() < built::MEMORY);
        }
        let l = layout(base);
        assert!(l.entry >= l.text && l.entry < l.text + l.text_len);
        assert_eq!(l.text % 4096, 0);
    }
}
