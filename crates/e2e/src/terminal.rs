//! Runs a program on a terminal of its own, and returns what a user would see on its screen.
//!
//! Invariant: the terminal is a real one (script(1) opens it), and an emulator that is not ours
//! computes its screen. The terminal ends when its guard is dropped, after the program.

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::send;
use crate::{proc, wait};

/// Time limit of each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal and the program on it; when this is dropped, they end.
pub struct Terminal {
    script: Child,
    /// The pipe by which keys are typed.
    keys: ChildStdin,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    /// Runs the shell command `line` on a terminal of this size. If the line has further commands
    /// after the program, the screen shows their output, too.
    ///
    /// # Panics
    /// If the terminal cannot be started.
    #[must_use]
    pub fn start(line: &str, rows: u16, columns: u16) -> Terminal {
        let line = format!("stty rows {rows} cols {columns}; {line}");
        let mut script = Command::new("script")
            .args(["--quiet", "--flush", "--command", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("util-linux is there");
        let keys = script.stdin.take().expect("piped");
        let mut out = script.stdout.take().expect("piped");
        let (high, wide) = sizes(rows, columns);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(high, wide, 0)));
        let drawn = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut bytes) {
                let mut screen = drawn.lock().unwrap_or_else(PoisonError::into_inner);
                screen.process(&bytes[..count]);
            }
        });
        Terminal {
            script,
            keys,
            screen,
        }
    }

    /// Types keys, one after the other.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it is there");
        self.keys.flush().expect("it is there");
    }

    /// The rows of the screen, as text.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = screen.screen().size().1;
        screen.screen().rows(0, columns.get()).collect()
    }

    /// Whether the terminal is in its normal state, which programs restore when they end: the
    /// primary screen, with a visible cursor.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        !screen.screen().alternate_screen() && !screen.screen().hide_cursor()
    }

    /// Index, from 0 on, of the first row that contains `text`.
    #[must_use]
    pub fn row_of(&self, text: &str) -> Option<usize> {
        self.rows().iter().position(|row| row.contains(text))
    }

    /// Waits until the screen shows `text`.
    ///
    /// # Panics
    /// If it does not show it in time; the message has the screen.
    pub fn wait_for_text(&self, text: &str) {
        self.wait_until(text, || self.row_of(text).is_some());
    }

    /// Waits until `is_so` returns true; it may read the screen.
    ///
    /// # Panics
    /// If it does not in time; the message has `what` and the screen.
    pub fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let came = wait::poll(LIMIT, || is_so().then_some(()));
        assert!(came.is_some(), "{what}:\n{}", self.rows().join("\n"));
    }

    /// Changes the size of the terminal, as dragging a window would: the program gets SIGWINCH.
    ///
    /// # Panics
    /// If no program runs on the terminal.
    pub fn resize(&self, rows: u16, columns: u16) {
        let name = std::fs::read_link(format!("/proc/{}/fd/0", self.pid())).expect("a terminal");
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let (high, wide) = sizes(rows, columns);
        screen.screen_mut().set_size(high, wide);
        drop(screen);
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let words = ["rows", &rows, "cols", &columns];
        let status = Command::new("stty")
            .arg("-F")
            .arg(name)
            .args(words)
            .status();
        assert!(status.is_ok_and(|status| status.success()));
    }

    /// Pid of the program: the newest process on the terminal that is not an access worker.
    ///
    /// # Panics
    /// If no program runs on the terminal.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let is_program = |pid: &u32| proc::comm(*pid).as_deref() != Some("pagetide-access");
        let mut all = proc::descendants(self.script.id()).into_iter();
        all.rfind(is_program).expect("itself at least")
    }
}

/// Converts numbers of rows and columns to the emulator's type.
fn sizes(rows: u16, columns: u16) -> (NonZero<u16>, NonZero<u16>) {
    let size = |of: u16| NonZero::new(of).expect("a terminal has rows and columns");
    (size(rows), size(columns))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        for pid in proc::descendants(self.script.id()).into_iter().rev() {
            send(pid, Signal::KILL);
        }
        let _ = self.script.wait();
    }
}
