//! Counts tests from the output of test binaries, and of this program itself.

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

    /// Parses the closing line of a test binary (`test result: ok. 3 passed; 0 failed; ...`) or of
    /// this program ([`Counts::sum`]); all counts are zero for any other line.
    pub(crate) fn of_line(line: &str) -> Counts {
        let is_sum = line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" passed, ");
        if !is_sum && !line.starts_with("test result: ") {
            return Counts::default();
        }
        let of = |what: &str| {
            line.split([';', '.', ','])
                .filter_map(|part| part.trim().strip_suffix(what))
                .find_map(|number| number.trim().parse().ok())
                .unwrap_or(0)
        };
        Counts {
            passed: of(" passed"),
            failed: of(" failed"),
            ignored: of(" ignored"),
            retried: of(" at the second try"),
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read_and_no_others() {
        let counts = Counts {
            passed: 12,
            failed: 3,
            ignored: 1,
            retried: 0,
        };
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered \
                    out; finished in 0.01s";
        assert_eq!(Counts::of_line(line), counts);
        for other in [
            "test a::b ... ok",
            "5 passed; 0 failed",
            "ok 5 passed, 1 failed",
        ] {
            assert_eq!(Counts::of_line(other), Counts::default());
        }
        assert_eq!(failed_test("test a::b ... FAILED"), Some("a::b"));
        assert_eq!(failed_test("test a::b ... ok"), None);
        for retried in [0, 2] {
            let counts = Counts {
                ignored: 0,
                retried,
                ..counts
            };
            assert_eq!(Counts::of_line(&counts.sum()), counts);
        }
    }
}
