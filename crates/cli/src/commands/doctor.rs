//! `pagetide doctor`.

use std::io::Write;

use host::doctor::examine;
use pager::manage::Kernel;
use pager::vet::host::{Facts, judge, ready};

use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::findings::{Finding, Health, Part, text};

pub(super) fn doctor(json: bool) -> Result<u8, Failure> {
    let facts = Facts::gather(&Kernel);
    let judged = judge(&facts);
    let paging = ready(&judged);
    let reading = examine();
    let mut findings: Vec<Finding> = reading.findings.into_iter().map(Finding::from).collect();
    findings.extend(judged.into_iter().map(Finding::from));
    let health = Health {
        findings,
        age_source: Some(reading.source),
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

/// What `host` found out about reading ages.
impl From<host::doctor::Finding> for Finding {
    fn from(finding: host::doctor::Finding) -> Finding {
        use crate::view::findings::State;
        Finding {
            part: Part::Reading,
            topic: finding.topic.to_owned(),
            state: match finding.state {
                host::doctor::State::Ok => State::Ok,
                host::doctor::State::Limited => State::Limited,
                host::doctor::State::Missing => State::Missing,
            },
            detail: finding.detail,
            remedy: finding.remedy,
        }
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
