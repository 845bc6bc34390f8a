//! Tests with lines as kernels write them, with lines that no kernel writes, and with mappings of
//! this process.

use proptest::prelude::*;

use super::*;

/// The device of files that the kernel keeps in memory (memfd, SysV).
const INTERNAL: Device = Device { major: 0, minor: 1 };

/// Returns the file systems of an invented host: /dev/shm, /dev, a root, huge pages.
fn filesystems() -> Filesystems {
    let mut filesystems = Filesystems::of(
        b"1 2 0:23 / /dev/shm rw - tmpfs tmpfs rw\n\
          1 2 0:6 / /dev rw - devtmpfs devtmpfs rw\n\
          1 2 0:40 / / rw - overlay overlay rw\n\
          1 2 0:50 / /mnt/huge rw - hugetlbfs none rw\n",
    );
    filesystems.set_internal(INTERNAL);
    filesystems
}

/// Returns the kind of a mapping with such a line in /proc/PID/maps.
fn kind(perms: &str, device: &str, inode: u64, name: &str) -> Option<Kind> {
    let line = format!("1000-3000 {perms} 00001000 {device} {inode}          {name}");
    let (mapping, name) = parse_line(line.as_bytes()).expect("a line");
    classify(&mapping, name, &filesystems())
}

#[test]
fn mappings_without_a_file_have_their_kind() {
    for name in [
        "",
        "[heap]",
        "[stack]",
        "[stack:12]",
        "[anon:glibc: malloc]",
    ] {
        assert_eq!(kind("rw-p", "00:00", 0, name), Some(Kind::Anon), "{name}");
    }
    for name in [
        "[vdso]",
        "[vvar]",
        "[vvar_vclock]",
        "[vsyscall]",
        "[uprobes]",
    ] {
        assert_eq!(kind("r-xp", "00:00", 0, name), Some(Kind::Device), "{name}");
    }
    assert_eq!(
        kind("rw-s", "00:01", 7, "[anon_shmem:x]"),
        Some(Kind::Shmem)
    );
}

#[test]
fn the_file_system_determines_the_kind() {
    for (device, name, expected) in [
        ("fe:00", "/usr/bin/sed", Kind::File),
        ("00:28", "/usr/bin/sed (deleted)", Kind::File),
        ("00:17", "/dev/shm/a", Kind::Shmem),
        ("00:17", "/tmp/a b\\012c (deleted)", Kind::Shmem),
        ("00:32", "/mnt/huge/x", Kind::Hugetlb),
        ("00:06", "/dev/kvm", Kind::Device),
        ("00:17", "/dev/nvidia0", Kind::Device),
        ("fe:00", "/dev/mem", Kind::Device),
        // On a disk, a file with such a name is a plain file, not shared memory.
        ("fe:00", "/memfd:x (deleted)", Kind::File),
        ("fe:00", "/SYSV00000000 (deleted)", Kind::File),
    ] {
        assert_eq!(kind("rw-s", device, 7, name), Some(expected), "{name}");
    }
}

#[test]
fn mounts_of_the_kernel_determine_the_kind() {
    for (device, name, expected) in [
        ("00:01", "/memfd:x (deleted)", Some(Kind::Shmem)),
        ("00:01", "/SYSV00000000 (deleted)", Some(Kind::Shmem)),
        ("00:01", "/dev/zero (deleted)", Some(Kind::Shmem)),
        ("00:01", "/drm mm object (deleted)", Some(Kind::Shmem)),
        // On another of the kernel's own devices, files with the same names consist of huge pages.
        ("00:0f", "/memfd:x (deleted)", Some(Kind::Hugetlb)),
        ("00:0f", "/SYSV00000000 (deleted)", Some(Kind::Hugetlb)),
        ("00:0f", "/anon_hugepage (deleted)", Some(Kind::Hugetlb)),
        ("00:0e", "anon_inode:[perf_event]", Some(Kind::Device)),
        ("00:0e", "socket:[123]", Some(Kind::Device)),
        ("00:0e", "/[aio] (deleted)", Some(Kind::Device)),
        ("00:63", "/somewhere/else", None),
    ] {
        assert_eq!(kind("rw-s", device, 0, name), expected, "{name}");
    }
    assert_eq!(kind("rw-p", "00:06", 5, "/dev/zero"), Some(Kind::Anon));
}

#[test]
fn mappings_that_reach_into_each_other_are_cut() {
    let text = b"1000-3000 rw-p 00000000 00:00 0 \n2000-5000 r--s 00001000 fe:00 9 /x\n\
                 2000-4000 rw-p 00000000 00:00 0 \nno line\n5000-5000 rw-p 00000000 00:00 0\n";
    let parsed = parse(text, &filesystems());
    let spans: Vec<_> = parsed
        .mappings
        .iter()
        .map(|m| (m.start, m.end, m.offset))
        .collect();
    assert_eq!(spans, [(0x1000, 0x3000, 0), (0x3000, 0x5000, 0x2000)]);
    let names = parsed.names.iter().map(|name| &text[name.clone()]);
    assert_eq!(names.collect::<Vec<_>>(), [b"", &b"/x"[..]]);
    assert!(parsed.unknown.is_empty());
}

#[test]
fn mappings_of_this_process_have_their_kinds() {
    let proc = Proc::system().unwrap();
    let mut filesystems = Filesystems::system(&proc).unwrap();
    let mappings = proc.named_maps(std::process::id(), &mut filesystems);
    let mappings = mappings.unwrap().unwrap().mappings;
    let here = |address: u64| {
        mappings
            .iter()
            .find(|m| m.start <= address && address < m.end)
            .map(|m| m.kind)
    };
    let local = 1u8;
    let address = |p: *const u8| u64::try_from(p.addr()).unwrap();
    assert_eq!(here(address(&raw const local)), Some(Kind::Anon));
    assert_eq!(here(address(b"constant".as_ptr())), Some(Kind::File));
    assert!(mappings.iter().any(|m| m.kind == Kind::Device), "the vdso");
    assert!(
        proc.named_maps(4_194_304, &mut filesystems)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_real_memfd_and_a_real_tmpfs_file_are_shared_memory() {
    use std::process::{Command, Stdio};
    let script = "import mmap,os,sys\n\
        f=os.memfd_create('a b'); os.ftruncate(f,8192); a=mmap.mmap(f,8192)\n\
        s=mmap.mmap(-1,12288)\n\
        g=os.open('/dev/shm',os.O_TMPFILE|os.O_RDWR); os.ftruncate(g,16384); b=mmap.mmap(g,16384)\n\
        print('x',flush=True); sys.stdin.read()\n";
    let Ok(mut child) = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    else {
        panic!("python3 is needed for this test");
    };
    let mut line = [0u8; 1];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let proc = Proc::system().unwrap();
    let mut filesystems = Filesystems::system(&proc).unwrap();
    let mappings = proc.named_maps(child.id(), &mut filesystems);
    let mappings = mappings.unwrap().unwrap().mappings;
    let shmem: Vec<u64> = mappings
        .iter()
        .filter(|m| m.kind == Kind::Shmem && m.is_shared)
        .map(|m| m.end - m.start)
        .collect();
    drop(child.stdin.take());
    child.wait().unwrap();
    for len in [8192, 12288, 16384] {
        assert!(shmem.contains(&len), "{len} in {shmem:?}");
    }
}

fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just(String::new()),
        "/[ -~]{0,9}",
        "\\[(heap|stack|anon:x|vdso)\\]",
        "(/memfd:|/SYSV|/dev/|anon_inode:|/anon_hugepage)[a-z ()]{0,9}",
    ];
    let address = prop_oneof![0u64..0x10000, any::<u64>()];
    (
        address,
        0u64..0x9000,
        "[r-][w-][x-][ps]",
        any::<u32>(),
        "[0-9a-f]{2}:[0-9a-f]{2}",
        any::<u64>(),
        name,
    )
        .prop_map(|(start, len, perms, offset, device, inode, name)| {
            let end = start.wrapping_add(len);
            format!("{start:x}-{end:x} {perms} {offset:08x} {device} {inode}      {name}\n")
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_goes(bytes in any::<Vec<u8>>(), texts in prop::collection::vec(line(), 0..20), cut in any::<prop::sample::Index>()) {
        let _ = parse(&bytes, &filesystems());
        let mut text = texts.concat().into_bytes();
        text.truncate(cut.index(text.len() + 1));
        let parsed = parse(&text, &filesystems());
        prop_assert!(parsed.mappings.iter().all(|m| m.start < m.end));
        prop_assert!(parsed.mappings.windows(2).all(|w| w[0].end <= w[1].start));
        prop_assert_eq!(parsed.names.len(), parsed.mappings.len());
        prop_assert!(parsed.names.iter().all(|name| !text[name.clone()].contains(&b'\n')));
    }

    #[test]
    fn what_is_written_is_read(start in 0u64..1 << 40, len in 1u64..1 << 30, offset in any::<u64>(), major in 0u32..1 << 12, minor in 0u32..1 << 20, inode in any::<u64>(), bits in any::<[bool; 4]>()) {
        let bit = |at: usize, yes, no| if bits[at] { yes } else { no };
        let perms = format!("{}{}{}{}", bit(0, 'r', '-'), bit(1, 'w', '-'), bit(2, 'x', '-'), bit(3, 's', 'p'));
        let end = start + len;
        let line = format!("{start:08x}-{end:08x} {perms} {offset:08x} {major:02x}:{minor:02x} {inode} /a b");
        let (mapping, name) = parse_line(line.as_bytes()).expect("a line");
        prop_assert_eq!(name, b"/a b");
        prop_assert_eq!((mapping.start, mapping.end, mapping.offset, mapping.inode), (start, end, offset, inode));
        prop_assert_eq!(mapping.device, Device { major, minor });
        prop_assert_eq!([mapping.readable, mapping.writable, mapping.executable, mapping.is_shared], bits);
    }
}
