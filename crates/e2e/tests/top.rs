//! `pagetide top` on a terminal, as a user that presses keys sees it.
#![forbid(unsafe_code)]

use e2e::guard::send;
use e2e::idle_program::IdleProgram;
use e2e::pagetide;
use e2e::temp::serial;
use e2e::tenants::{Tree, start_scanned};
use e2e::terminal::Terminal;
use e2e::zram::Swap;
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
/// What the terminal sends for the key Down.
const DOWN: &str = "\x1b[B";
/// What the terminal sends for the key Left.
const LEFT: &str = "\x1b[D";

/// Runs `pagetide top WORDS` on a terminal of `columns` columns; after it has ended, the shell
/// prints its exit status and the state of the terminal.
fn top(words: &str, columns: u16) -> Terminal {
    let own = pagetide::binary();
    let line = format!("{own} top {words}; echo ended with $?; stty -a; sleep 600");
    Terminal::start(&line, 24, columns)
}

/// Checks that `top` ended with `status` and that the terminal is restored: its own screen, a
/// visible cursor, and lines that are edited and echoed.
fn check_restored(terminal: &Terminal, status: &str) {
    terminal.wait_for_text(&format!("ended with {status}"));
    // (Waits for both words, as the last line of stty's output may come later than the others.)
    terminal.wait_until("lines are edited and echoed", || {
        let text = terminal.rows().join(" ");
        text.contains(" icanon") && text.contains(" echo ")
    });
    assert!(terminal.is_restored(), "{}", terminal.rows().join("\n"));
}

/// Tenants are sorted, entered, filtered, and reclaimed from by a key that is pressed twice. By the
/// kernel's count only idle memory of that tenant is paged out.
#[test]
fn tenants_are_shown_and_reclaimed_with_keys() {
    let _serial = serial();
    let _swap = Swap::shared();
    let tree = Tree::serve(&["--age-every", "500ms"]);
    for name in ["web", "db", "db/inner"] {
        tree.make(name);
    }
    let web = start_scanned(&tree, "web", 48);
    let (db, inner) = (
        start_scanned(&tree, "db", 16),
        start_scanned(&tree, "db/inner", 8),
    );
    let mut terminal = top(
        &format!("--by tenant --every 500ms --root {}", tree.root()),
        100,
    );
    let row = |terminal: &Terminal, name: &str| terminal.row_of(&format!("{name} "));
    terminal.wait_for_text("tenants below /");
    terminal.wait_until("the larger one is first", || {
        let rows = [row(&terminal, "web"), row(&terminal, "db/")];
        rows[0].is_some() && rows[0] < rows[1]
    });
    // After ten seconds all of its memory is cold.
    terminal.wait_until("what it does not use is told", || {
        let rows = terminal.rows();
        let web = rows.iter().find(|row| row.contains("web "));
        web.is_some_and(|row| row.matches("4").count() >= 2)
    });
    terminal.press("/db\r");
    terminal.wait_until("one is left", || {
        row(&terminal, "web").is_none() && row(&terminal, "db/").is_some()
    });
    terminal.press("\r");
    terminal.wait_for_text("tenants below /db");
    terminal.wait_for_text("inner");
    terminal.press(LEFT);
    terminal.wait_until("all are there once more", || {
        row(&terminal, "web").is_some() && row(&terminal, "db/").is_some()
    });
    // The first row is the root, then comes the largest tenant.
    terminal.press(DOWN);
    terminal.press("r");
    terminal.wait_for_text("reclaim what /web did not use for 10 s? y for yes");
    assert_eq!(web.status("VmSwap"), 0, "nobody has said yes");
    terminal.press("y");
    terminal.wait_for_text("/web: paged out");
    assert!(web.status("VmSwap") > 44 * MIB);
    assert_eq!(db.status("VmSwap") + inner.status("VmSwap"), 0);
    // The tenant is still first if sorted by swap, but not if sorted by resident memory.
    terminal.wait_until("the other one is larger now", || {
        row(&terminal, "db/") < row(&terminal, "web")
    });
    terminal.press("ss");
    terminal.wait_until("most in swap is first", || {
        row(&terminal, "web") < row(&terminal, "db/")
    });
    terminal.resize(24, 40);
    terminal.wait_until("a narrow one has names", || row(&terminal, "web").is_some());
    assert!(terminal.rows().iter().all(|row| row.chars().count() <= 40));
    terminal.press("q");
    check_restored(&terminal, "0");
    let _ = web.touch();
}

/// Without `serve`, `top` shows processes and groups, and the reclaim key shows what to do instead.
#[test]
fn without_serve_processes_are_shown() {
    let _serial = serial();
    let idle_program = IdleProgram::start(std::iter::empty(), 32);
    let mut terminal = top("--every 500ms", 100);
    terminal.wait_for_text("processes below /");
    let name = format!("{} sleeper 32", idle_program.pid());
    terminal.press(&format!("/{name}\r"));
    terminal.wait_until("it alone is there", || {
        let rows = terminal.rows();
        let shown = rows.iter().skip(3).filter(|row| row.contains(" 32M "));
        terminal.row_of(&name).is_some() && shown.count() == 1
    });
    terminal.press("r");
    terminal.wait_for_text("only tenants of `pagetide serve`");
    terminal.press("\x03");
    check_restored(&terminal, "0");
    // `--by tenant` without a `serve` ends with a message, on the restored terminal.
    let terminal = top("--by tenant --root nobody-serves-this", 100);
    check_restored(&terminal, "1");
    terminal.wait_for_text("nobody-serves-this");
}

/// However `top` ends, the terminal is restored.
#[test]
fn a_terminal_is_as_it_was_after_a_signal_and_the_end_of_serve() {
    let _serial = serial();
    let mut tree = Tree::serve(&["--age-every", "500ms"]);
    let words = format!("--by tenant --every 500ms --root {}", tree.root());
    let terminal = top(&words, 80);
    terminal.wait_for_text("tenants below /");
    send(terminal.pid(), Signal::TERM);
    check_restored(&terminal, "0");
    let terminal = top(&words, 80);
    terminal.wait_for_text("tenants below /");
    tree.end();
    check_restored(&terminal, "1");
}
