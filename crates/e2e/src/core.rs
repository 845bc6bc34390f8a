//! Reads the memory in a core dump by the ELF's program headers.

/// Little-endian number of `bytes` bytes at offset `at`; `None` behind the end of the file.
fn number(core: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(core.get(at..at + bytes)?);
    Some(u64::from_le_bytes(value))
}

/// All memory in a core dump, by ascending address (x86-64): for each segment its first address and
/// its contents.
///
/// # Panics
/// If `core` is no core dump.
#[must_use]
pub fn segments(core: &[u8]) -> Vec<(u64, &[u8])> {
    let all = || -> Option<Vec<(u64, &[u8])>> {
        /// Type of a loadable segment (PT_LOAD in elf(5)).
        const LOAD: u64 = 1;
        let place = |value: u64| usize::try_from(value).ok();
        let (headers, size) = (place(number(core, 32, 8)?)?, place(number(core, 54, 2)?)?);
        let mut found = Vec::new();
        for header in 0..place(number(core, 56, 2)?)? {
            let at = headers + header * size;
            let [offset, start, length] = [8, 16, 32].map(|field| number(core, at + field, 8));
            if number(core, at, 4)? == LOAD {
                let from = place(offset?)?;
                found.push((start?, core.get(from..from + place(length?)?)?));
            }
        }
        Some(found)
    };
    all().expect("a core")
}

/// The `bytes` bytes of memory at `address`; `None` if no segment of the core dump holds all of
/// them.
#[must_use]
pub fn segment(core: &[u8], address: u64, bytes: usize) -> Option<&[u8]> {
    segments(core).into_iter().find_map(|(start, memory)| {
        let from = usize::try_from(address.checked_sub(start)?).ok()?;
        memory.get(from..from + bytes)
    })
}
