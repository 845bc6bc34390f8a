//! A program on a terminal of its own, and what somebody sees there.
//!
//! Invariant: the terminal is a real one (script(1) opens it), and what is on it is read by an emulator that is not ours. It ends
//! with its guard, the program's own end first.

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::send;
use crate::{proc, wait};

/// Something is waited for so long.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal, and whoever runs on it.
pub struct Terminal {
    script: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    /// Runs a line of a shell on a terminal of so many rows and columns. The shell goes on behind the program: what it says then
    /// is on the screen, too.
    ///
    /// # Panics
    /// If it cannot be started.
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

    /// Presses keys, one after the other.
    ///
    /// # Panics
    /// If nobody has the terminal any more.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it is there");
        self.keys.flush().expect("it is there");
    }

    /// Its rows as they are.
    #[must_use]
    pub fn rows(&self) -> Vec<String> {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = screen.screen().size().1;
        screen.screen().rows(0, columns.get()).collect()
    }

    /// Whether it is as programs leave it: its first screen, with a cursor.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        !screen.screen().alternate_screen() && !screen.screen().hide_cursor()
    }

    /// The first row that has this text, counted from 0.
    #[must_use]
    pub fn row_of(&self, text: &str) -> Option<usize> {
        self.rows().iter().position(|row| row.contains(text))
    }

    /// Waits until it shows this.
    ///
    /// # Panics
    /// If it does not; with what it shows.
    pub fn shows(&self, text: &str) {
        self.until(text, || self.row_of(text).is_some());
    }

    /// Waits for something of what it shows.
    ///
    /// # Panics
    /// If it does not come; with what it shows.
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let came = wait::poll(LIMIT, || is_so().then_some(()));
        assert!(came.is_some(), "{what}:\n{}", self.rows().join("\n"));
    }

    /// Makes it another size, as a window is dragged: the program is told by SIGWINCH.
    ///
    /// # Panics
    /// If nobody runs on it.
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

    /// The newest process on it that is no access worker: the program, while that runs.
    ///
    /// # Panics
    /// If nobody runs on it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let is_program = |pid: &u32| proc::comm(*pid).as_deref() != Some("pagetide-access");
        let mut all = proc::descendants(self.script.id()).into_iter();
        all.rfind(is_program).expect("itself at least")
    }
}

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
