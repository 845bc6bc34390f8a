//! The central promise: the same program, the same answer, in half of its memory.

use std::time::Duration;

use crate::guard::{Outcome, Run, tail};
use crate::report::Report;
use crate::temp::TempDir;
use crate::{pagetide, sample};

/// The default scan interval within which a program may outgrow its limit.
const INTERVAL: Duration = Duration::from_millis(60);
const MIB: u64 = 1 << 20;

/// A program, and how to judge it.
#[derive(Clone, Debug)]
pub struct Case {
    name: String,
    run: Run,
    limit: Option<u64>,
    options: Vec<String>,
    check_resident: bool,
    filter: fn(&str) -> String,
}

/// What was measured, for tests that ask for more.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// How it ended without pagetide.
    pub alone: Outcome,
    /// How it ended in half of its memory.
    pub managed: Outcome,
    /// What pagetide reports.
    pub report: Report,
}

impl Case {
    /// A command whose standard output is the same in every run.
    #[must_use]
    pub fn new<S: Into<String>>(name: &str, argv: impl IntoIterator<Item = S>) -> Case {
        Case {
            name: name.to_owned(),
            run: Run::new(argv),
            limit: None,
            options: Vec::new(),
            check_resident: true,
            filter: str::to_owned,
        }
    }

    /// With this text on standard input.
    #[must_use]
    pub fn stdin(mut self, text: &str) -> Case {
        self.run = self.run.stdin(text);
        self
    }

    /// A limit of its own, in bytes, for a program with children: pages that they share count twice
    /// in its peak.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Case {
        self.limit = Some(bytes);
        self.check_resident = false;
        self
    }

    /// More options of `pagetide run`.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Case {
        self.options
            .extend(options.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Compares only what `filter` leaves of the output: some programs print times.
    #[must_use]
    pub fn compare_by(mut self, filter: fn(&str) -> String) -> Case {
        self.filter = filter;
        self
    }

    /// Runs it alone and in half of its peak; compares, and checks the report.
    ///
    /// # Panics
    /// Where anything differs.
    pub fn check(&self) -> Verdict {
        let name = &self.name;
        let (alone, samples) = sample::until_end(self.run.start(), Duration::from_secs(600));
        assert!(
            alone.status.success(),
            "{name} alone: {}\n{}",
            alone.status,
            alone.stderr
        );
        let limit = self.limit.unwrap_or(sample::peak(&samples) / 2);
        let growth = sample::growth_within(&samples, INTERVAL);

        let folder = TempDir::new();
        let file = folder.path().join("report.json");
        let bytes = limit.to_string();
        let path = file.to_string_lossy().into_owned();
        let mut options = vec!["--memory-max", bytes.as_str(), "--report", path.as_str()];
        options.extend(self.options.iter().map(String::as_str));
        let run = pagetide::run(&options, &self.run);
        let limit_time = alone.took * 40 + Duration::from_secs(300);
        let (managed, samples) = sample::until_end(run.start(), limit_time);

        self.compare(&alone, &managed);
        let report = Report::read(&file);
        eprintln!(
            "{name}: limit {} MiB, peak {} MiB, evicted {}, refaulted {}, {:.1} s alone, {:.1} s managed",
            limit / MIB,
            report.number("resident_peak_bytes") / MIB,
            report.number("evicted_pages"),
            report.number("refaulted_pages"),
            alone.took.as_secs_f64(),
            managed.took.as_secs_f64()
        );
        assert_eq!(
            report.exit(),
            Some(0),
            "{name}: the report tells another exit status"
        );
        assert!(
            report.number("evicted_pages") > 0,
            "{name}: nothing was evicted"
        );
        if self.check_resident {
            self.check_resident(limit, growth, &report, &samples);
        }
        Verdict {
            alone,
            managed,
            report,
        }
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
    }

    /// The limit is on what can be managed; stacks, thread control blocks and the keeper's own pages
    /// come on top of what the kernel counts for the whole process.
    fn check_resident(&self, limit: u64, growth: u64, report: &Report, samples: &[sample::Sample]) {
        let name = &self.name;
        let most = limit + limit / 20 + growth;
        let peak = report.number("resident_peak_bytes");
        assert!(
            peak <= most,
            "{name}: resident peak {peak}, limit {limit}, allowed {most}"
        );
        assert!(
            report.number("refaulted_pages") > 0,
            "{name}: nothing came back"
        );
        let median = sample::median_late(samples);
        let most = limit + limit / 10 + 24 * MIB;
        assert!(
            median <= most,
            "{name}: the kernel counts {median}, limit {limit}, allowed {most}"
        );
    }
}
