//! Page cache of tenants: what a policy drops, and what it must not drop.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::page_cache::{file, read_by, reading};
use e2e::pagetide;
use e2e::temp::{TempDir, serial};
use e2e::tenants::{Tree, configuration};
use e2e::wait;
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
/// Longest time that a test waits for one event, also on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Regression: much of what is charged to a compile is page cache that is never read again, and
/// policies dropped none of it.
#[test]
fn a_policy_drops_cold_page_cache() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, other) = (TempDir::new(), TempDir::new());
    let policy =
        |more| format!("{{ by = \"cold-age\", older-than = \"1s\", every = \"1s\"{more} }}");
    let text = format!(
        "age-every = \"500ms\"\npolicy = {}\n[tenants.\"keeps\"]\npolicy = {}\n",
        policy(", cache-older-than = \"2s\""),
        policy("")
    );
    let config = configuration(&folder, &text);
    let tree = Tree::serve(&["--config", &config]);
    tree.make("drops");
    let idle_programs = ["drops", "keeps"].map(|name| IdleProgram::start(tree.inside(name), 16));
    read_by(&tree, "drops", &file(&folder, 64));
    read_by(&tree, "keeps", &file(&other, 64));
    let cache = |name| tree.kernel_stat(name, "total_cache");
    // The tenant without a policy keeps most of its 64 MiB of page cache. The kernel may reclaim
    // some (it sums its counters every two seconds), and so may DAMON where it pages out by
    // physical address (2 MiB at a time were seen).
    let has_its_cache = || cache("keeps") >= 48 * MIB;
    wait::until("it has read all", SOON, has_its_cache);
    wait::until("it is dropped", SOON, || cache("drops") < 8 * MIB);
    wait::until("it is said", SOON, || {
        tree.stdout()
            .contains("pages of unmapped page cache of /drops: there for 2s")
    });
    let has = wait::poll(Duration::from_secs(3), || has_its_cache().then_some(()));
    let at = tree.group("keeps").join("memory.stat");
    let reported = || std::fs::read_to_string(&at).unwrap_or_default();
    assert!(
        has.is_some(),
        "the other's cache: {}{}",
        reported(),
        tree.stdout()
    );
    assert!(!tree.stdout().contains("unmapped page cache of /keeps"));
    for idle_program in &idle_programs {
        wait::until("its memory leaves as ever", SOON, || {
            idle_program.status("VmSwap") > 8 * MIB
        });
        let _ = idle_program.touch();
    }
}

/// Regression: below the protected size, page cache and then as many bytes of heap were reclaimed.
///
/// Regression: the policy of a tenant dropped page cache in the hard-limit cgroup of a `run` inside
/// it.
#[test]
fn dropping_cold_page_cache_respects_protection_and_a_run_inside() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, other) = (TempDir::new(), TempDir::new());
    let ages = "older-than = \"3s\", every = \"3s\", cache-older-than = \"3s\"";
    let text = format!("age-every = \"500ms\"\npolicy = {{ by = \"cold-age\", {ages} }}\n");
    let config = configuration(&folder, &text);
    let tree = Tree::serve(&["--config", &config]);
    tree.make("low");
    tree.write("low/memory.low", "80m");
    let _kept = IdleProgram::start(tree.inside("low"), 64);
    read_by(&tree, "low", &file(&folder, 64));
    // A tenant with a `run` inside: only the manager of that may drop its page cache.
    tree.make("outer");
    let data = file(&other, 64);
    let script = format!("{}; echo read; exec sleep 100", reading(&data));
    let own = pagetide::run(&["--memory-max", "512M"], &Run::new(["sh", "-c", &script]));
    let inner = own.under(tree.inside("outer")).start();
    wait::until("it has read", SOON, || inner.stdout().contains("read"));
    let _outer = IdleProgram::start(tree.inside("outer"), 16);
    let cache = |name| tree.kernel_stat(name, "total_cache");
    wait::until("its cache goes", SOON, || cache("low") < 32 * MIB);
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(8) {
        let used = tree.number("low/memory.current");
        assert!(
            used >= 72 * MIB,
            "{used} bytes are left of the 80 MiB that are protected"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(cache("outer") >= 60 * MIB, "{} bytes", cache("outer"));
}

/// Regression: a program had made control groups of its own. A policy for page cache also paged out
/// heap in these groups, used or not, because each group has a swappiness of its own. And the
/// cgroup of a `run` in such a group lost its page cache.
#[test]
fn dropping_cold_page_cache_excludes_groups_that_a_program_has_made() {
    let _serial = serial();
    let _swap = Swap::shared();
    let (folder, other) = (TempDir::new(), TempDir::new());
    let ages = "older-than = \"1h\", every = \"1s\", cache-older-than = \"2s\"";
    let text = format!("age-every = \"500ms\"\npolicy = {{ by = \"cold-age\", {ages} }}\n");
    let tree = Tree::serve(&["--config", &configuration(&folder, &text)]);
    tree.make("ci");
    let job = tree.group("ci").join("job");
    std::fs::create_dir(&job).expect("the kernel makes it");
    let enter = format!("echo $$ > {}/cgroup.procs", job.display());
    let data = file(&folder, 64);
    let script = format!("{enter}; {}; echo read; exec sleep 600", reading(&data));
    let _ci = IdleProgram::start(tree.inside("ci"), 4);
    let inside = Run::new(["sh", "-c", &script])
        .under(tree.inside("ci"))
        .start();
    wait::until("it has read", SOON, || inside.stdout().contains("read"));
    let cache = || tree.kernel_stat("ci", "total_cache");
    wait::until("its cache is counted", SOON, || cache() >= 60 * MIB);
    // Meanwhile the page cache of a tenant without groups below it is dropped, twice.
    tree.make("plain");
    // (The cache of a tenant without processes stays.)
    let _plain = IdleProgram::start(tree.inside("plain"), 4);
    for _ in 0..2 {
        read_by(&tree, "plain", &file(&other, 64));
        let plain = || tree.kernel_stat("plain", "total_cache");
        // (The kernel sums its counters every two seconds.)
        wait::until("it is counted", SOON, || plain() >= 60 * MIB);
        let gone = wait::poll(SOON, || (plain() < 8 * MIB).then_some(()));
        assert!(gone.is_some(), "{} bytes: {}", plain(), tree.stdout());
    }
    assert!(cache() >= 60 * MIB, "{} bytes: {}", cache(), tree.stdout());
    drop(inside);
    wait::until("nobody is in it", SOON, || {
        std::fs::remove_dir(&job).is_ok()
    });
}

/// The page cache of a removed tenant is charged to its parent. A reclaim of the parent drops it,
/// and also the page cache of every child.
#[test]
fn page_cache_of_all_tenants_and_of_a_removed_one_can_be_reclaimed() {
    let _serial = serial();
    let _swap = Swap::shared();
    let folders = [TempDir::new(), TempDir::new(), TempDir::new()];
    let tree = Tree::serve(&["--age-every", "500ms"]);
    for (name, folder) in ["a", "b", "c"].iter().zip(&folders) {
        tree.make(name);
        read_by(&tree, name, &file(folder, 24));
    }
    let cache = || tree.kernel_stat("", "total_cache");
    wait::until("nobody is left in it", SOON, || {
        std::fs::remove_dir(tree.at("a")).is_ok()
    });
    assert!(cache() > 64 * MIB, "{} bytes: some went with it", cache());
    tree.write("memory.reclaim", "40m");
    let left = cache();
    assert!((24 * MIB..36 * MIB).contains(&left), "{left} bytes stayed");
    let _ = tree.try_write("memory.reclaim", "64m");
    assert!(cache() < 8 * MIB, "{} bytes stayed", cache());
}

/// A file in tmpfs; `Drop` removes it.
struct TmpfsFile(std::path::PathBuf);

impl Drop for TmpfsFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Old files in tmpfs are reported together with page cache, but cannot be dropped. A policy then
/// pages out old memory, and keeps page cache of files that were just read.
#[test]
fn young_page_cache_stays_while_old_files_in_tmpfs_cannot_be_dropped() {
    let _serial = serial();
    let _swap = Swap::shared();
    let name = format!("pagetide-e2e-{}", std::process::id());
    let in_memory = TmpfsFile(std::path::Path::new("/dev/shm").join(name));
    let folder = TempDir::new();
    let data = file(&folder, 32);
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    tree.write("a/memory.workingset.refresh_interval", "N0=500");
    let script = format!("head -c 48M /dev/zero > {}", in_memory.0.display());
    let words = ["sh", "-c", &script].map(str::to_owned);
    let made = Run::new(tree.inside("a").into_iter().chain(words)).finish(SOON);
    assert!(made.status.success(), "{}", made.stderr);
    let idle_program = IdleProgram::start(tree.inside("a"), 64);
    std::thread::sleep(Duration::from_secs(3));
    read_by(&tree, "a", &data);
    // When the report has the size of the file, it also has the other sizes.
    wait::until("it is known", SOON, || {
        let text = tree.read("a/memory.workingset.page_age");
        let words = text.split_whitespace();
        let files = words.filter_map(|word| word.strip_prefix("file=")?.parse::<u64>().ok());
        files.sum::<u64>() > 74 * MIB
    });
    let _ = tree.try_write("a/memory.reclaim", "32m");
    let of_files = tree.kernel_stat("a", "total_cache") - tree.kernel_stat("a", "total_shmem");
    let out = idle_program.status("VmSwap");
    assert!(
        of_files > 28 * MIB && out > 24 * MIB,
        "{of_files} bytes of files are left, {out} are out"
    );
}

/// Shared memory that one tenant made, and that a process of another tenant maps without using it.
/// When the first tenant is removed, the memory belongs to the second one, and a request there
/// pages it out. The kernel still charges it to the removed group. So on a host no pages remain in
/// a removed tenant (docs/spec/memcg-lru.md 3, event 7).
#[test]
fn shared_memory_of_a_removed_tenant_belongs_to_the_tenant_that_maps_it() {
    const MAP: &str = "import mmap, sys, time\nfile = open(sys.argv[1], 'r+b')\n\
         memory = mmap.mmap(file.fileno(), 0)\nmemory[::4096]\n\
         print('ready', flush=True)\ntime.sleep(600)";
    let _serial = serial();
    let _swap = Swap::shared();
    let name = format!("pagetide-e2e-shared-{}", std::process::id());
    let in_memory = TmpfsFile(std::path::Path::new("/dev/shm").join(name));
    let path = in_memory.0.display().to_string();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    let begin = |tenant: &str| {
        let run = Run::new(["python3", "-c", MAP, &path]).under(tree.inside(tenant));
        let running = run.start();
        wait::until("it has read all", SOON, || {
            running.stdout().contains("ready")
        });
        running
    };
    let has = |tenant: &str| tree.line(&format!("{tenant}/memory.stat"), "anon");
    ["maker", "user"]
        .iter()
        .for_each(|tenant| tree.make(tenant));
    let script = format!("head -c 48M /dev/zero > {path}");
    let words = ["sh", "-c", &script].map(str::to_owned);
    let made = Run::new(tree.inside("maker").into_iter().chain(words)).finish(SOON);
    assert!(made.status.success(), "{}", made.stderr);
    let maker = begin("maker");
    wait::until("it is known", SOON, || has("maker") >= 48 * MIB);
    let user = begin("user");
    // Some scans find it idle.
    std::thread::sleep(Duration::from_secs(2));
    assert!(has("user") < 24 * MIB, "each frame is counted once");
    drop(maker);
    wait::until("its tenant can be removed", SOON, || {
        std::fs::remove_dir(tree.at("maker")).is_ok()
    });
    wait::until("the other tenant has it", SOON, || has("user") >= 48 * MIB);
    let _ = tree.try_write("user/memory.reclaim", "40m");
    let left = e2e::proc::number(user.pid(), "RssShmem").expect("it runs");
    assert!(left < 24 * MIB, "{left} bytes stayed: {}", tree.stdout());
}
