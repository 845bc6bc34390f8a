//! `pagetide doctor`.

use std::io::Write;

use daemon::preflight;
use host::doctor::examine;

use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::findings::{Finding, Health, Part, State, text};

pub(super) fn doctor(json: bool) -> Result<u8, Failure> {
    let reading = examine();
    let of = |part, findings: Vec<host::doctor::Finding>| {
        findings
            .into_iter()
            .map(move |finding| reported(part, finding))
    };
    let findings = of(Part::Reading, reading.reading);
    let findings = findings.chain(of(Part::Paging, reading.paging)).collect();
    let wanted = daemon::options::Options::default();
    let paging = preflight::swap(&wanted, None).and_then(|()| preflight::right(&wanted));
    let paging = paging.is_ok();
    let health = Health {
        findings,
        age_source: Some(reading.source),
        paging,
    };
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{:#}", health.json())?;
    } else {
        write!(out, "{}", text(&health, Style::of_stdout()))?;
    }
    Ok(if health.ready() {
        0
    } else {
        daemon::ExitCode::Missing as u8
    })
}

/// Converts a finding of `host` to the form that is shown.
fn reported(part: Part, finding: host::doctor::Finding) -> Finding {
    Finding {
        part,
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
