//! A program that a test starts and talks to.
//!
//! Invariant: the program ends with its test. Integration tests include this file, too.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running program; killed when dropped.
pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Starts a program with pipes for its input and output.
    pub(crate) fn start(command: &mut Command) -> Program {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("it is installed");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Program {
            child,
            stdin,
            lines: BufReader::new(stdout.expect("piped")).lines(),
        }
    }

    /// Starts Python with this script.
    pub(crate) fn python(script: &str) -> Program {
        Program::start(Command::new("python3").args(["-c", script]))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line that the program prints; `None` if it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        Some(self.lines.next()?.expect("it prints text"))
    }

    /// Writes a line to the program, which waits for it.
    pub(crate) fn go_on(&mut self) {
        let stdin = self.stdin.as_mut().expect("it has not ended");
        stdin.write_all(b"\n").expect("it reads");
    }

    /// Closes the program's input, and waits until the program has ended.
    pub(crate) fn end(&mut self) {
        drop(self.stdin.take());
        self.child.wait().expect("it ends");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
