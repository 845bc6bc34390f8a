//! Floods of connections and requests to `pagetide serve`, by HTTP and at its control socket: a
//! flood costs a bounded share of a processor, and other clients are served.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::control::tree_socket;
use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::{pagetide, proc};

/// Duration of the measurement of each flood.
const FLOOD_TIME: Duration = Duration::from_secs(4);
/// Duration after which a flood has spent the budget that was saved while no requests came.
const BUDGET_SPENT_AFTER: Duration = Duration::from_secs(2);
/// Highest accepted share of a processor: three times what a flood may cost, because of other work
/// of `serve` and a busy machine. (Before the fix it was 0.58 to 0.8.)
const SHARE_MAX: f64 = 0.15;
/// Longest accepted time until a request is answered; on a quiet machine it is well below a second.
const ANSWER_MAX: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(60);

/// A Python program with 200 clients of a socket, in 8 processes. Arguments: user id, path of the
/// socket, and the request that each client sends again and again, waiting for each answer.
const CLIENTS_SCRIPT: &str = r"
import os, socket, sys, threading, time
user, path, words = int(sys.argv[1]), sys.argv[2], sys.argv[3].encode().decode('unicode_escape').encode()
first = os.getpid()
for number in range(7):
    if os.fork() == 0:
        break
os.setgid(user)
os.setuid(user)
def ask():
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(words)
                while words and (got := client.recv(65536)):
                    if b'keep-alive' in words and got.endswith(b'\n'):
                        client.sendall(words)
        except OSError:
            pass
for _ in range(25):
    threading.Thread(target=ask, daemon=True).start()
if os.getpid() == first:
    print('floods', flush=True)
while os.getpid() == first or os.getppid() == first:
    time.sleep(.1)
os._exit(0)
";

/// Floods a socket. Returns the processor share that `serve` used, and the longest time that
/// another client waited: a reader of a file and, with `reports`, `pagetide report`.
fn measure_flood(
    tree: &Tree,
    (user, socket, words): (u32, &Path, &str),
    reports: bool,
) -> (f64, Duration) {
    let path = socket.display().to_string();
    let user = user.to_string();
    let mut flood = Run::new(["python3", "-c", CLIENTS_SCRIPT, &user, &path, words]).start();
    e2e::wait::until("it floods", SOON, || flood.stdout().contains("floods"));
    std::thread::sleep(BUDGET_SPENT_AFTER);
    let (begin, before) = (Instant::now(), cpu_seconds(tree));
    let mut longest = Duration::ZERO;
    while begin.elapsed() < FLOOD_TIME {
        let requested = Instant::now();
        assert!(tree.read("a/memory.stat").contains("anon "));
        if reports {
            let words = ["report", "/a", "--json", "--root", tree.root()];
            let report = pagetide::command(words).finish(SOON);
            assert!(report.status.success(), "{}", report.stderr);
        }
        longest = longest.max(requested.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    let share = (cpu_seconds(tree) - before) / begin.elapsed().as_secs_f64();
    flood.kill_and_reap();
    (share, longest)
}

/// Processor time that `serve` has used, seconds.
fn cpu_seconds(tree: &Tree) -> f64 {
    proc::processor_seconds(tree.pid()).expect("it runs")
}

/// Regression: a flood at the control socket cost 58% to 80% of a processor, and no budget limited
/// it.
#[test]
fn a_flood_costs_a_bounded_share_of_a_processor_and_others_are_served() {
    let _serial = serial();
    let folder = TempDir::new();
    let http = folder.file("http");
    let listen = format!("unix:{http}");
    let tree = Tree::serve(&["--listen", &listen, "--history", "none"]);
    tree.make("a");
    let _idle_program = IdleProgram::start(tree.inside("a"), 16);
    let control = tree_socket(tree.pid()).expect("it listens");
    let get = r"GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
    let once = format!(r"{get}\r\n");
    let again = format!(r"{get}Connection: keep-alive\r\n\r\n");
    let (ping, report) = (
        r#"{"op":"ping"}\n"#,
        r#"{"op":"tenant","path":"/a","ask":"report"}\n"#,
    );
    for (user, socket, words) in [
        (0, Path::new(&http), once.as_str()),
        (0, Path::new(&http), again.as_str()),
        (65_534, control.as_path(), ""),
        (0, control.as_path(), ""),
        (0, control.as_path(), ping),
        (0, control.as_path(), report),
    ] {
        // Clients with rights are served in turn: beside 200 clients that request reports without a
        // pause, one request takes seconds.
        let (share, longest) = measure_flood(&tree, (user, socket, words), words != report);
        println!("{socket:?} {words:?}: {share:.3} of a processor, answered in {longest:?}");
        assert!(share < SHARE_MAX, "{words:?}: {share}");
        assert!(longest < ANSWER_MAX, "{words:?}: {longest:?}");
    }
}
