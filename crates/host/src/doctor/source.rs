//! Where ages come from here, and whether bits can be set back.
//!
//! Invariant: the choice is that of [`crate::watch::source`], so that reports and the doctor say the same;
//! here it is only timed, and put into words.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use pagetables::{PageTables, SourceKind};

use crate::report::AgeSource;
use crate::watch::source::choose;

use super::Finding;

/// What helps a program that may not look at itself.
const STRANGE: &str = "run as root, or: setcap cap_bpf,cap_perfmon,cap_dac_read_search,\
    cap_dac_override,cap_sys_ptrace+ep \"$(command -v pagetide)\"";

/// What trying gave.
pub(super) struct Found {
    pub(super) source: AgeSource,
    /// Levels of the tables, and how long opening took.
    tables: Option<(u32, Duration)>,
    /// Why it is not the page tables, and what would help.
    why: Option<(String, &'static str)>,
    /// Setting back our own bits.
    cleared: io::Result<()>,
    /// Our own `/proc` is another user's: so it is for a program that gained capabilities from its file.
    is_strange: bool,
}

impl Found {
    pub(super) fn gather() -> Found {
        let cleared = std::fs::write("/proc/self/clear_refs", "1");
        let owner = std::fs::metadata("/proc/self/clear_refs").map(|file| file.uid());
        let us = rustix::process::geteuid().as_raw();
        let is_strange = owner.is_ok_and(|owner| owner != us);
        let begin = Instant::now();
        match PageTables::open() {
            Ok(reader) => Found {
                source: AgeSource::PageTables,
                tables: Some((reader.levels(), begin.elapsed())),
                why: None,
                cleared,
                is_strange,
            },
            Err(error) => Found {
                source: choose(None).map_or(AgeSource::None, |chosen| kind(chosen.source.kind())),
                tables: None,
                why: Some((error.to_string(), error.hint())),
                cleared,
                is_strange,
            },
        }
    }

    pub(super) fn judge(&self) -> Vec<Finding> {
        vec![self.judge_source(), self.judge_clearing()]
    }

    /// Whether we are kept from looking at ourselves, as we are not from others of our user.
    fn is_barred(&self) -> bool {
        let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        self.is_strange && self.cleared.as_ref().is_err_and(denied)
    }

    fn judge_source(&self) -> Finding {
        let topic = "ages of pages";
        let (why, hint) = match &self.why {
            // What failed then failed on ourselves.
            Some((why, _)) if self.is_barred() => (why.as_str(), STRANGE),
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
        if self.is_barred() && self.source != AgeSource::None {
            let detail = format!(
                "writing /proc/self/clear_refs: {error}: a program with capabilities of its file is \
                 root's in /proc, so this could not be tried; it should work on other processes of ours"
            );
            return Finding::limited(topic, detail, STRANGE);
        }
        let remedy = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => "mount -o remount,rw /proc",
            io::ErrorKind::NotFound => {
                "boot a kernel with CONFIG_PROC_PAGE_MONITOR, with /proc mounted"
            }
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
            is_strange: false,
        }
    }

    #[test]
    fn who_may_not_look_at_himself_may_look_at_others() {
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        let mut found = found(AgeSource::PageTables, denied());
        assert_eq!(found.judge_clearing().state, State::Missing);
        found.is_strange = true;
        assert_eq!(found.judge_clearing().state, State::Limited);
        found.source = AgeSource::None;
        found.why = Some(("our own page table".to_owned(), "report it"));
        let remedy = found.judge_source().remedy;
        assert!(remedy.is_some_and(|remedy| remedy.contains("cap_dac_read_search")));
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
