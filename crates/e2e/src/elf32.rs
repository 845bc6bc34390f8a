//! The smallest 32-bit program that lasts: `pause()` for ever. For machines without 32-bit libraries.

/// i386 code: `mov eax, 29 (pause); int 0x80; jmp -9`.
const CODE: [u8; 9] = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7];
const BASE: u32 = 0x0804_8000;
const HEADERS: u32 = 52 + 32;

/// An ELF file with one loadable segment (elf(5)).
#[must_use]
pub fn pause() -> Vec<u8> {
    let mut out = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |out: &mut Vec<u8>, value: u16| out.extend(value.to_le_bytes());
    let word = |out: &mut Vec<u8>, value: u32| out.extend(value.to_le_bytes());
    half(&mut out, 2); // e_type: an executable
    half(&mut out, 3); // e_machine: i386
    // e_version, e_entry, e_phoff, e_shoff, e_flags
    for value in [1, BASE + HEADERS, 52, 0, 0] {
        word(&mut out, value);
    }
    // e_ehsize, e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx
    for value in [52, 32, 1, 0, 0, 0] {
        half(&mut out, value);
    }
    let size = HEADERS + 9;
    // p_type PT_LOAD, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_flags R+X, p_align
    for value in [1, 0, BASE, BASE, size, size, 5, 0x1000] {
        word(&mut out, value);
    }
    out.extend(CODE);
    out
}
