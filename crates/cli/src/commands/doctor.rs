//! `pagetide doctor`.

use std::io::Write;

use pager::manage::Kernel;
use pager::vet::host::{Facts, Finding, State, judge, ready};

use crate::failure::Failure;
use crate::terminal::Style;

pub(super) fn doctor(json: bool) -> Result<u8, Failure> {
    let facts = Facts::gather(&Kernel);
    let findings = judge(&facts);
    let ready = ready(&findings);
    let mut out = std::io::stdout().lock();
    if json {
        let value = serde_json::json!({
            "ready": ready,
            "kernel": facts.release,
            "findings": findings,
        });
        writeln!(out, "{value:#}")?;
    } else {
        write!(out, "{}", text(&findings, Style::of_stdout()))?;
    }
    Ok(if ready {
        0
    } else {
        pager::ExitCode::Missing as u8
    })
}

/// One line a finding, its remedy under it, and the sum.
fn text(findings: &[Finding], style: Style) -> String {
    let width = findings.iter().map(|f| f.topic.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Ok => style.green("ok     "),
            State::Limited => style.yellow("limited"),
            State::Missing => style.red("missing"),
        };
        let detail = &finding.detail;
        text += &format!("{state}  {:width$}  {detail}\n", finding.topic);
        if let Some(remedy) = &finding.remedy {
            text += &format!("         {:width$}  -> {remedy}\n", "");
        }
    }
    let of = |state| findings.iter().filter(|f| f.state == state).count();
    text += &match (of(State::Missing), of(State::Limited)) {
        (0, 0) => "\nAll is well: try `pagetide demo`.\n".to_owned(),
        (0, limited) => format!("\npagetide works here; {limited} limited (see above).\n"),
        (missing, _) => format!("\npagetide cannot work here yet: {missing} missing.\n"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_has_its_remedy_below() {
        let finding = |topic, state, remedy: Option<&str>| Finding {
            topic,
            state,
            detail: "detail".to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let findings = [
            finding("kernel", State::Ok, None),
            finding("fork events", State::Missing, Some("setcap")),
        ];
        let want = "\
ok       kernel       detail
missing  fork events  detail
                      -> setcap

pagetide cannot work here yet: 1 missing.
";
        assert_eq!(text(&findings, Style::PLAIN), want);
        let well = text(&findings[..1], Style::PLAIN);
        assert!(well.ends_with("try `pagetide demo`.\n"), "{well}");
    }
}
