//! The results that the scripts of a suite report. A script without a report has failed, and so has
//! one whose end was not reported.

use crate::counts::Counts;

/// Beginning of each line that the runner (`runner.sh`) prints.
const MARK: &str = "guest-suite: ";
/// Status of a script that was killed at its time limit.
const LATE: &str = "late";

/// Returns the counts of these scripts from the output of a boot, and the failures that scripts did
/// not report themselves.
pub(super) fn judge(names: &[String], output: &str) -> (Counts, Vec<String>) {
    let mut counts = Counts::default();
    let mut problems = Vec::new();
    for name in names {
        let begin = format!("{MARK}begin {name}");
        let lines = output
            .lines()
            .map(str::trim_end)
            .skip_while(|line| *line != begin);
        let mut lines = lines.peekable();
        let has_begun = lines.peek().is_some();
        let mut own = Counts::default();
        let mut end = None;
        for line in lines {
            own.passed += u64::from(line.starts_with("ok "));
            own.failed += u64::from(line.starts_with("FAILED "));
            end = line.strip_prefix(&format!("{MARK}end {name} "));
            if end.is_some() {
                break;
            }
        }
        if let Some(why) = problem(has_begun, end, own) {
            problems.push(format!("FAILED {name}: {why}"));
            own.failed += 1;
        }
        counts.add(own);
    }
    (counts, problems)
}

/// Returns what a script did not report itself; `end`: its status, if it has ended.
fn problem(has_begun: bool, end: Option<&str>, own: Counts) -> Option<String> {
    match end {
        None if has_begun => Some("the guest ended before it did".to_owned()),
        None => Some("never began, for the guest had ended".to_owned()),
        Some(LATE) => Some("was killed when its time was over".to_owned()),
        Some("0") if own == Counts::default() => Some("said neither ok nor FAILED".to_owned()),
        Some("0") => None,
        // A script that has reported failures may end with a status other than 0.
        Some(_) if own.failed > 0 => None,
        Some(status) => Some(format!("ended with status {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str], text: &str) -> (Counts, Vec<String>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        judge(&names, &text.replace('@', MARK))
    }

    #[test]
    fn lines_are_counted_between_begin_and_end() {
        let text = "ok stray\n@begin a.sh\nok one\nbook two\nFAILED three: why\n\n@end a.sh 1\n\
                    @begin b.sh\nok four\nokay\n\n@end b.sh 0\n";
        let (counts, problems) = of(&["a.sh", "b.sh"], text);
        assert_eq!((counts.passed, counts.failed), (2, 1));
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn a_script_that_says_nothing_or_does_not_end_has_failed() {
        for (text, why) in [
            ("", "never began"),
            ("@begin a.sh\nok x\n", "ended before"),
            ("@begin a.sh\nok x\n\n@end a.sh late\n", "time"),
            ("@begin a.sh\nhm\n\n@end a.sh 0\n", "neither"),
            ("@begin a.sh\nok x\n\n@end a.sh 3\n", "status 3"),
        ] {
            let (counts, problems) = of(&["a.sh"], text);
            assert_eq!((counts.failed, problems.len()), (1, 1), "{text}");
            assert!(problems[0].contains(why), "{problems:?}");
        }
    }
}
