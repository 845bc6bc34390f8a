//! Where ages come from here, and whether bits can be set back.
//!
//! Invariant: the choice is that of [`crate::watch::source`], so that reports and the doctor say the same;
//! here it is only timed, and put into words.

use std::io;
use std::time::{Duration, Instant};

use pagetables::{Reader, SourceKind};

use crate::report::AgeSource;
use crate::watch::source::choose;

use super::Finding;

/// What trying gave.
pub(super) struct Found {
    pub(super) source: AgeSource,
    /// Levels of the tables, and how long opening took.
    tables: Option<(u32, Duration)>,
    /// Why it is not the page tables, and what would help.
    why: Option<(String, &'static str)>,
    /// Setting back our own bits.
    cleared: io::Result<()>,
}

impl Found {
    pub(super) fn gather() -> Found {
        let cleared = std::fs::write("/proc/self/clear_refs", "1");
        let begin = Instant::now();
        match Reader::open() {
            Ok(reader) => Found {
                source: AgeSource::PageTables,
                tables: Some((reader.levels(), begin.elapsed())),
                why: None,
                cleared,
            },
            Err(error) => Found {
                source: choose(None).map_or(AgeSource::None, |chosen| kind(chosen.source.kind())),
                tables: None,
                why: Some((error.to_string(), error.hint())),
                cleared,
            },
        }
    }

    pub(super) fn judge(&self) -> Vec<Finding> {
        vec![self.judge_source(), self.judge_clearing()]
    }

    fn judge_source(&self) -> Finding {
        let topic = "ages of pages";
        let (why, hint) = match &self.why {
            Some((why, hint)) => (why.as_str(), *hint),
            None => ("", ""),
        };
        let next = |costs: &str| format!("page tables are not read: {why}. {costs}");
        match self.source {
            AgeSource::PageTables => {
                let (levels, took) = self.tables.unwrap_or_default();
                let took = took.as_secs_f64() * 1000.0;
                let detail = format!(
                    "page tables of {levels} levels: each page's own (opened in {took:.0} ms)"
                );
                Finding::ok(topic, detail)
            }
            AgeSource::IdleBitmap => {
                let costs = "Next best is the idle-page bitmap: each page, but a shared one is as young \
                             as its youngest user makes it, and a look takes longer";
                Finding::limited(topic, next(costs), hint)
            }
            AgeSource::Referenced => {
                let costs = "Next best is smaps' Referenced: a whole mapping is as young as its youngest \
                             page, so less is seen to be cold than is";
                Finding::limited(topic, next(costs), hint)
            }
            AgeSource::None => {
                let costs = "No other source works: sizes only, all ages are unknown";
                Finding::missing(topic, next(costs), hint)
            }
        }
    }

    fn judge_clearing(&self) -> Finding {
        let topic = "clearing bits";
        let error = match &self.cleared {
            Ok(()) => return Finding::ok(topic, "works (tried by /proc/self/clear_refs)"),
            Err(error) => error,
        };
        let remedy = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => "mount -o remount,rw /proc",
            io::ErrorKind::NotFound => {
                "boot a kernel with CONFIG_PROC_PAGE_MONITOR, with /proc mounted"
            }
            // Ours may be refused too: a program that gained capabilities from its file is root's in /proc.
            _ => "run as root, or with CAP_DAC_OVERRIDE",
        };
        let detail = |costs| format!("writing /proc/self/clear_refs: {error}; {costs}");
        if self.source == AgeSource::IdleBitmap {
            return Finding::limited(topic, detail("the idle-page bitmap does without"), remedy);
        }
        Finding::missing(
            topic,
            detail("what was accessed once stays so, and its age is unknown"),
            remedy,
        )
    }
}

fn kind(kind: SourceKind) -> AgeSource {
    match kind {
        SourceKind::PageTables => AgeSource::PageTables,
        SourceKind::IdleBitmap => AgeSource::IdleBitmap,
        SourceKind::Referenced => AgeSource::Referenced,
        SourceKind::None => AgeSource::None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn found(source: AgeSource, cleared: io::Result<()>) -> Found {
        let is_best = source == AgeSource::PageTables;
        Found {
            source,
            tables: is_best.then_some((4, Duration::from_millis(12))),
            why: (!is_best).then(|| ("no BTF".to_owned(), "boot another")),
            cleared,
        }
    }

    #[test]
    fn the_best_is_told_with_its_levels() {
        let findings = found(AgeSource::PageTables, Ok(())).judge();
        assert!(findings.iter().all(|finding| finding.state == State::Ok));
        assert!(findings[0].detail.contains("4 levels"), "{findings:?}");
        assert!(findings[0].detail.contains("12 ms"), "{findings:?}");
    }

    #[test]
    fn the_next_is_told_with_why_it_is_not_the_best_and_what_it_costs() {
        for (source, state, words) in [
            (AgeSource::IdleBitmap, State::Limited, "bitmap"),
            (AgeSource::Referenced, State::Limited, "a whole mapping"),
            (AgeSource::None, State::Missing, "sizes only"),
        ] {
            let finding = found(source, Ok(())).judge_source();
            assert_eq!(finding.state, state);
            assert!(finding.detail.contains("no BTF"), "{finding:?}");
            assert!(finding.detail.contains(words), "{finding:?}");
            assert_eq!(finding.remedy.as_deref(), Some("boot another"));
        }
    }

    #[test]
    fn without_clearing_there_are_no_ages_but_by_the_bitmap() {
        let refused = || Err(io::ErrorKind::ReadOnlyFilesystem.into());
        let finding = found(AgeSource::PageTables, refused()).judge_clearing();
        assert_eq!(finding.state, State::Missing);
        assert!(
            finding
                .remedy
                .is_some_and(|remedy| remedy.contains("remount"))
        );
        let finding = found(AgeSource::IdleBitmap, refused()).judge_clearing();
        assert_eq!(finding.state, State::Limited);
    }
}
