//! Mappings of files that a program has declared to be used only once (POSIX_FADV_NOREUSE).
//!
//! No file of /proc shows that advice, so the expected result of each step comes from the rules of
//! the kernel: the advice belongs to the open file, it covers all mappings of that open file in
//! every process, and only POSIX_FADV_NORMAL takes it back (docs/spec/reclaim-control.md 6.2).

#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../src/testing.rs"]
mod testing;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use pagetables::{Mapping, PageTables, Source};
use testing::Program;

/// Time limit of a test that takes some seconds.
const SOON: Duration = Duration::from_secs(120);

/// Functions for both programs. `step` prints the addresses at which an advised mapping begins, and
/// waits for a line.
const COMMON: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
word, number = ctypes.c_size_t, ctypes.c_int
libc.mmap.restype = libc.mremap.restype = word
libc.mmap.argtypes = [word, word, number, number, number, word]
libc.mremap.argtypes = [word, word, word, number]
libc.madvise.argtypes = libc.mprotect.argtypes = [word, word, number]
libc.munmap.argtypes = [word, word]
PAGE, READ, WRITE, SHARED, PRIVATE, FIXED, ANONYMOUS = 4096, 1, 2, 1, 2, 16, 32
path = sys.argv[1]
def opened(): return os.open(path, os.O_RDWR)
def once(fd): os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_NOREUSE)
def mapped(fd, pages=4, flags=SHARED, at=0, rights=READ | WRITE):
    found = libc.mmap(at, pages * PAGE, rights, flags, fd, 0)
    assert found != word(-1).value, ctypes.get_errno()
    return found
def step(name, *advised, pid=0):
    print(name, pid or os.getpid(), *advised, flush=True)
    sys.stdin.readline()
";

/// What a program may do with open files, mappings and advice, one after the other.
const STEPS: &str = "
plain, one = opened(), opened()
kept, first = mapped(plain), mapped(one)
step('nothing is advised')
os.posix_fadvise(one, PAGE, PAGE, os.POSIX_FADV_NOREUSE)
step('advice after the mapping, for a part of the file', first)
again, second = os.dup(one), mapped(one)
third = mapped(again)
step('later mappings of the same open file, also of a copied descriptor', first, second, third)
own = mapped(one, flags=PRIVATE)
ctypes.memset(own, 1, PAGE)
step('a private mapping with pages of its own', first, second, third, own)
libc.munmap(third, 4 * PAGE)
libc.munmap(second, 4 * PAGE)
os.close(again)
for advice in os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_RANDOM, os.POSIX_FADV_WILLNEED:
    os.posix_fadvise(one, 0, 0, advice)
libc.madvise(first, 4 * PAGE, 0)
step('other advice does not take it back', first, own)
moved = libc.mremap(first, 4 * PAGE, 4096 * PAGE, 1)
assert moved != word(-1).value
step('a mapping that grows and moves', moved, own)
libc.mprotect(moved + PAGE, PAGE, READ)
step('a mapping in three parts', moved, moved + PAGE, moved + 2 * PAGE, own)
libc.munmap(moved + 2 * PAGE, 4094 * PAGE)
libc.mprotect(moved, 2 * PAGE, READ | WRITE)
libc.madvise(kept, 4 * PAGE, 2)
step('beside MADV_SEQUENTIAL on another open file', moved, own, kept)
libc.madvise(kept, 4 * PAGE, 0)
goes, told = os.pipe()
child = os.fork()
if child == 0:
    os.read(goes, 1)
    os.posix_fadvise(one, 0, 0, os.POSIX_FADV_NORMAL)
    os._exit(0)
step('in a forked child', moved, own, pid=child)
step('in its parent', moved, own)
os.write(told, b'x')
os.waitpid(child, 0)
step('the forked child has taken it back')
once(one)
step('given once more', moved, own)
os.close(one)
step('the descriptor is closed, the mappings stay', moved, own)
libc.munmap(moved, 2 * PAGE)
libc.munmap(own, 4 * PAGE)
memory = os.memfd_create('x')
os.ftruncate(memory, 4 * PAGE)
once(memory)
ctypes.memset(mapped(memory), 1, PAGE)
zero = os.open('/dev/zero', os.O_RDWR)
once(zero)
ctypes.memset(mapped(zero, flags=PRIVATE), 1, PAGE)
step('the kernel ignores the advice for memory')
";

/// Two halves of a reserved area: files with the advice are mapped and unmapped in the lower half,
/// files without it in the upper half.
const CHURN: &str = "
import random
middle = 64 * PAGE
area = mapped(-1, 128, PRIVATE | ANONYMOUS, rights=0)
print('churn', os.getpid(), area, area + middle, flush=True)
while True:
    for half in 0, middle:
        fd = opened()
        if half == 0: once(fd)
        page = random.randrange(15) * 4 * PAGE
        mapped(fd, random.randrange(1, 5), SHARED | FIXED, area + half + page)
        os.close(fd)
    if random.random() < .1:
        mapped(-1, 128, PRIVATE | ANONYMOUS | FIXED, area, 0)
";

/// A running Python program, with a file of its own on the disk, which `Drop` removes.
struct WithFile {
    program: Program,
    file: String,
}

impl WithFile {
    fn start(name: &str, text: &str) -> WithFile {
        let file = format!("{}/{name}", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&file, vec![7; 4 * 4096]).expect("the disk has room");
        let program = Program::start(Command::new("python3").args(["-c", text, &file]));
        WithFile { program, file }
    }

    /// The next line: its words that are no numbers, the pid, and the addresses.
    fn next(&mut self) -> Option<(String, u32, Vec<u64>)> {
        let line = self.program.line()?;
        let is_number = |word: &&str| word.parse::<u64>().is_ok();
        let name: Vec<&str> = line.split(' ').filter(|word| !is_number(word)).collect();
        let mut numbers = line.split(' ').filter_map(|word| word.parse::<u64>().ok());
        let pid = u32::try_from(numbers.next().expect("a pid")).expect("a pid");
        Some((name.join(" "), pid, numbers.collect()))
    }
}

impl Drop for WithFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Returns a note for messages if cargo's target directory is in memory (tmpfs or ramfs), where the
/// kernel ignores the advice; otherwise an empty text.
fn note_of_memory() -> &'static str {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).canonicalize();
    let folder = folder.expect("cargo makes it");
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the kernel has it");
    let of = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    // Of mounts at one place, the last one is on top.
    let above = of.filter(|(place, _)| folder.starts_with(place));
    let nearest = above.max_by_key(|(place, _)| place.len());
    match nearest {
        Some((_, "tmpfs" | "ramfs")) => {
            " (cargo's target directory is in memory, where the kernel ignores the advice: set \
             CARGO_TARGET_DIR to a directory on a disk)"
        }
        _ => "",
    }
}

/// The mappings of a process that are advised.
fn advised(source: &mut PageTables, pid: u32) -> Vec<Mapping> {
    source.begin(pid).expect("it runs");
    let mappings = source.mappings(pid).expect("it can be read");
    let mut mappings = mappings.expect("it changes nothing");
    mappings.retain(|one| one.is_advised);
    mappings
}

#[test]
fn advice_for_an_open_file_covers_its_mappings_and_no_others() {
    let mut source = PageTables::open().expect("root, BPF and BTF");
    let text = [COMMON, STEPS].concat();
    let mut program = WithFile::start("noreuse", &text);
    let (mut steps, note) = (0, note_of_memory());
    while let Some((name, pid, expected)) = program.next() {
        let found = advised(&mut source, pid);
        let found: BTreeSet<u64> = found.iter().map(|one| one.start).collect();
        assert_eq!(found, expected.into_iter().collect(), "{name}{note}");
        steps += 1;
        program.program.go_on();
    }
    assert_eq!(steps, 14);
}

/// Mappings and open files that change all the time, and a process that dies while it is read: the
/// kernel's memory of an open file becomes another open file's. A list that changed while it was
/// read is not returned, so advice never appears at a mapping of a file without it.
#[test]
fn files_that_come_and_go_are_not_confused() {
    let mut source = PageTables::open().expect("root, BPF and BTF");
    let mut program = WithFile::start("churn", &[COMMON, CHURN].concat());
    let (_, pid, ends) = program.next().expect("it runs");
    let (mut read, mut seen, begin) = (0, 0, Instant::now());
    let note = note_of_memory();
    while read < 5_000 || seen < 20_000 {
        assert!(begin.elapsed() < SOON, "{read} lists, {seen} advised{note}");
        source.begin(pid).expect("it runs");
        let Some(mappings) = source.mappings(pid).expect("it can be read") else {
            continue;
        };
        read += 1;
        for one in mappings.iter().filter(|one| one.is_advised) {
            assert!(
                ends[0] <= one.start && one.end <= ends[1],
                "{one:x?} of {ends:x?}"
            );
            seen += 1;
        }
        let is_lower = |one: &&Mapping| ends[0] <= one.start && one.end <= ends[1];
        let mut files = mappings.iter().filter(is_lower);
        let missed = files.find(|one| one.inode != 0 && !one.is_advised);
        assert_eq!(missed, None, "{ends:x?}{note}");
    }
    let dies = std::thread::spawn(move || drop(program));
    while source.begin(pid).is_ok() && source.mappings(pid).is_ok() {}
    dies.join().expect("it is killed");
}
