//! A core dump has all that was out: byte for byte what it has alone.
#![forbid(unsafe_code)]

use e2e::core::segment;
use e2e::guard::Run;
use e2e::notice::{beside, notice};
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;

/// `PAGES` of tests/programs/notice.
const BYTES: usize = 8 << 20;

#[test]
fn a_core_dump_is_the_same() {
    let _serial = serial();
    let _swap = Swap::new(1024);
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("Linux");
    assert!(
        !pattern.starts_with(['|', '/']),
        "core dumps go elsewhere here ({}): this test needs core_pattern `core`",
        pattern.trim()
    );
    let folder = TempDir::new();
    let dir = folder.path().display();
    // Each run leaves a file named after its process or not; the folder of each has but one.
    let script = format!(
        "mkdir -p {dir}/$NOTICE_MANAGED && cd {dir}/$NOTICE_MANAGED && ulimit -c unlimited && exec setarch -R {} dump",
        notice()
    );
    let pair = beside(&Run::new(["sh", "-c", &script]));
    pair.assert_same("dump");
    pair.assert_left("dump");
    let address = pair
        .managed
        .stdout
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("0x")?, 16).ok())
        .expect("it says where its memory is");
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
}
