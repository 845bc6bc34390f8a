//! The verdict of `run --fail-above` about a program that has ended, and its output formats.
//!
//! Invariant: if the memory was not measured, the figure is at least the peak of the largest
//! process. The output is well-formed for any bytes in the command line.

use std::ffi::OsString;

use daemon::options::Bytes;
use host::report::{Beside, Budget, COST_PERCENT, Needed, Report};
use host::system::Proc;

use crate::args::{Figure, Gate};

/// Exit code: the program ended with 0, and its memory was above the size.
const ABOVE: u8 = 4;
/// Most characters of the command line in the name of its JUnit test case.
const NAME: usize = 200;
/// Exit codes of `run` if no program ran: missing right or swap, not executable, not found.
const NEVER_RAN: [u8; 3] = [3, 126, 127];

/// The result of the comparison.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    pub(super) text: String,
    /// Exit code of pagetide.
    pub(super) code: u8,
}

impl Verdict {
    /// Decides about a program that ended with exit code `code`. `largest`: peak bytes of its
    /// largest process.
    pub(super) fn of(gate: &Gate, code: u8, report: Option<&Report>, largest: u64) -> Verdict {
        if report.is_none() && NEVER_RAN.contains(&code) {
            let text = format!("nothing was measured: the program did not run (exit code {code})");
            return Verdict { text, code };
        }
        let found = report.map(|report| figure(gate.by, report, largest));
        let allowed = gate.fail_above.unwrap_or_default();
        let is_measured = found.is_some();
        let (bytes, mut text) = found.unwrap_or_else(|| {
            let peak = Bytes(largest);
            let text = format!(
                "nothing was measured: no report was written; its largest process had {peak}"
            );
            (largest, text)
        });
        let is_above = bytes > allowed.0;
        let relation = if is_above { "above" } else { "within" };
        text += &format!(": {relation} the {allowed} of --fail-above");
        if is_above && allowed.0 < 1 << 20 {
            text += " (a number alone is bytes: 300M are MiB)";
        }
        if code != 0 {
            text += &format!(" (the program itself ended with {code})");
        }
        let code = match (code, is_above, is_measured) {
            (0, true, _) => ABOVE,
            // The memory was not measured: several processes together may have used more.
            (0, false, false) => 1,
            (code, _, _) => code,
        };
        Verdict { text, code }
    }
}

/// Returns the bytes to compare with the size, and a text that describes them.
fn figure(by: Figure, report: &Report, largest: u64) -> (u64, String) {
    let peak = report
        .resident_peak_bytes
        .max(report.charged_peak_bytes.unwrap_or(0))
        .max(report.ended.peak_resident_bytes)
        .max(largest);
    if by == Figure::Peak {
        return (peak, format!("its peak was {}", Bytes(peak)));
    }
    let price = || Proc::system().map(|proc| host::price::price(&proc));
    // Nothing is resident any more. So the peak is the upper bound of the needed size.
    let beside = Beside {
        resident_bytes: peak,
        unknown_bytes: 0,
    };
    let curve = report.curve.as_ref();
    let measured = curve.filter(|curve| !curve.points.is_empty());
    let needed = measured.and_then(|curve| {
        let price = price().unwrap_or_default();
        Needed::of(curve, beside, Budget::Cost(COST_PERCENT), &price)
    });
    match needed {
        Some(needed) => {
            let (confidence, why) = (needed.confidence.name(), needed.why.join(", "));
            let text = format!(
                "it needed {} ({confidence} confidence: {why})",
                Bytes(needed.bytes)
            );
            (needed.bytes, text)
        }
        None => {
            let text = format!(
                "what it needed was not measured, since it ended too soon after its start; its peak was {}",
                Bytes(peak)
            );
            (peak, text)
        }
    }
}

/// Formats a workflow command of GitHub; `%` and line ends are escaped as GitHub requires.
pub(super) fn github(verdict: &Verdict) -> String {
    let kind = if verdict.code == 0 { "notice" } else { "error" };
    let text = verdict.text.replace('%', "%25").replace('\r', "%0D");
    format!("::{kind}::memory: {}", text.replace('\n', "%0A"))
}

/// Formats a JUnit suite with one test case, named after the command.
pub(super) fn junit(verdict: &Verdict, command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let name: String = words.join(" ").chars().take(NAME).collect();
    let (name, text) = (escaped(&name), escaped(&verdict.text));
    let (failures, errors, body) = match verdict.code {
        0 => (0, 0, format!("<system-out>{text}</system-out>")),
        ABOVE => (1, 0, format!("<failure message=\"{text}\"/>")),
        _ => (0, 1, format!("<error message=\"{text}\"/>")),
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"pagetide\" tests=\"1\" failures=\"{failures}\" errors=\"{errors}\">\n\
         <testcase classname=\"memory\" name=\"{name}\">{body}</testcase>\n</testsuite>\n"
    )
}

/// Escapes a text for XML 1.0, also within quotes. Characters that no XML document may contain
/// (control characters, U+FFFE, U+FFFF) become U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // Unescaped, an XML parser turns these into spaces.
            '\t' | '\n' | '\r' => escaped += &format!("&#{};", u32::from(one)),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            one if one.is_control() => escaped.push('\u{fffd}'),
            one => escaped.push(one),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    const MIB: u64 = 1 << 20;

    fn gate(by: Figure) -> Gate {
        Gate {
            fail_above: Some(Bytes(100 * MIB)),
            by,
            format: None,
            junit: None,
            measured_in: None,
        }
    }

    fn peak(mib: u64) -> Report {
        Report {
            resident_peak_bytes: mib * MIB,
            ..Report::default()
        }
    }

    #[test]
    fn only_a_program_that_ended_well_fails_for_its_memory() {
        let of = |code, mib| Verdict::of(&gate(Figure::Peak), code, Some(&peak(mib)), 0).code;
        assert_eq!([of(0, 100), of(0, 101), of(7, 101)], [0, ABOVE, 7]);
        let of = |code, mib: u64| Verdict::of(&gate(Figure::Peak), code, None, mib * MIB).code;
        assert_eq!([of(0, 7), of(0, 101), of(143, 101)], [1, ABOVE, 143]);
    }

    /// Regression: a program that ended before the second scan passed with any size. As no scan had
    /// measured it, its peak was taken to be 0 B.
    #[test]
    fn what_was_not_measured_does_not_pass() {
        for (mib, want) in [(100, 0), (101, ABOVE)] {
            for by in [Figure::Needed, Figure::Peak] {
                let early = Verdict::of(&gate(by), 0, Some(&peak(0)), mib * MIB);
                assert_eq!(early.code, want, "{early:?}");
                let says = early.text.contains("not measured, since it ended too soon");
                assert_eq!(says, by == Figure::Needed, "{}", early.text);
            }
        }
    }

    /// Regression: for a command that does not exist, pagetide's own peak of 7.4 MiB was compared
    /// with the size, and passed.
    #[test]
    fn a_program_that_never_ran_is_not_within_its_limit() {
        let never = Verdict::of(&gate(Figure::Needed), 127, None, 7 * MIB);
        assert_eq!(never.code, 127);
        assert!(never.text.contains("did not run") && !never.text.contains("within"));
    }

    #[test]
    fn forms_escape_what_would_end_them() {
        let verdict = Verdict {
            text: "0.1% <\"&\n".to_owned(),
            code: ABOVE,
        };
        assert_eq!(github(&verdict), "::error::memory: 0.1%25 <\"&%0A");
        let odd = b"a\"b<\x01\xff&\n\x1b]0;\xef\xbf\xbf".to_vec();
        let xml = junit(&verdict, &["sh".into(), OsString::from_vec(odd)]);
        assert!(
            xml.contains("<failure message=\"0.1% &lt;&quot;&amp;&#10;\"/>"),
            "{xml}"
        );
        let name = "name=\"sh a&quot;b&lt;\u{fffd}\u{fffd}&amp;&#10;\u{fffd}]0;\u{fffd}\"";
        assert!(xml.contains(name), "{xml}");
        assert!(xml.contains("failures=\"1\" errors=\"0\""), "{xml}");
    }
}
