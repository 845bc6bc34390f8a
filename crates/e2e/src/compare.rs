//! The central promise: the same program, the same answer, while everything that is cold leaves.

use std::time::Duration;

use crate::guard::{Outcome, Run, tail};
use crate::notice::POLICY;
use crate::pagetide;
use crate::zram::Swap;

const MIB: u64 = 1 << 20;
/// Of compressed memory: more than any of these programs has.
const SWAP_MIB: u64 = 2048;
/// Longer than any of them takes.
const LONG: Duration = Duration::from_secs(300);

/// At most so many runs for enough to leave.
const RUNS: u32 = 4;

/// A program, and how to judge it.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    run: Run,
    least: u64,
    meets: bool,
    filter: fn(&str) -> String,
}

impl Case {
    /// A command whose standard output is the same in every run.
    #[must_use]
    pub fn new<S: Into<String>>(name: &str, argv: impl IntoIterator<Item = S>) -> Case {
        Case {
            name: name.to_owned(),
            run: Run::new(argv),
            least: 8 * MIB,
            meets: false,
            filter: str::to_owned,
        }
    }

    /// With this text on standard input.
    #[must_use]
    pub fn stdin(mut self, text: &str) -> Case {
        self.run = self.run.stdin(text);
        self
    }

    /// So much must leave by the kernel's count, in bytes; 8 MiB where nothing is said.
    #[must_use]
    pub fn least(mut self, bytes: u64) -> Case {
        self.least = bytes;
        self
    }

    /// It writes files by name: alone first, then managed.
    #[must_use]
    pub fn one_by_one(mut self) -> Case {
        self.meets = true;
        self
    }

    /// Compares only what `filter` leaves of the output: some programs print times.
    #[must_use]
    pub fn compare_by(mut self, filter: fn(&str) -> String) -> Case {
        self.filter = filter;
        self
    }

    /// Runs it alone and managed, and compares. A busy machine leaves the manager little time, and a run in which hardly
    /// anything left shows nothing: then it is run again, a few times, and each time it is compared.
    ///
    /// # Panics
    /// Where anything differs, or if hardly anything left by the kernel's count.
    pub fn check(&self) {
        let swap = Swap::new(SWAP_MIB);
        let mut left = 0;
        for _ in 0..RUNS {
            left += self.run_beside_itself(&swap);
            if left >= self.least {
                return;
            }
        }
        panic!(
            "{}: {left} bytes left, at least {} should",
            self.name, self.least
        );
    }

    /// One run of each, compared; how many bytes left.
    fn run_beside_itself(&self, swap: &Swap) -> u64 {
        let name = &self.name;
        // The swap is ours and the first to be used, and nothing else is short of memory.
        let before = swap.written();
        // Both at a time, unless they would meet.
        let alone = self.run.start();
        let (alone, managed) = if self.meets {
            (alone.wait(LONG), pagetide::run(&POLICY, &self.run).start())
        } else {
            let managed = pagetide::run(&POLICY, &self.run).start();
            (alone.wait(LONG), managed)
        };
        let managed = managed.wait(LONG);
        let left = swap.written() - before;
        assert!(
            alone.status.success(),
            "{name} alone: {}\n{}",
            alone.status,
            alone.stderr
        );
        eprintln!(
            "{name}: {:.1} MiB left, {:.1} s alone, {:.1} s managed",
            left as f64 / MIB as f64,
            alone.took.as_secs_f64(),
            managed.took.as_secs_f64()
        );
        self.compare(&alone, &managed);
        left
    }

    fn compare(&self, alone: &Outcome, managed: &Outcome) {
        let name = &self.name;
        let errors = tail(&managed.stderr, 3000);
        assert_eq!(
            managed.status, alone.status,
            "{name}: another exit status\n{errors}"
        );
        let (want, got) = ((self.filter)(&alone.stdout), (self.filter)(&managed.stdout));
        assert!(
            !want.is_empty(),
            "{name}: nothing to compare in {}",
            alone.stdout
        );
        assert!(
            got == want,
            "{name}: another answer\nwithout: {want}\nwith:    {got}\n{errors}"
        );
        assert_eq!(alone.stderr, managed.stderr, "{name}: other errors");
    }
}
