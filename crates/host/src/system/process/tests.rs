//! Tests with texts of stat, status and smaps, and with real processes that have odd names.

use std::process::{Child, Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::system::filesystems::Filesystems;
use crate::system::proc::Proc;

/// A child process; `Drop` kills and reaps it.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a child and waits for its first byte of output, so that its exec is over.
fn started(mut command: Command) -> Started {
    let mut child = command
        .stdout(Stdio::piped())
        .stdin(Stdio::piped())
        .spawn()
        .expect("started");
    let mut byte = [0u8];
    std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut byte).expect("a byte");
    Started(child)
}

#[test]
fn a_name_with_parentheses_and_newlines_is_parsed() {
    let mut python = Command::new("python3");
    python.args([
        "-c",
        "import sys\nopen('/proc/self/comm','w').write(') R\\n1 (\\x1b')\nprint(1,flush=True)\nsys.stdin.read()",
        "a\nb",
    ]);
    let child = started(python);
    let proc = Proc::system().unwrap();
    let stat = proc.stat(child.0.id()).unwrap().unwrap();
    assert_eq!(stat.comm, ") R\\n1 (\\u{1b}");
    assert_eq!(stat.parent, std::process::id());
    assert!(!stat.is_kernel() && !stat.is_over() && stat.threads == 1);
    let command = proc.command(child.0.id()).unwrap().unwrap();
    assert!(
        command.contains("-c import sys\\n") && command.ends_with(" a\\nb"),
        "{command}"
    );
    let status = proc.status(child.0.id()).unwrap().unwrap();
    assert_eq!((status.tgid, status.uid), (child.0.id(), 0));
    assert_eq!(status.ns_pids, [child.0.id()]);
    assert!(status.rss > 1 << 20 && status.peak_rss >= status.rss);
}

#[test]
fn a_process_that_ended_has_no_memory() {
    let proc = Proc::system().unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    let ended = || proc.stat(pid).unwrap().is_some_and(|stat| stat.is_over());
    while !ended() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // A zombie has a name but no memory.
    assert_eq!(proc.command(pid).unwrap().unwrap(), "[true]");
    assert_eq!(proc.smaps_rollup(pid).unwrap(), None);
    let mut filesystems = Filesystems::system(&proc).unwrap();
    assert!(
        proc.named_maps(pid, &mut filesystems)
            .unwrap()
            .is_none_or(|maps| maps.mappings.is_empty())
    );
    let _ = proc.secondary_mmu(pid);
    child.wait().unwrap();
    assert_eq!(proc.stat(pid).unwrap(), None);
    assert_eq!(proc.status(pid).unwrap(), None);
    assert_eq!(proc.command(pid).unwrap(), None);
    assert_eq!(proc.smaps(pid, &mut filesystems).unwrap(), None);
}

#[test]
fn threads_of_the_kernel_have_no_memory() {
    let proc = Proc::system().unwrap();
    let kthreadd = proc.stat(2).unwrap().unwrap();
    assert!(kthreadd.is_kernel());
    assert_eq!(proc.command(2).unwrap().unwrap(), "[kthreadd]");
    assert_eq!(proc.smaps_rollup(2).unwrap(), None);
    assert_eq!(proc.status(2).unwrap().unwrap().rss, 0);
}

#[test]
fn the_sums_of_this_process_agree() {
    let proc = Proc::system().unwrap();
    let me = std::process::id();
    let mut filesystems = Filesystems::system(&proc).unwrap();
    let memory = vec![1u8; 8 << 20];
    // In one run, other tests of this process allocated and freed ten MiB between the two reads.
    let mut until_next_scan = Vec::new();
    let (smaps, rollup) = loop {
        let smaps = proc.smaps(me, &mut filesystems).unwrap().unwrap();
        let rollup = proc.smaps_rollup(me).unwrap().unwrap();
        let rss: u64 = smaps.iter().map(|smap| smap.rss).sum();
        if rss.abs_diff(rollup.rss) < 4 << 20 {
            break (smaps, rollup);
        }
        until_next_scan.push((rss, rollup.rss));
        assert!(
            until_next_scan.len() < 10,
            "sums of smaps and smaps_rollup, in bytes: {until_next_scan:?}"
        );
    };
    assert!(rollup.pss_anon >= 8 << 20 && rollup.pss <= rollup.rss);
    let here = u64::try_from(memory.as_ptr().addr()).unwrap();
    let smap = smaps
        .iter()
        .find(|s| s.mapping.start <= here && here < s.mapping.end)
        .unwrap();
    assert!(smap.anonymous >= 8 << 20 && smap.referenced >= 8 << 20 && smap.flags.contains(b"wr"));
    assert_eq!(smap.size, smap.mapping.end - smap.mapping.start);
    drop(memory);
}

#[test]
fn smaps_are_parsed() {
    let text =
        b"1000-3000 rw-p 00000000 00:00 0      [heap]\nSize:  8 kB\nRss:  4 kB\nPss_Dirty: 1 kB\n\
        Swap: 4 kB\nVmFlags: rd wr mr lo \n2000-2800 r--s 0 fe:00 7 /over lap\nRss: 400 kB\n\
        4000-5000 r--p 00000000 fe:00 7   /a\nRss: 4 kB\nReferenced: 4 kB\n";
    let smaps = parse_smaps(text, &Filesystems::default());
    assert_eq!(smaps.len(), 2);
    assert_eq!(
        (smaps[0].size, smaps[0].rss, smaps[0].swap),
        (8192, 4096, 4096)
    );
    assert!(smaps[0].flags.contains(b"lo") && !smaps[0].flags.contains(b"ht"));
    assert_eq!((smaps[1].rss, smaps[1].referenced), (4096, 4096));
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let key = "(Tgid|Uid|VmRSS|Rss|Pss|Swap|NSpid|VmFlags|Referenced|1000-2000 rw-p 0 0)";
    let line = (key, "[ \t]{0,3}", "[0-9a-z: -]{0,12}", "( kB)?")
        .prop_map(|(key, blank, value, unit)| format!("{key}:{blank}{value}{unit}\n"));
    prop_oneof![
        any::<Vec<u8>>(),
        prop::collection::vec(line, 0..20).prop_map(|lines| lines.concat().into_bytes()),
        "[0-9]{0,3} \\([a-z)( ]{0,6}\\)( [0-9A-Z-]{1,3}){0,30}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_goes(text in text()) {
        let _ = (parse_stat(&text), parse_status(&text), parse_rollup(&text));
        let smaps = parse_smaps(&text, &Filesystems::default());
        prop_assert!(smaps.windows(2).all(|w| w[0].mapping.end <= w[1].mapping.start));
    }

    #[test]
    fn stat_is_parsed_as_written(pid in any::<u32>(), comm in prop::collection::vec(any::<u8>(), 0..16), numbers in prop::array::uniform9(any::<u32>()), started in any::<u64>()) {
        let [parent, group, session, flags, utime, stime, threads, _, _] = numbers;
        let mut text = format!("{pid} (").into_bytes();
        text.extend(&comm);
        text.extend(format!(") S {parent} {group} {session} 34817 -1 {flags} 1 2 3 4 {utime} {stime} 5 6 20 0 {threads} 0 {started} 7 8 9 10 11 12345 13\n").bytes());
        let stat = parse_stat(&text).expect("a stat");
        prop_assert_eq!((stat.pid, stat.parent, stat.group, stat.session), (pid, parent, group, session));
        prop_assert_eq!((stat.flags, stat.utime, stat.stime, stat.threads), (flags, u64::from(utime), u64::from(stime), threads));
        prop_assert_eq!((stat.state, stat.started, stat.stack), (b'S', started, 12345));
    }
}
