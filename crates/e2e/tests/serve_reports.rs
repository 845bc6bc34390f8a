//! Working-set reports of tenants: when they are taken anew, who is told of pressure, and an agent that knows nothing of
//! pagetide, which works on the files alone.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::Run;
use e2e::programs;
use e2e::sleeper::Sleeper;
use e2e::temp::serial;
use e2e::tenants::Tree;
use e2e::wait;
use e2e::zram::Swap;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

fn known(tree: &Tree, tenant: &str, mib: u64) -> Sleeper {
    let sleeper = Sleeper::start(tree.inside(tenant), mib);
    wait::until("its pages are known", SOON, || {
        tree.line(&format!("{tenant}/memory.stat"), "anon") >= mib * MIB
    });
    sleeper
}

/// As on the kernel's own files: who has not read yet is ready, who has waits for pressure.
const WAITS: &str = "
import select, sys
file = open(sys.argv[1])
poll = select.poll()
poll.register(file, select.POLLPRI)
print('at first', bool(poll.poll(0)), flush=True)
file.read()
print('read', bool(poll.poll(300)), flush=True)
print('woken', bool(poll.poll(40000)), flush=True)
";

#[test]
fn pressure_wakes_who_waits_for_a_report() {
    let _serial = serial();
    let _swap = Swap::new(256);
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.make("a");
    let sleeper = known(&tree, "a", 64);
    tree.write("a/memory.workingset.refresh_interval", "N0=200");
    tree.write("a/memory.workingset.report_threshold", "N0=200");
    let file = tree
        .at("a/memory.workingset.page_age")
        .display()
        .to_string();
    let waits = Run::new(["python3", "-c", WAITS, &file]).start();
    wait::until("it waits", SOON, || waits.stdout().contains("read"));
    assert_eq!(waits.stdout(), "at first True\nread False\n");
    // What is asked for is no pressure.
    std::thread::sleep(Duration::from_millis(300));
    tree.write("a/memory.reclaim", "4m");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!waits.stdout().contains("woken"));
    tree.write("a/memory.max", "48m");
    wait::until("it is told", SOON, || waits.stdout().contains("woken True"));
    let _ = sleeper.touch();
}

#[test]
fn an_agent_of_version_2_takes_what_is_cold() {
    let _serial = serial();
    let _swap = Swap::new(512);
    let tree = Tree::serve(&["--age-every", "500ms"]);
    tree.write(
        "node0/workingset_report/page_age_intervals",
        "1000,2000,4000",
    );
    for name in ["cold", "hot"] {
        tree.make(name);
    }
    let cold = known(&tree, "cold", 64);
    let words = [
        programs::c("hotset"),
        "64".to_owned(),
        "64".to_owned(),
        "60".to_owned(),
        "--rate".to_owned(),
        "40000".to_owned(),
    ];
    let hot = Run::new(tree.inside("hot").into_iter().chain(words)).start();
    wait::until("it is filled", SOON, || hot.stderr().contains("ready"));
    let at = tree.at("").display().to_string();
    let agent = Run::new(["python3", &programs::source("agent.py"), &at, "3", "2000"]).start();
    wait::until("what is cold is gone", SOON, || {
        cold.status("VmSwap") > 60 * MIB
    });
    std::thread::sleep(Duration::from_secs(4));
    let out = e2e::proc::number(hot.pid(), "VmSwap").unwrap_or(0);
    assert!(
        out < 4 * MIB,
        "{out} bytes of what is in use: {}",
        agent.stdout()
    );
    assert!(agent.stderr().is_empty(), "{}", agent.stderr());
    let _ = cold.touch();
}
