//! Counts tests from the output of test binaries.

/// Tests that passed, failed and were ignored, summed over test binaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Parses the closing line of xtask itself, `N passed, M failed`; `None` for any other line.
    pub(crate) fn of_sum(line: &str) -> Option<Counts> {
        let (passed, failed) = line.split_once(" passed, ")?;
        Some(Counts {
            passed: passed.parse().ok()?,
            failed: failed.strip_suffix(" failed")?.parse().ok()?,
            ignored: 0,
        })
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn reads_the_closing_line() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 7 filtered \
                    out; finished in 0.01s";
        assert_eq!(
            Counts::of_line(line),
            Counts {
                passed: 12,
                failed: 3,
                ignored: 1
            }
        );
    }

    #[test]
    fn ignores_every_other_line() {
        assert_eq!(Counts::of_line("test a::b ... ok"), Counts::default());
        assert_eq!(Counts::of_line("5 passed; 0 failed"), Counts::default());
    }
}
