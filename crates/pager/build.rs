//! Builds the keeper and flattens it to an image that can be written into another process.
//!
//! Output in OUT_DIR: `keeper.bin` (the memory image from its first byte, without .bss) and
//! `keeper_image.rs` (its sizes, entry, executable range and relocations as constants).
#![forbid(unsafe_code)]

use object::elf::{FileHeader64, PF_X, PT_LOAD, R_X86_64_RELATIVE, SHT_RELA};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader};
use object::{Endianness, LittleEndian};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=build.rs");
    for path in [
        "../keeper/src",
        "../keeper/Cargo.toml",
        "../uffd/src/abi.rs",
        "../../Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={path}");
    }
    let elf = build(&out);
    let data = std::fs::read(&elf).expect("the keeper was just built");
    flatten(&data, &out);
}

fn build(out: &Path) -> PathBuf {
    let target = out.join("keeper-target");
    let mut cargo = Command::new(std::env::var("CARGO").expect("cargo sets CARGO"));
    // The outer build's flags (coverage, sanitizers) have no place in a program without a runtime.
    for (name, _) in std::env::vars() {
        let inherited = name.starts_with("CARGO_") && name != "CARGO_HOME";
        if inherited
            || name == "RUSTFLAGS"
            || name == "RUSTC_WRAPPER"
            || name == "RUSTC_WORKSPACE_WRAPPER"
        {
            cargo.env_remove(name);
        }
    }
    let args = [
        "rustc",
        "--quiet",
        "--package",
        "keeper",
        "--features",
        "blob",
        "--bin",
        "pagetide-keeper",
        "--profile",
        "keeper",
        "--target-dir",
    ];
    let link = [
        "--",
        "-C",
        "relocation-model=pie",
        "-C",
        "link-arg=-nostartfiles",
        "-C",
        "link-arg=-nostdlib",
        "-C",
        "link-arg=-static-pie",
        "-C",
        "link-arg=-Wl,--no-dynamic-linker,-z,noexecstack,-z,norelro",
    ];
    let status = cargo
        .args(args)
        .arg(&target)
        .args(link)
        .env("CFLAGS", "-fno-stack-protector -fPIC")
        .current_dir("../..")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the keeper does not build");
    target.join("keeper/pagetide-keeper")
}

fn flatten(data: &[u8], out: &Path) {
    let header = FileHeader64::<Endianness>::parse(data).expect("an ELF file");
    let endian = header.endian().expect("little endian");
    assert!(endian == Endianness::Little);
    let _ = LittleEndian;
    let mut image = Vec::new();
    let (mut memory, mut text) = (0u64, None);
    for segment in header
        .program_headers(endian, data)
        .expect("program headers")
    {
        if segment.p_type(endian) != PT_LOAD {
            continue;
        }
        let start = usize::try_from(segment.p_vaddr(endian)).expect("small");
        let bytes = segment.data(endian, data).expect("segment bytes");
        if image.len() < start + bytes.len() && !bytes.is_empty() {
            image.resize(start + bytes.len(), 0);
            image[start..start + bytes.len()].copy_from_slice(bytes);
        }
        let end = segment.p_vaddr(endian) + segment.p_memsz(endian);
        memory = memory.max(end);
        if segment.p_flags(endian) & PF_X != 0 {
            assert!(text.is_none(), "one executable segment");
            text = Some((segment.p_vaddr(endian) & !0xfff, end.next_multiple_of(4096)));
        }
    }
    let mut relocations = Vec::new();
    for section in header
        .section_headers(endian, data)
        .expect("section headers")
    {
        if section.sh_type(endian) != SHT_RELA {
            continue;
        }
        let (entries, _) = section
            .rela(endian, data)
            .expect("entries")
            .expect("a table");
        for r in entries {
            assert_eq!(
                r.r_type(endian, false),
                R_X86_64_RELATIVE,
                "only relative relocations"
            );
            relocations.push((r.r_offset(endian), r.r_addend(endian)));
        }
    }
    let text = text.expect("an executable segment");
    std::fs::write(out.join("keeper.bin"), &image).expect("OUT_DIR is writable");
    let code = format!(
        "pub(super) const ENTRY: u64 = {};\npub(super) const MEMORY: u64 = {memory};\n\
         pub(super) const TEXT: (u64, u64) = {text:?};\n\
         pub(super) const RELOCATIONS: &[(u64, i64)] = &{relocations:?};\n\
         pub(super) const BYTES: &[u8] = include_bytes!(\"keeper.bin\");\n",
        header.e_entry(endian)
    );
    std::fs::write(out.join("keeper_image.rs"), code).expect("OUT_DIR is writable");
}
