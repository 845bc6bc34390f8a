//! What refaults at a limit on real memory teach the engine about the type to take.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;
use e2e::{page_cache, pagetide, wait};

/// Time limit of each step, on a busy machine, too.
const SOON: Duration = Duration::from_secs(180);
/// Refaults of file pages after which the test judges: many more than one scan can find.
const ENOUGH: u64 = 400;

/// Fills 16 MiB once, and then reads a mapped file of 16 MiB at random, each page about once in 70
/// s.
const PROGRAM: &str = "\
import mmap, random, sys, time
file = open(sys.argv[1], 'rb')
used = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
idle = bytearray(b'a' * (16 << 20))
chance = random.Random(1)
while True:
    for _ in range(3):
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
    let program = Run::new(["python3", "-c", PROGRAM, &file]);
    let options = ["--memory-max", "28M", "--age-every", "1s"];
    let running = pagetide::run(&options, &program).start();
    let stat = |name: &str| {
        let stat = pagetide::stat(running.pid())?;
        stat[name].as_u64()
    };
    wait::until("it is managed", SOON, || stat("pgsteal").is_some());
    // Before many scans have opened generations, every refault is recent.
    std::thread::sleep(Duration::from_secs(12));
    let figure = |name| stat(name).expect("it is managed");
    let [refaults, recent] = ["workingset_refault_file", "workingset_activate_file"].map(figure);
    wait::until("files refault", SOON, || {
        stat("workingset_refault_file").is_some_and(|now| now >= refaults + ENOUGH)
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
