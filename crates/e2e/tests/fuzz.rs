//! Random trees of groups and random processes: `serve` keeps its limits and settings, and `report`
//! agrees with the kernel.
//!
//! `PAGETIDE_SEED` repeats a run, `PAGETIDE_FUZZ_SECONDS` makes it longer.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::aged::{self, RunningReport, is_near, number, rollup};
use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::wait::Chance;
use e2e::{proc, wait};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);
/// Longest allowed time of one call to a file of the tree, also on a busy machine.
const CALL_MAX: Duration = Duration::from_secs(10);
/// Largest number of tenants at a time, and largest depth of the tree.
const TENANTS_MAX: usize = 60;
const DEPTH_MAX: usize = 12;

/// Duration of a test.
fn test_duration() -> Duration {
    let given = std::env::var("PAGETIDE_FUZZ_SECONDS").ok();
    Duration::from_secs(given.and_then(|text| text.parse().ok()).unwrap_or(4))
}

/// Returns a random element of `things`.
fn random_of<'a, T: ?Sized>(chance: &mut Chance, things: &[&'a T]) -> &'a T {
    let at = chance.below(things.len() as u64);
    things[usize::try_from(at).unwrap_or(0)]
}

/// Returns a random name of a tenant: plain, odd, or invalid.
fn random_name(chance: &mut Chance) -> OsString {
    let odd: [&[u8]; 16] = [
        b"a",
        b"b",
        b"c d",
        b".x",
        b"..",
        b"\xff\xfe",
        b"\x1b]0;x\x07",
        b"\xe2\x80\xae",
        b"memory.max",
        b"node0",
        b"host",
        b"=cmd",
        b"%s%n",
        b"'\"<&>",
        b"\\",
        b"-",
    ];
    match chance.below(4) {
        0 => OsString::from_vec(vec![
            b'n';
            usize::try_from(chance.below(300)).unwrap_or(1) + 1
        ]),
        1 => OsString::from_vec(random_of(chance, &odd).to_vec()),
        _ => OsString::from(format!("t{}", chance.below(20))),
    }
}

/// Returns random text to write to a file: valid values and garbage.
fn random_text(chance: &mut Chance) -> Vec<u8> {
    let words: [&[u8]; 20] = [
        b"max",
        b"0",
        b"1M",
        b"4096",
        b"-1",
        b"18446744073709551615",
        b"18446744073709551616",
        b"0x10",
        b"1e9",
        b"\n",
        b" ",
        b"\0",
        b"swappiness=200",
        b"\xff",
        b"some 150000 1000000",
        b"+memory",
        b"-memory",
        b"by=cold-age",
        b"50%",
        b"k",
    ];
    let mut text = Vec::new();
    for _ in 0..=chance.below(4) {
        text.extend_from_slice(random_of(chance, &words));
    }
    if chance.below(20) == 0 {
        text = text.repeat(2000);
    }
    text
}

/// Paths of the regular files of a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let all = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    all.map(|entry| entry.path()).collect()
}

/// The expected tree: paths of its tenants below the mount, and the calls that changed it.
struct Model<'a> {
    tree: &'a Tree,
    tenants: BTreeSet<PathBuf>,
    idle_program: u32,
}

impl Model<'_> {
    /// Returns the path of a random tenant, or of the root.
    fn any_tenant(&self, chance: &mut Chance) -> PathBuf {
        let at = usize::try_from(chance.below(self.tenants.len() as u64 + 1)).unwrap_or(0);
        self.tenants.iter().nth(at).cloned().unwrap_or_default()
    }

    /// Absolute path of a tenant or file.
    fn at(&self, path: &Path) -> PathBuf {
        self.tree.at("").join(path)
    }

    /// Makes a tenant with a random name in a random tenant, if that is possible.
    fn make(&mut self, chance: &mut Chance) {
        let path = self.any_tenant(chance).join(random_name(chance));
        let is_small = self.tenants.len() < TENANTS_MAX && path.components().count() <= DEPTH_MAX;
        if is_small && std::fs::create_dir(self.at(&path)).is_ok() {
            self.tenants.insert(path);
        }
    }

    /// Removes a random tenant, if that is possible.
    fn remove(&mut self, chance: &mut Chance) {
        let path = self.any_tenant(chance);
        if path != Path::new("") && std::fs::remove_dir(self.at(&path)).is_ok() {
            self.tenants.remove(&path);
        }
    }

    /// Renames a random tenant, if that is possible.
    fn rename(&mut self, chance: &mut Chance) {
        let (from, to) = (
            self.any_tenant(chance),
            self.any_tenant(chance).join(random_name(chance)),
        );
        if from == Path::new("") || std::fs::rename(self.at(&from), self.at(&to)).is_err() {
            return;
        }
        let moved = self.tenants.iter().filter_map(|path| {
            let below = path.strip_prefix(&from).ok()?;
            Some((path.clone(), to.join(below)))
        });
        let moved: Vec<_> = moved.collect();
        for (was, is) in moved {
            self.tenants.remove(&was);
            self.tenants.insert(is.components().collect());
        }
    }

    /// Writes random text, or a pid, to a random file.
    fn write(&self, chance: &mut Chance) {
        let all = files(&self.at(&self.any_tenant(chance)));
        let Some(file) = all.get(usize::try_from(chance.below(all.len() as u64)).unwrap_or(0))
        else {
            return;
        };
        let words = match file.ends_with("cgroup.procs") {
            true => self.idle_program.to_string().into_bytes(),
            false => random_text(chance),
        };
        // The write may succeed or be refused; either is right.
        if let Ok(mut file) = std::fs::OpenOptions::new().write(true).open(file) {
            let _ = file.write_all(&words);
        }
    }

    /// Reads a random file.
    fn read(&self, chance: &mut Chance) {
        let all = files(&self.at(&self.any_tenant(chance)));
        if let Some(file) = all.get(usize::try_from(chance.below(all.len() as u64)).unwrap_or(0)) {
            let _ = std::fs::read(file);
        }
    }

    /// Makes one random call, and checks that it took no longer than [`CALL_MAX`].
    fn step(&mut self, chance: &mut Chance) {
        let begin = Instant::now();
        let what = chance.below(8);
        match what {
            0 | 1 => self.make(chance),
            2 => self.remove(chance),
            3 => self.rename(chance),
            4 | 5 => self.write(chance),
            _ => self.read(chance),
        }
        let took = begin.elapsed();
        assert!(took < CALL_MAX, "step {what} took {took:?}");
    }
}

/// Makes, renames, writes and removes whatever is possible below a mount while `serve` scans: in
/// the end the tree has all tenants that were made and not removed.
#[test]
fn fuzz_a_tree_is_as_it_was_made_whatever_is_written() {
    let _serial = serial();
    let mut chance = Chance::from_env("fuzz_a_tree_is_as_it_was_made_whatever_is_written");
    let mut tree = Tree::serve(&["--age-every", "200ms"]);
    let idle_program = IdleProgram::start(Vec::new(), 4);
    let before = proc::number(tree.pid(), "VmRSS").unwrap_or(0);
    let begin = Instant::now();
    let mut model = Model {
        tree: &tree,
        tenants: BTreeSet::new(),
        idle_program: idle_program.pid(),
    };
    while begin.elapsed() < test_duration() {
        model.step(&mut chance);
    }
    for path in &model.tenants {
        assert!(
            model.at(path).is_dir(),
            "{path:?} was made, and is not there"
        );
    }
    let grown = proc::number(tree.pid(), "VmRSS")
        .unwrap_or(0)
        .saturating_sub(before);
    assert!(
        grown < 64 * MIB,
        "{grown} bytes for {} tenants",
        model.tenants.len()
    );
    assert!(!tree.stderr().contains("panicked"), "{}", tree.stderr());
    drop(idle_program);
    tree.end();
}

/// A Python program that makes random mappings (sizes, protections, holes, files, huge pages) and
/// children, and then waits.
const MAPPINGS_SCRIPT: &str = r#"
import mmap, os, random, sys, tempfile, time
chance = random.Random(int(sys.argv[1]))
kept = []
for _ in range(chance.randrange(1, 300)):
    pages = chance.choice([1, 2, 3, 16, 511, 512, 513, chance.randrange(1, 2000)])
    if chance.randrange(4) == 0:
        file = tempfile.TemporaryFile()
        file.truncate(pages * 4096)
        area = mmap.mmap(file.fileno(), pages * 4096)
    else:
        kind = mmap.MAP_ANONYMOUS | chance.choice([mmap.MAP_PRIVATE, mmap.MAP_SHARED])
        area = mmap.mmap(-1, pages * 4096, flags=kind)
    if chance.randrange(5) == 0 and pages >= 512:
        area.madvise(mmap.MADV_HUGEPAGE)
    step = chance.choice([1, 1, 2, 7, 64, 512])
    for page in range(0, pages, step):
        if chance.randrange(3): area[page * 4096] = 1
        else: area[page * 4096]
    kept.append(area)
for _ in range(chance.randrange(4)):
    if os.fork() == 0:
        for area in chance.sample(kept, min(len(kept), 5)): area[0] = 2
        time.sleep(600); os._exit(0)
time.sleep(0.2)
print('ready', flush=True)
time.sleep(600)
"#;

#[test]
fn fuzz_a_process_of_any_shape_has_what_the_kernel_says() {
    let _serial = serial();
    let mut chance = Chance::from_env("fuzz_a_process_of_any_shape_has_what_the_kernel_says");
    let begin = Instant::now();
    loop {
        let seed = chance.below(1 << 32).to_string();
        let shape = Run::new(["python3", "-c", MAPPINGS_SCRIPT, &seed].map(str::to_owned)).start();
        wait::until("it has its shape", SOON, || {
            shape.stdout().contains("ready")
        });
        let report = RunningReport::at(shape.pid(), 2, 500).finish().report;
        for pid in aged::pids(&report) {
            let mapped = aged::process(&report, pid).map_or(0, |one| number(one, "mapped_bytes"));
            let rss = rollup(&[pid], "Rss");
            let is_near = is_near(mapped, rss, 1) || mapped.abs_diff(rss) < MIB / 2;
            assert!(
                is_near,
                "shape {seed}: pid {pid} maps {mapped}, Rss {rss}: {report}"
            );
        }
        assert!(!aged::pids(&report).is_empty(), "shape {seed}");
        if begin.elapsed() >= test_duration() {
            break;
        }
    }
}
