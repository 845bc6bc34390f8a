//! Which source of ages works on this host, whether accessed bits can be cleared, and which access
//! hints of programs are seen.
//!
//! Invariant: [`crate::watch::source`] chooses the source, for reports and for the doctor, so that
//! they agree. This module only times the choice and describes it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use pagetables::{PageTables, SourceKind};

use crate::report::AgeSource;
use crate::watch::source::choose;

use super::Finding;

/// Remedy if the kernel does not let pagetide read its own page tables.
const STRANGE: &str = "run as root, or: setcap cap_bpf,cap_perfmon,cap_dac_read_search,\
    cap_dac_override,cap_sys_ptrace+ep \"$(command -v pagetide)\"";

/// The sources of ages as found on this host.
pub(super) struct Found {
    pub(super) source: AgeSource,
    /// Number of levels of the page tables, and the time that opening the reader took.
    tables: Option<(u32, Duration)>,
    /// Whether MADV_SEQUENTIAL and MADV_RANDOM are seen, then whether POSIX_FADV_NOREUSE is
    /// ([`PageTables::sees_advice`]).
    hints: (bool, bool),
    /// The reason why page tables cannot be read, and the remedy; `None` if they can be read.
    why: Option<(String, &'static str)>,
    /// Result of clearing the accessed bits of this process.
    cleared: io::Result<()>,
    /// Whether another user owns our `/proc` files, as of a program that has file capabilities.
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
                hints: reader.sees_advice(),
                why: None,
                cleared,
                is_strange,
            },
            Err(error) => Found {
                source: choose(None).map_or(AgeSource::None, |chosen| kind(chosen.source.kind())),
                tables: None,
                hints: (false, false),
                why: Some((error.to_string(), error.hint())),
                cleared,
                is_strange,
            },
        }
    }

    pub(super) fn judge(&self) -> Vec<Finding> {
        let findings = [
            self.judge_source(),
            self.judge_clearing(),
            self.judge_hints(),
        ];
        findings.into()
    }

    /// Returns whether the kernel does not let us inspect our own process, though we may inspect
    /// other processes of our user.
    fn is_barred(&self) -> bool {
        let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        self.is_strange && self.cleared.as_ref().is_err_and(denied)
    }

    fn judge_hints(&self) -> Finding {
        let topic = "access hints";
        let detail = match self.hints {
            (true, true) => {
                let all = "MADV_SEQUENTIAL, MADV_RANDOM and POSIX_FADV_NOREUSE are seen";
                return Finding::ok(topic, all);
            }
            (true, false) => {
                "MADV_SEQUENTIAL and MADV_RANDOM are seen, POSIX_FADV_NOREUSE is not: the kernel \
                 ignores it (before Linux 6.3), or pagetide's own file is in memory (tmpfs)"
            }
            (false, _) => {
                "MADV_SEQUENTIAL, MADV_RANDOM and POSIX_FADV_NOREUSE are not seen: the kernel's \
                 tree of mappings is not read"
            }
        };
        let remedy = match self.why {
            Some(_) => {
                "make page tables readable: see the finding \"ages of pages\"; or name files that \
                 are used once in the configuration of serve (noreuse-paths)"
            }
            None => {
                "use Linux 6.3 or newer, with pagetide's file on a disk, as root; or name files \
                 that are used once in the configuration of serve (noreuse-paths)"
            }
        };
        Finding::limited(topic, detail, remedy)
    }

    fn judge_source(&self) -> Finding {
        let topic = "ages of pages";
        let (why, hint) = match &self.why {
            // Page tables could not be read because we may not inspect ourselves.
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
                    "page tables of {levels} levels: an age for each page (opened in {took:.0} ms)"
                );
                Finding::ok(topic, detail)
            }
            AgeSource::IdleBitmap => {
                let costs = "Uses the idle-page bitmap instead: it has an age for each page, but \
                             a shared page is as young as the latest access by any process, and a \
                             scan takes longer";
                Finding::limited(topic, next(costs), hint)
            }
            AgeSource::Referenced => {
                let costs = "Uses smaps' Referenced instead: a whole mapping is as young as its \
                             youngest page, so less cold memory is found than there is";
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
                "writing /proc/self/clear_refs: {error}: a program with file capabilities belongs \
                 to root in /proc, so this could not be tried; it should work on other processes \
                 of this user"
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
            return Finding::limited(
                topic,
                detail("the idle-page bitmap does not need it"),
                remedy,
            );
        }
        Finding::missing(
            topic,
            detail("accessed bits stay set after the first access, so ages are unknown"),
            remedy,
        )
    }
}

/// Returns how reports name this kind of source.
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
            hints: (is_best, is_best),
            why: (!is_best).then(|| ("no BTF".to_owned(), "boot another")),
            cleared,
            is_strange: false,
        }
    }

    #[test]
    fn a_program_that_may_not_inspect_itself_may_inspect_others() {
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
    fn the_best_source_is_reported_with_its_levels() {
        let findings = found(AgeSource::PageTables, Ok(())).judge();
        assert!(findings.iter().all(|finding| finding.state == State::Ok));
        assert!(findings[0].detail.contains("4 levels"), "{findings:?}");
        assert!(findings[0].detail.contains("12 ms"), "{findings:?}");
    }

    #[test]
    fn hints_that_are_not_seen_are_named() {
        let mut found = found(AgeSource::PageTables, Ok(()));
        found.hints.1 = false;
        let finding = found.judge_hints();
        assert_eq!(finding.state, State::Limited);
        assert!(finding.detail.contains("POSIX_FADV_NOREUSE is not"));
        found.hints.0 = false;
        let finding = found.judge_hints();
        assert!(finding.detail.contains("are not seen"));
        assert!(finding.remedy.is_some_and(|one| one.contains("Linux 6.3")));
    }

    #[test]
    fn hints_need_page_tables_that_can_be_read() {
        let found = found(AgeSource::IdleBitmap, Ok(()));
        let finding = found.judge_hints();
        assert_eq!(finding.state, State::Limited);
        assert!(finding.detail.contains("are not seen"));
        let remedy = finding.remedy.expect("it has one");
        let cause = format!("\"{}\"", found.judge_source().topic);
        assert!(remedy.contains(&cause), "{remedy}");
        assert!(!remedy.contains("Linux 6.3"), "{remedy}");
    }

    #[test]
    fn the_next_best_source_is_reported_with_reason_and_cost() {
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
