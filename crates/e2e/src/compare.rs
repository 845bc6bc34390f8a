//! Tests pagetide's central promise: a program gives the same answer under pagetide as alone,
//! though all its cold memory is paged out.

use std::time::Duration;

use crate::guard::{Outcome, Run, tail};
use crate::notice::POLICY;
use crate::pagetide;
use crate::zram::Swap;

const MIB: u64 = 1 << 20;
/// Size of the zram swap, MiB; no tested program has as much memory.
const SWAP_MIB: u64 = 2048;
/// Time limit of a run.
const LONG: Duration = Duration::from_secs(300);

/// Maximum number of runs in which the minimum must be paged out.
const RUNS: u32 = 4;

/// A program to be compared with itself, and how.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    run: Run,
    /// Minimum number of bytes that must be paged out.
    least: u64,
    /// Whether two runs at the same time would write the same files.
    shares_files: bool,
    /// Returns the part of the output that is compared.
    filter: fn(&str) -> String,
}

impl Case {
    /// A case for a command whose standard output is the same in every run.
    #[must_use]
    pub fn new<S: Into<String>>(name: &str, argv: impl IntoIterator<Item = S>) -> Case {
        Case {
            name: name.to_owned(),
            run: Run::new(argv),
            least: 8 * MIB,
            shares_files: false,
            filter: str::to_owned,
        }
    }

    /// Sets the text of the standard input.
    #[must_use]
    pub fn stdin(mut self, text: &str) -> Case {
        self.run = self.run.stdin(text);
        self
    }

    /// Sets how many bytes must be paged out at least, by the kernel's count; the default is 8 MiB.
    #[must_use]
    pub fn min_paged_out(mut self, bytes: u64) -> Case {
        self.least = bytes;
        self
    }

    /// Runs the program alone first and only then under pagetide, instead of both at the same time.
    /// Needed if the program writes files with fixed names.
    #[must_use]
    pub fn one_by_one(mut self) -> Case {
        self.shares_files = true;
        self
    }

    /// Compares only what `filter` returns for the standard output, for programs that print times.
    #[must_use]
    pub fn compare_by(mut self, filter: fn(&str) -> String) -> Case {
        self.filter = filter;
        self
    }

    /// Runs the program alone and under pagetide, and compares the results. On a busy machine the
    /// manager gets little processor time, and hardly anything is paged out; such a run shows
    /// nothing. So the runs are repeated up to `RUNS` times, and compared each time.
    ///
    /// # Panics
    /// If the results differ, or if too little was paged out by the kernel's count.
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

    /// Runs the program once alone and once under pagetide, and compares the results. Returns how
    /// many bytes were paged out.
    fn run_beside_itself(&self, swap: &Swap) -> u64 {
        let name = &self.name;
        // The zram is ours and is used first; no other program is short of memory, so all of it
        // counts.
        let before = swap.written();
        // The two run at the same time, unless they would write the same files.
        let alone = self.run.start();
        let (alone, managed) = if self.shares_files {
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

    /// Checks that exit status, filtered output and errors are equal.
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
