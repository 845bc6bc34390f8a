//! Counts tests from the output of test binaries.

/// Tests that passed, failed and were ignored, summed over test binaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Tests among those that passed which had failed at the first try.
    pub(crate) retried: u64,
}

/// Name of the failed test in a line of a test binary's output.
pub(crate) fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.retried += other.retried;
    }

    /// Parses the closing line of xtask itself ([`Counts::sum`]); `None` for any other line.
    pub(crate) fn of_sum(line: &str) -> Option<Counts> {
        let (passed, rest) = line.split_once(" passed, ")?;
        let (failed, retried) = match rest.split_once(" failed, ") {
            Some((failed, rest)) => (failed, rest.strip_suffix(" at the second try")?),
            None => (rest.strip_suffix(" failed")?, "0"),
        };
        Some(Counts {
            passed: passed.parse().ok()?,
            failed: failed.parse().ok()?,
            ignored: 0,
            retried: retried.parse().ok()?,
        })
    }

    /// Returns the closing line: `N passed, M failed`, and `, K at the second try` if there are
    /// such tests.
    pub(crate) fn sum(&self) -> String {
        let mut line = format!("{} passed, {} failed", self.passed, self.failed);
        if self.retried > 0 {
            line += &format!(", {} at the second try", self.retried);
        }
        line
    }

    /// Returns the counts in a line of a test binary's output; all are zero unless it is the
    /// closing line.
    pub(crate) fn of_line(line: &str) -> Counts {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else {
            return Counts::default();
        };
        let of = |what: &str| {
            rest.split([';', '.'])
                .filter_map(|part| part.trim().strip_suffix(what))
                .find_map(|number| number.trim().parse().ok())
                .unwrap_or(0)
        };
        Counts {
            passed: of(" passed"),
            failed: of(" failed"),
            ignored: of(" ignored"),
            retried: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, failed_test};

    #[test]
    fn reads_the_closing_line() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered \
                    out; finished in 0.01s";
        assert_eq!(
            Counts::of_line(line),
            Counts {
                passed: 12,
                failed: 3,
                ignored: 1,
                retried: 0
            }
        );
        assert_eq!(failed_test("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed_test("test a::b ... ok"), None);
    }

    #[test]
    fn the_closing_line_is_parsed_as_it_was_printed() {
        for retried in [0, 2] {
            let counts = Counts {
                passed: 7,
                failed: 1,
                ignored: 0,
                retried,
            };
            assert_eq!(Counts::of_sum(&counts.sum()), Some(counts));
        }
        assert_eq!(Counts::of_sum("7 passed, 1 failed, 2 at last"), None);
    }

    #[test]
    fn ignores_every_other_line() {
        assert_eq!(Counts::of_line("test a::b ... ok"), Counts::default());
        assert_eq!(Counts::of_line("5 passed; 0 failed"), Counts::default());
    }
}
