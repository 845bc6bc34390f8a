//! The doctor's table: what this host can do, and which commands work here.
//!
//! Invariant: below everything that is missing stands what to do; the last line names the commands
//! that work.

use daemon::preflight;
use host::report::AgeSource;
use serde::Serialize;

use crate::terminal::Style;

use super::sheet::{Ink, Sheet};

/// The state of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It works without restrictions.
    Ok,
    /// It works with restrictions.
    Limited,
    /// It does not work.
    Missing,
}

/// What a finding is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Reading,
    Paging,
}

/// One line of the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) part: Part,
    pub(crate) topic: String,
    pub(crate) state: State,
    pub(crate) detail: String,
    /// What to type or to request; `None` if the state is `Ok`.
    pub(crate) remedy: Option<String>,
}

/// All findings, and what follows from them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Health {
    pub(crate) findings: Vec<Finding>,
    /// The best source of ages that works here; `None` if that was not checked.
    pub(crate) age_source: Option<AgeSource>,
    /// Whether there is swap, and the right to page out to it.
    pub(crate) paging: bool,
}

impl Health {
    /// Returns what `--json` prints.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "ready": self.ready(),
            "age_source": self.age_source,
            "paging": self.paging,
            "findings": self.findings,
        })
    }

    fn of(&self, part: Part) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.part == part)
    }

    /// Returns whether all commands work, possibly with restrictions.
    pub(crate) fn ready(&self) -> bool {
        let may_put_out = |source| preflight::source(source).is_ok();
        self.paging && self.age_source.is_none_or(may_put_out)
    }
}

/// Returns the table for people.
pub(crate) fn text(health: &Health, style: Style) -> String {
    let topics = health.findings.iter().map(|finding| finding.topic.len());
    let width = topics.max().unwrap_or(0);
    let mut sheet = Sheet::new(style);
    sheet.heading("Reading ages: report, top");
    for finding in health.of(Part::Reading) {
        lines(finding, width, &mut sheet);
    }
    sheet.heading("Paging: run, attach, reclaim, demo");
    for finding in health.of(Part::Paging) {
        lines(finding, width, &mut sheet);
    }
    sheet.blank();
    sheet.hanging("", &verdict(health));
    sheet.finish()
}

/// Writes one finding, with its remedy below it.
fn lines(finding: &Finding, width: usize, sheet: &mut Sheet) {
    let state: (Ink, &str) = match finding.state {
        State::Ok => (Style::green, "ok     "),
        State::Limited => (Style::yellow, "limited"),
        State::Missing => (Style::red, "missing"),
    };
    let rest = format!("  {:width$}  ", finding.topic);
    sheet.marked(state, &rest, &finding.detail);
    if let Some(remedy) = &finding.remedy {
        sheet.hanging(&format!("         {:width$}  -> ", ""), remedy);
    }
}

/// Returns which commands work here.
fn verdict(health: &Health) -> String {
    let less = health.findings.iter().any(|f| f.state != State::Ok);
    let ages = match health.age_source {
        Some(AgeSource::None) => "report, top (sizes only)",
        Some(AgeSource::Referenced) => "report, top (whole mappings)",
        _ => "report, top",
    };
    if !health.paging {
        return format!(
            "Works here: {ages}, sim, mrc. Does not (see Paging): run, attach, reclaim."
        );
    }
    if !health.ready() {
        return format!(
            "Works here: {ages}, sim, mrc. Does not, for it is not known which pages are in use: reclaim, demo; run, attach but with --best-effort."
        );
    }
    match less {
        true => "All commands work here, some with less (see above).".to_owned(),
        false => "All commands work here: try `pagetide top`.".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn finding(topic: &str, state: State, remedy: Option<&str>) -> Finding {
        Finding {
            part: Part::Reading,
            topic: topic.to_owned(),
            state,
            detail: "detail".to_owned(),
            remedy: remedy.map(str::to_owned),
        }
    }

    pub(crate) fn health() -> Health {
        Health {
            findings: vec![
                finding("page tables", State::Limited, Some("sudo")),
                finding("kernel", State::Ok, None),
                Finding {
                    part: Part::Paging,
                    ..finding("swap", State::Missing, Some("swap on"))
                },
            ],
            age_source: Some(AgeSource::IdleBitmap),
            paging: false,
        }
    }

    #[test]
    fn what_is_missing_has_its_remedy_below() {
        let want = "\
Reading ages: report, top
limited  page tables  detail
                      -> sudo
ok       kernel       detail

Paging: run, attach, reclaim, demo
missing  swap         detail
                      -> swap on

Works here: report, top, sim, mrc. Does not (see Paging): run, attach, reclaim.
";
        assert_eq!(text(&health(), Style::PLAIN), want);
    }

    #[test]
    fn the_last_line_says_what_works() {
        let last = |health: &Health| {
            let text = text(health, Style::PLAIN);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let begin = words.rfind("Works here").or(words.rfind("All commands"));
            words[begin.unwrap_or(0)..].to_owned()
        };
        let mut one = health();
        one.age_source = Some(AgeSource::None);
        assert!(!one.ready() && last(&one).contains("sizes only"), "{one:?}");
        one.paging = true;
        assert!(!one.ready() && last(&one).contains("with --best-effort."));
        // Regression: a command that refuses to run there was listed as working.
        one.age_source = Some(AgeSource::Referenced);
        assert!(!one.ready() && last(&one).contains("whole mappings"));
        one.age_source = Some(AgeSource::PageTables);
        assert!(one.ready() && last(&one).contains("some with less"));
        one.findings.clear();
        assert!(last(&one).contains("try `pagetide top`"));
    }

    #[test]
    fn a_state_has_its_colour_and_long_details_go_on_below() {
        let mut one = health();
        one.findings[0].detail = "word ".repeat(30);
        let style = Style {
            color: true,
            ..Style::PLAIN
        };
        let text = text(&one, style);
        assert!(
            text.contains("\x1b[33mlimited\x1b[0m  page tables  word"),
            "{text}"
        );
        assert!(text.contains("\n                      word"), "{text}");
    }
}
