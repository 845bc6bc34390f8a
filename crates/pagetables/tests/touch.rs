//! Reads of single bytes of another process, by which the kernel's lists count pages as accessed.

#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../src/testing.rs"]
mod testing;

use std::time::Duration;

use pagetables::access::{self, Touched};
use pagetables::{Cleared, Pace, PageTables, Part, Piece, Source};
use testing::Program;

/// Number of pages of the program.
const PAGES: u64 = 64;
/// A Python program that writes to each of its pages, prints their address, and waits.
const PROGRAM: &str = "
import ctypes, mmap, sys
area = mmap.mmap(-1, 64 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(15)
for page in range(64):
    area[page * 4096] = 1
print(ctypes.addressof(ctypes.c_char.from_buffer(area)), flush=True)
sys.stdin.read()
";

/// Starts the program; returns it with the address of its first page.
fn start() -> (Program, u64) {
    let mut program = Program::python(PROGRAM);
    let line = program.line().expect("it is ready");
    (program, line.parse().expect("an address"))
}

/// Number of present pages in the program's area, then how many of them have the accessed bit.
fn present_and_accessed(source: &mut PageTables, pid: u32, start: u64) -> (usize, usize) {
    let (mut present, mut accessed) = (0, 0);
    let area = start..start + PAGES * 4096;
    let read = source.peek(pid, &[area], &mut |_, piece| {
        if let Piece::Pages { entries, .. } = piece {
            let there = entries.iter().filter(|entry| entry.is_present());
            present += there.clone().count();
            accessed += there.filter(|entry| entry.is_accessed()).count();
        }
    });
    read.expect("its tables can be read");
    (present, accessed)
}

/// If our own reads set accessed bits, the next scan would take pages for used.
#[test]
fn reading_pages_sets_no_accessed_bit() {
    let mut source = PageTables::open().expect("root, BPF and BTF");
    let (mut program, start) = start();
    let pid = program.id();
    source.begin(pid).expect("its tables can be opened");
    let cleared = source.clear(
        (pid, Part::Anon),
        &mut Pace::default(),
        PAGES,
        Duration::from_secs(1),
    );
    assert!(matches!(cleared, Ok(Cleared::Done(_))), "{cleared:?}");
    let memory = access::open(pid, "mem").expect("our child");
    let touch = |addresses: &[u64]| access::touch((pid, &memory), addresses, 2);
    let pages: Vec<u64> = (0..PAGES).map(|page| start + page * 4096).collect();
    let all = touch(&pages).expect("it can be read");
    let none = touch(&[4096, 8192]).expect("nothing is there");
    let found = present_and_accessed(&mut source, pid, start);
    let own = access::touch((std::process::id(), &memory), &pages, 2);
    program.end();
    assert_eq!((all.pages, all.swapped_in), (PAGES, 0));
    assert_eq!(none, Touched::default());
    assert_eq!(own.expect("skipped"), Touched::default(), "our own memory");
    assert_eq!(found, (64, 0));
}
