//! Users that pretend to be a manager, or that keep a manager from clearing bits: pagetide believes
//! only managers of root and of its own user.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::pagetide::assert_refused;
use e2e::temp::{TempDir, serial};
use e2e::user::{self, ANOTHER};
use e2e::zram::Swap;
use e2e::{guard, pagetide, wait};

const SOON: Duration = Duration::from_secs(60);
/// The words of a command that manages a process for a second.
fn attach_once(pid: u32) -> [String; 4] {
    ["attach", "--for", "1s", &pid.to_string()].map(str::to_owned)
}

/// A Python program that pretends to be the manager of the process in its first argument (`0`: of
/// itself). It listens in the socket directory of its user and under the names that root's managers
/// once had. It answers each request with its second argument.
const STRANGER: &str = "import os, socket, sys, threading\n\
pid, answer = int(sys.argv[1]) or os.getpid(), sys.argv[2].encode() + b'\\n'\n\
def serve(name):\n\
\x20   s = socket.socket(socket.AF_UNIX)\n\
\x20   try: s.bind(name); s.listen()\n\
\x20   except OSError as error: return print('refused', name, error, flush=True)\n\
\x20   while True:\n\
\x20       peer = s.accept()[0]\n\
\x20       try:\n\
\x20           while peer.recv(8192): peer.sendall(answer)\n\
\x20       except OSError: pass\n\
tree = 0xcbf29ce484222325\n\
for byte in b'pagetide': tree = ((tree ^ byte) * 0x100000001b3) % 2**64\n\
own = f'/tmp/pagetide-{os.getuid()}'\n\
os.makedirs(own + '/control', 0o700, exist_ok=True)\n\
names = [f'{own}/control/{pid}', f'/run/pagetide/control/{pid}', f'/run/pagetide/control/tree.{tree:016x}']\n\
names += [f'\\0pagetide.{pid}', f'\\0pagetide.tree.{tree:016x}']\n\
for name in names: threading.Thread(target=serve, args=(name,), daemon=True).start()\n\
print('listens', flush=True)\n\
threading.Event().wait(600)\n";

/// Starts [`STRANGER`] as the other user, and waits until it listens.
fn start_stranger(pid: u32, answer: &str) -> Running {
    let pid = pid.to_string();
    let script = ["/usr/bin/python3", "-c", STRANGER, &pid, answer];
    let stranger = user::run(ANOTHER, script).start();
    wait::until("it listens", SOON, || stranger.stdout().contains("listens"));
    stranger
}

/// Regression: root sent requests to any listener under the socket name of a process's manager.
/// `reclaim` printed that listener's own "put out", and `report --for 300ms` did not end. If a user
/// had taken the name, a process could not be managed, and a tree could not be served.
#[test]
fn a_stranger_is_no_manager() {
    const LIE: &str = r#"{"reclaimed":{"asked_pages":4399,"evicted_pages":4399,"would_pages":0,"shared_pages":0,"locked_pages":0,"lazyfree_pages":0,"referenced_pages":0,"busy_pages":0,"unknown_pages":0,"no_swap":false}}"#;
    let _serial = serial();
    let _swap = Swap::shared();
    let _sockets = TempDir::at("/tmp/pagetide-65533");
    // The process pretends to manage itself: nothing of its answers is printed.
    let liar = start_stranger(0, LIE);
    let done = pagetide::on("stat", liar.pid());
    assert_refused(&done, 1, &["no pagetide manages it"]);
    let pid = liar.pid().to_string();
    let done = pagetide::command(["reclaim", "--all", "--json", &pid].map(str::to_owned));
    let done = done.finish(SOON);
    assert!(!done.stdout.contains("4399"), "{}", done.stdout);
    let report = [
        "report",
        "--for",
        "300ms",
        "--age-every",
        "100ms",
        "--json",
        &pid,
    ];
    let report = report.map(str::to_owned);
    let done = pagetide::command(report).finish(SOON);
    assert!(done.status.success(), "{}", done.stderr);
    // A process of root's is managed and serves requests as if the stranger did not exist.
    let idle = guard::sleep();
    let thief = start_stranger(idle.pid(), r#"{"manages":true}"#);
    let pid = idle.pid().to_string();
    let attach = pagetide::command(["attach".to_owned(), pid]).start();
    wait::until("it is managed", SOON, || {
        pagetide::on("stat", idle.pid()).status.success()
    });
    assert!(pagetide::on("detach", idle.pid()).status.success());
    assert!(attach.wait(SOON).status.success());
    drop(thief);
}

/// Regression: a container may share the host's /run, but its root is in another pid namespace,
/// where pids name other processes. Such a root lifted limits of its own, and by taking socket
/// names it hid processes of the host.
#[test]
fn root_of_a_container_is_a_stranger() {
    const DETACH: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.connect(f'/run/pagetide/control/{sys.argv[1]}')\n\
        try: s.sendall(b'{\"op\":\"detach\",\"bring_back\":false}\\n')\n\
        except OSError: pass\n\
        print(s.recv(4096))\n";
    const LISTEN: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX)\n\
        s.bind(sys.argv[1])\n\
        s.listen()\n\
        print('listens', flush=True)\n\
        while True: peer = s.accept()[0]\n";
    let _serial = serial();
    let _swap = Swap::shared();
    let inside = |script: &str, words: &[&str]| {
        let words = ["/usr/bin/python3", "-c", script]
            .into_iter()
            .chain(words.iter().copied());
        Run::new(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
                .into_iter()
                .chain(words),
        )
    };
    let idle = guard::sleep();
    let pid = idle.pid().to_string();
    let manager = pagetide::command(["attach", &pid].map(str::to_owned)).start();
    wait::until("it is managed", SOON, || {
        pagetide::on("stat", idle.pid()).status.success()
    });
    // (The connection may be refused before the client can send.)
    let requested = inside(DETACH, &[&pid]).finish(SOON);
    assert!(
        requested.stdout.contains("denied"),
        "{}{}",
        requested.stdout,
        requested.stderr
    );
    assert!(pagetide::on("stat", idle.pid()).status.success());
    assert!(pagetide::on("detach", idle.pid()).status.success());
    assert!(manager.wait(SOON).status.success());

    let socket = e2e::control::process_socket(idle.pid());
    let thief = inside(LISTEN, &[&socket.display().to_string()]).start();
    wait::until("it listens", SOON, || thief.stdout().contains("listens"));
    let requested = pagetide::on("stat", idle.pid());
    let done = pagetide::command(attach_once(idle.pid())).finish(SOON);
    drop(thief);
    let _ = std::fs::remove_file(&socket);
    assert!(!requested.status.success(), "{}", requested.stdout);
    assert!(done.status.success(), "{}", done.stderr);
    let said = done.stdout + &done.stderr;
    assert!(said.contains("no command reaches"), "{said}");
}

/// Regression: a process that clears a program's bits was recognised by a socket name, which any
/// user could take; later by a lock of the program's clear_refs, which the program took itself.
/// Root's pagetide then knew no age of that program.
#[test]
fn a_user_claims_no_bits_against_root() {
    const THIEF: &str = "import fcntl, os, time\n\
        own = open('/proc/self/clear_refs', 'w')\n\
        fcntl.flock(own, fcntl.LOCK_EX)\n\
        claims = '/run/pagetide/claims'\n\
        for name in os.listdir(claims) if os.path.isdir(claims) else []:\n\
        \x20   try: fcntl.flock(open(f'{claims}/{name}'), fcntl.LOCK_EX)\n\
        \x20   except OSError: pass\n\
        print('locked', flush=True)\n\
        time.sleep(600)\n";
    let _serial = serial();
    let thief = user::run(ANOTHER, ["/usr/bin/python3", "-c", THIEF]).start();
    wait::until("it has tried", SOON, || thief.stdout().contains("locked"));
    let pid = thief.pid().to_string();
    let words = [
        "report",
        "--for",
        "2s",
        "--age-every",
        "500ms",
        "--json",
        &pid,
    ];
    let reported = pagetide::command(words.map(str::to_owned)).finish(SOON);
    let report: serde_json::Value = serde_json::from_str(&reported.stdout).expect("JSON");
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    assert!(
        number("unknown_age_bytes") * 10 < number("resident_bytes"),
        "{report:#}"
    );
}
