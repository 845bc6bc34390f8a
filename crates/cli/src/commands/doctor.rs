//! `pagetide doctor`.

use std::io::Write;

use host::doctor::examine;

use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::findings::{Finding, Health, text};

pub(super) fn doctor(json: bool) -> Result<u8, Failure> {
    let reading = examine();
    let findings = reading.findings.into_iter().map(Finding::from).collect();
    let paging = daemon::preflight::swap(&daemon::options::Options::default()).is_ok();
    let health = Health {
        findings,
        age_source: Some(reading.source),
        paging,
    };
    let mut out = std::io::stdout().lock();
    if json {
        let value = serde_json::json!({
            "ready": health.ready(),
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
        daemon::ExitCode::Missing as u8
    })
}

/// What `host` found out about reading ages.
impl From<host::doctor::Finding> for Finding {
    fn from(finding: host::doctor::Finding) -> Finding {
        use crate::view::findings::State;
        Finding {
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
