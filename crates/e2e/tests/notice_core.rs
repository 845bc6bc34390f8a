//! A core dump contains all memory, also swapped-out memory: the same bytes as of an unmanaged
//! program.
#![forbid(unsafe_code)]

use e2e::core::{segment, segments};
use e2e::guard::Run;
use e2e::notice::{beside, notice};
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;

/// Size of the program's memory, bytes: `PAGES` pages of tests/programs/notice.
const BYTES: usize = 8 << 20;

#[test]
fn a_core_dump_is_the_same() {
    let _serial = serial();
    let _swap = Swap::shared();
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("Linux");
    assert!(
        !pattern.starts_with(['|', '/']),
        "core dumps go elsewhere here ({}): this test needs core_pattern `core`",
        pattern.trim()
    );
    let folder = TempDir::new();
    let dir = folder.path().display();
    // The name of a core file may contain the pid or not, so each run has a folder of its own with
    // one file in it.
    let script = format!(
        "mkdir -p {dir}/$NOTICE_MANAGED && cd {dir}/$NOTICE_MANAGED && ulimit -c unlimited && exec setarch -R {} dump",
        notice()
    );
    let pair = beside(&Run::new(["sh", "-c", &script]));
    pair.assert_same("dump");
    pair.assert_paged_out("dump");
    let mut places = pair
        .managed
        .stdout
        .lines()
        .filter_map(|line| u64::from_str_radix(line.strip_prefix("0x")?, 16).ok());
    let mut next = || places.next().expect("it says where its memory is");
    let (address, without) = (next(), next());
    let core = |managed: &str| {
        let mut files = std::fs::read_dir(folder.path().join(managed)).expect("a folder a run");
        let file = files.next().expect("a core").expect("readable");
        std::fs::read(file.path()).expect("readable")
    };
    let (alone, managed) = (core("0"), core("1"));
    let [want, got] = [&alone, &managed].map(|core| segment(core, address, BYTES));
    let (want, got) = (want.expect("dumped alone"), got.expect("dumped managed"));
    assert!(want == got, "the dumped memory differs");
    assert!(want.iter().any(|byte| *byte != 0), "all zeros");
    assert_eq!(alone.len(), managed.len(), "sizes of the cores");
    let [a, b] = [&alone, &managed].map(|core| segments(core));
    let bounds = |all: &[(u64, &[u8])]| -> Vec<(u64, usize)> {
        all.iter().map(|(at, bytes)| (*at, bytes.len())).collect()
    };
    assert_eq!(bounds(&a), bounds(&b), "segments");
    // The environments differ, and so do the stack and one or two pages of variables.
    let pages = a
        .iter()
        .zip(&b)
        .flat_map(|(a, b)| a.1.chunks(4096).zip(b.1.chunks(4096)));
    let differ = pages.filter(|(a, b)| a != b).count();
    assert!(differ <= 24, "{differ} pages differ");
    let dumped = segment(&managed, without, BYTES);
    assert!(dumped.is_none(), "what was not to be dumped is in it");
}
