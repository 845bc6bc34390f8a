//! Users that want to be taken for a manager, or to keep one from knowing ages: only root's and one's own managers count.
#![forbid(unsafe_code)]

use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;
use e2e::{pagetide, proc, wait};

const SOON: Duration = Duration::from_secs(60);
/// A user that no other test is.
const ANOTHER: &str = "setpriv --reuid=65533 --regid=65533 --clear-groups --";

#[track_caller]
fn assert_refused(outcome: &Outcome, code: i32, words: &[&str]) {
    let said = &outcome.stderr;
    assert_eq!(outcome.status.code(), Some(code), "{said}");
    for word in words.iter().chain(&["hint:"]) {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

fn sleeper() -> Running {
    let running = Run::new(["sleep", "100"]).start();
    wait::until("sleep", SOON, || {
        proc::comm(running.pid()).as_deref() == Some("sleep")
    });
    running
}

fn attach_once(pid: u32) -> [String; 4] {
    ["attach", "--for", "1s", &pid.to_string()].map(str::to_owned)
}

/// Does what it can to be taken for the manager of the process of its first argument (`0` for its own), and answers each
/// question with what its second argument says. With the directory of its user's managers, and the names that root's once had.
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

fn stranger(pid: u32, answer: &str) -> Running {
    let pid = pid.to_string();
    let script = ["/usr/bin/python3", "-c", STRANGER, &pid, answer];
    let stranger = Run::new(ANOTHER.split_whitespace().chain(script)).start();
    wait::until("it listens", SOON, || stranger.stdout().contains("listens"));
    stranger
}

/// Regression: root asked whatever listened under the name of a process's manager. `reclaim` printed that program's own \"put out\"
/// and `report --for 300ms` did not end; no program could be managed whose name a user had taken, nor a tree be served.
#[test]
fn a_stranger_is_no_manager() {
    const LIE: &str = r#"{"reclaimed":{"asked_pages":4399,"evicted_pages":4399,"would_pages":0,"shared_pages":0,"locked_pages":0,"lazyfree_pages":0,"referenced_pages":0,"busy_pages":0,"unknown_pages":0,"no_swap":false}}"#;
    let _serial = serial();
    let _swap = Swap::shared();
    let _sockets = TempDir::at("/tmp/pagetide-65533");
    // Of itself: nothing that it says is passed on.
    let liar = stranger(0, LIE);
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
    // Of a process of root's: it is managed, and asked about, as if there were no stranger.
    let idle = sleeper();
    let thief = stranger(idle.pid(), r#"{"manages":true}"#);
    let pid = idle.pid().to_string();
    let attach = pagetide::command(["attach".to_owned(), pid]).start();
    wait::until("it is managed", SOON, || {
        pagetide::on("stat", idle.pid()).status.success()
    });
    assert!(pagetide::on("detach", idle.pid()).status.success());
    assert!(attach.wait(SOON).status.success());
    drop(thief);
}

/// A container may share the host's /run: its root is in another pid namespace, and its numbers are of other processes. It lifted its own limits,
/// and by taking names it hid the host's processes.
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
    let idle = sleeper();
    let pid = idle.pid().to_string();
    let manager = pagetide::command(["attach", &pid].map(str::to_owned)).start();
    wait::until("it is managed", SOON, || {
        pagetide::on("stat", idle.pid()).status.success()
    });
    // (It may have been refused before it could ask.)
    let asked = inside(DETACH, &[&pid]).finish(SOON);
    assert!(
        asked.stdout.contains("denied"),
        "{}{}",
        asked.stdout,
        asked.stderr
    );
    assert!(pagetide::on("stat", idle.pid()).status.success());
    assert!(pagetide::on("detach", idle.pid()).status.success());
    assert!(manager.wait(SOON).status.success());

    let socket = e2e::control::of_process(idle.pid());
    let thief = inside(LISTEN, &[&socket.display().to_string()]).start();
    wait::until("it listens", SOON, || thief.stdout().contains("listens"));
    let asked = pagetide::on("stat", idle.pid());
    let done = pagetide::command(attach_once(idle.pid())).finish(SOON);
    drop(thief);
    let _ = std::fs::remove_file(&socket);
    assert!(!asked.status.success(), "{}", asked.stdout);
    assert!(done.status.success(), "{}", done.stderr);
    let said = done.stdout + &done.stderr;
    assert!(said.contains("no command reaches"), "{said}");
}

/// Regression: the process that clears a program's bits was known by a name that any user could take, and later by a lock of clear_refs,
/// which a program took of its own: root's pagetide knew no age of it.
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
    let words = ANOTHER
        .split_whitespace()
        .chain(["/usr/bin/python3", "-c", THIEF]);
    let thief = Run::new(words).start();
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
    let told = pagetide::command(words.map(str::to_owned)).finish(SOON);
    let report: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    assert!(
        number("unknown_age_bytes") * 10 < number("resident_bytes"),
        "{report:#}"
    );
}
