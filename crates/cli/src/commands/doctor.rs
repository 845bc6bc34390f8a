//! `pagetide doctor`.

use std::io::Write;

use host::report::AgeSource;
use pager::manage::Kernel;
use pager::vet::host::{Facts, judge, ready};

use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::findings::{Finding, Health, Part, text};

pub(super) fn doctor(json: bool) -> Result<u8, Failure> {
    let facts = Facts::gather(&Kernel);
    let judged = judge(&facts);
    let paging = ready(&judged);
    let reading = reading();
    let mut findings = reading.findings;
    findings.extend(judged.into_iter().map(Finding::from));
    let health = Health {
        findings,
        age_source: reading.source,
        paging,
    };
    let mut out = std::io::stdout().lock();
    if json {
        let value = serde_json::json!({
            "ready": health.ready(),
            "kernel": facts.release,
            "age_source": health.age_source,
            "paging": health.paging,
            "findings": health.findings,
        });
        writeln!(out, "{value:#}")?;
    } else {
        write!(out, "{}", text(&health, Style::of_stdout()))?;
    }
    Ok(if health.ready() {
        0
    } else {
        pager::ExitCode::Missing as u8
    })
}

/// What `host` finds out about reading ages.
struct Reading {
    findings: Vec<Finding>,
    /// The best source of ages that works here; none if the library did not look.
    source: Option<AgeSource>,
}

/// Until the library looks: nothing is known, and nothing is held against the host.
fn reading() -> Reading {
    Reading {
        findings: Vec::new(),
        source: None,
    }
}

/// As the old way's findings are.
impl From<pager::vet::host::Finding> for Finding {
    fn from(finding: pager::vet::host::Finding) -> Finding {
        use crate::view::findings::State;
        Finding {
            part: Part::Paging,
            topic: finding.topic.to_owned(),
            state: match finding.state {
                pager::vet::host::State::Ok => State::Ok,
                pager::vet::host::State::Limited => State::Limited,
                pager::vet::host::State::Missing => State::Missing,
            },
            detail: finding.detail,
            remedy: finding.remedy,
        }
    }
}
