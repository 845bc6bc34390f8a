//! Refaults at a limit, on real memory: what the engine learns from them about which type of memory
//! to reclaim, anonymous or file.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::zram::Swap;
use e2e::{page_cache, pagetide, proc, wait};

/// Time limit of each step, on a busy machine, too.
const SOON: Duration = Duration::from_secs(180);
/// Refaults of file pages after which the test judges: many more than one scan can find.
const REFAULTS_MIN: u64 = 400;

/// Fills as much memory as the file of its first argument has once, and then reads this file at
/// random through a mapping: each page about once in 70 s if the second argument is the file's size
/// in 5 MiB.
const PROGRAM: &str = "\
import mmap, random, sys, time
file = open(sys.argv[1], 'rb')
used = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
idle = bytearray(b'a' * len(used))
chance = random.Random(1)
while True:
    for _ in range(int(sys.argv[2])):
        used[chance.randrange(len(used))]
    time.sleep(.05)
";

/// Regression: each scan opened a generation, so a file page that returned five scans after its
/// eviction did not count as recent. The refault controller never learned, and none of 6,724
/// refaults was an activation.
#[test]
fn refaults_between_distant_scans_count_and_idle_anonymous_memory_leaves() {
    let _serial = serial();
    let (folder, _swap) = (TempDir::new(), Swap::shared());
    let file = page_cache::file(&folder, 16);
    // New memory that is never used again pushes pages of the file out, again and again.
    let growing = PROGRAM.replace("time.sleep", "idle.extend(b'a' * (16 << 10)); time.sleep");
    let program = Run::new(["python3", "-c", &growing, &file, "3"]);
    let options = ["--memory-max", "28M", "--age-every", "1s"];
    let running = pagetide::run(&options, &program).start();
    let stat = |name: &str| {
        let stat = pagetide::stat(running.pid())?;
        stat[name].as_u64()
    };
    wait::until("it is managed", SOON, || stat("pgsteal").is_some());
    // Waits until many scans have opened generations: before that, every refault counts as recent.
    std::thread::sleep(Duration::from_secs(12));
    let figure = |name| stat(name).expect("it is managed");
    let [refaults, recent] = ["workingset_refault_file", "workingset_activate_file"].map(figure);
    wait::until("files refault", SOON, || {
        stat("workingset_refault_file").is_some_and(|now| now >= refaults + REFAULTS_MIN)
    });
    // Read in this order, so that refaults in between do not count as recent.
    let recent = figure("workingset_activate_file") - recent;
    let refaults = figure("workingset_refault_file") - refaults;
    assert!(
        recent * 10 >= refaults * 9,
        "{recent} of {refaults} refaults were recent"
    );
    let [all, files] = ["pgsteal", "pgsteal_file"].map(figure);
    assert!(
        files * 4 <= all,
        "{files} of {all} pages taken were file pages"
    );
    drop(running);
}

/// Waits until idle memory has made room for the file of [`PROGRAM`], of 64 MiB: fewer than one
/// read in 50 needs a major fault, and most of the file is mapped.
fn wait_for_room(pid: u32) {
    wait::until("the file is in memory", SOON, || {
        let majors = || proc::stat(pid, 12);
        let before = majors();
        std::thread::sleep(Duration::from_secs(5));
        let came = before.zip(majors()).map(|(before, now)| now - before);
        let mapped = proc::number(pid, "RssFile");
        came.is_some_and(|came| came < 5 * 20 * 12 / 50)
            && mapped.is_some_and(|bytes| bytes > 48 << 20)
    });
}

/// Regression: the pages that faults of a mapped file read ahead counted as cache that the kernel
/// drops at no cost, and the kernel was made to drop files first. So idle memory of 64 MiB stayed,
/// and a file of 64 MiB beside it had 55 major faults a second for ever.
#[test]
fn idle_memory_makes_room_for_a_mapped_file_at_a_hard_limit() {
    let _serial = serial();
    let (folder, _swap) = (TempDir::new(), Swap::shared());
    let file = page_cache::file(&folder, 64);
    let program = Run::new(["python3", "-c", PROGRAM, &file, "12"]);
    let options = ["--memory-max", "80M", "--age-every", "2s"];
    let running = pagetide::run(&options, &program).start();
    wait_for_room(running.pid());
}

/// Regression: as above, for a limit that `serve` enforces itself, by requests to the kernel to
/// drop page cache first.
#[test]
fn idle_memory_makes_room_for_a_mapped_file_of_a_tenant() {
    let _serial = serial();
    let (folder, _swap) = (TempDir::new(), Swap::shared());
    let tree = Tree::serve(&["--age-every", "2s"]);
    tree.make("a");
    tree.write("a/memory.high", "80m");
    let file = page_cache::file(&folder, 64);
    let mut command = tree.inside("a");
    command.extend(["python3", "-c", PROGRAM, &file, "12"].map(str::to_owned));
    let program = Run::new(command).start();
    wait_for_room(program.pid());
}

/// Fills as much memory as the file of its argument has, and then uses both at random. With a file
/// of 48 MiB each page is used about once in 8 s.
const PROGRAM_USING_BOTH: &str = "\
import mmap, random, sys, time
file = open(sys.argv[1], 'rb')
used = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
anon = bytearray(b'a' * len(used))
chance = random.Random(1)
while True:
    for _ in range(30):
        used[chance.randrange(len(used))]
        anon[chance.randrange(len(used))]
    time.sleep(.02)
";

/// Regression: files were left to the kernel, so the swappiness made no difference above 0. With
/// 60, 100 and 200 the program had 7 MiB of its file in memory.
#[test]
fn more_swappiness_keeps_more_of_a_mapped_file_in_memory() {
    let _serial = serial();
    let (folders, _swap) = ([(); 4].map(|()| TempDir::new()), Swap::shared());
    let start = |(folder, swappiness): (&TempDir, &str)| {
        let program = Run::new([
            "python3",
            "-c",
            PROGRAM_USING_BOTH,
            &page_cache::file(folder, 48),
        ]);
        let limits = ["--memory-max", "72M", "--swappiness", swappiness];
        let options = [&limits[..], &["--age-every", "2s"]].concat();
        pagetide::run(&options, &program).start()
    };
    let swappiness = ["0", "60", "100", "200"];
    let running: Vec<Running> = folders.iter().zip(swappiness).map(start).collect();
    wait::until("each keeps more of its file than the last", SOON, || {
        let mut sums = [0; 4];
        for _ in 0..15 {
            std::thread::sleep(Duration::from_secs(1));
            for (sum, one) in sums.iter_mut().zip(&running) {
                *sum += proc::number(one.pid(), "RssFile").unwrap_or(0);
            }
        }
        // Each higher swappiness keeps on average at least 1 MiB more of the file in memory.
        sums.is_sorted_by(|less, more| less + 15 * (1 << 20) <= *more)
    });
}
