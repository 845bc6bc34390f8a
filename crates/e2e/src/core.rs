//! Core dumps: what memory they hold, by the ELF's program headers.

fn number(core: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(core.get(at..at + bytes)?);
    Some(u64::from_le_bytes(value))
}

/// The `bytes` of memory at `address`, if the core holds them in one segment: x86-64.
#[must_use]
pub fn segment(core: &[u8], address: u64, bytes: usize) -> Option<&[u8]> {
    /// PT_LOAD of elf(5).
    const LOAD: u64 = 1;
    let place = |value: u64| usize::try_from(value).ok();
    let (headers, size) = (place(number(core, 32, 8)?)?, place(number(core, 54, 2)?)?);
    for header in 0..place(number(core, 56, 2)?)? {
        let at = headers + header * size;
        let [offset, start, length] = [8, 16, 32].map(|field| number(core, at + field, 8));
        let (offset, start, length) = (offset?, start?, length?);
        let holds = start <= address && address + bytes as u64 <= start + length;
        if number(core, at, 4)? == LOAD && holds {
            let from = place(offset + (address - start))?;
            return core.get(from..from + bytes);
        }
    }
    None
}
