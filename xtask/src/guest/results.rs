//! The results that the scripts of a suite report. A script without a report has failed, and so has
//! one whose end was not reported.

use super::runner::{LATE, MARK};
use crate::summary::Counts;

/// What a script has reported.
struct Script {
    name: String,
    counts: Counts,
    begun: bool,
    /// Its exit status, or [`LATE`]; `None` if it has not ended.
    end: Option<String>,
}

/// The scripts of one boot.
pub(super) struct Results {
    scripts: Vec<Script>,
    current: Option<usize>,
    partial: Vec<u8>,
}

impl Results {
    pub(super) fn new(names: &[String]) -> Results {
        let script = |name: &String| Script {
            name: name.clone(),
            counts: Counts::default(),
            begun: false,
            end: None,
        };
        Results {
            scripts: names.iter().map(script).collect(),
            current: None,
            partial: Vec::new(),
        }
    }

    /// Processes some output; returns the lines that are complete now, for people.
    pub(super) fn output(&mut self, bytes: &[u8]) -> Vec<String> {
        self.partial.extend(bytes);
        let Some(last) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.partial.split_off(last + 1);
        let complete = std::mem::replace(&mut self.partial, rest);
        let text = String::from_utf8_lossy(&complete).into_owned();
        text.lines().filter_map(|line| self.line(line)).collect()
    }

    /// Processes a line; returns what to print of it, if anything.
    fn line(&mut self, line: &str) -> Option<String> {
        if let Some(mark) = line.strip_prefix(MARK) {
            return self.mark(mark);
        }
        let line = line.trim_end();
        if let Some(script) = self.current.and_then(|at| self.scripts.get_mut(at)) {
            script.counts.passed += u64::from(line.starts_with("ok "));
            script.counts.failed += u64::from(line.starts_with("FAILED "));
        }
        (!line.is_empty()).then(|| line.to_owned())
    }

    fn mark(&mut self, mark: &str) -> Option<String> {
        let mut words = mark.split(' ');
        let (what, name) = (words.next()?, words.next()?);
        let at = self.scripts.iter().position(|script| script.name == name)?;
        if what == "begin" {
            self.scripts[at].begun = true;
            self.current = Some(at);
            return Some(format!("{name}:"));
        }
        self.scripts[at].end = words.next().map(str::to_owned);
        self.current = None;
        None
    }

    /// Returns the counts of all scripts, and the failures that scripts did not report themselves.
    pub(super) fn finish(&self) -> (Counts, Vec<String>) {
        let mut counts = Counts::default();
        let mut problems = Vec::new();
        for script in &self.scripts {
            counts.add(script.counts);
            if let Some(why) = script.problem() {
                problems.push(format!("FAILED {}: {why}", script.name));
                counts.failed += 1;
            }
        }
        (counts, problems)
    }
}

impl Script {
    fn problem(&self) -> Option<String> {
        let said = self.counts.passed + self.counts.failed;
        match self.end.as_deref() {
            None if self.begun => Some("the guest ended before it did".to_owned()),
            None => Some("never began, for the guest had ended".to_owned()),
            Some(LATE) => Some("was killed when its time was over".to_owned()),
            Some("0") if said == 0 => Some("said neither ok nor FAILED".to_owned()),
            Some("0") => None,
            // A script that has reported failures may end with a status other than 0.
            Some(_) if self.counts.failed > 0 => None,
            Some(status) => Some(format!("ended with status {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(names: &[&str], text: &str) -> (Counts, Vec<String>) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut results = Results::new(&names);
        // Output comes in pieces of any size.
        for piece in text.as_bytes().chunks(7) {
            results.output(piece);
        }
        results.finish()
    }

    fn problem(text: &str) -> String {
        let text = text.replace('@', MARK);
        let (counts, problems) = results(&["a.sh"], &text);
        assert_eq!((counts.failed, problems.len()), (1, 1), "{text}");
        problems[0].clone()
    }

    #[test]
    fn lines_are_counted_between_begin_and_end() {
        let text = "ok stray\n@begin a.sh\nok one\nbook two\nFAILED three: why\n\n@end a.sh 1\n\
                    @begin b.sh\nok four\nokay\n\n@end b.sh 0\n"
            .replace('@', MARK);
        let (counts, problems) = results(&["a.sh", "b.sh"], &text);
        assert_eq!((counts.passed, counts.failed), (2, 1));
        assert_eq!(problems, Vec::<String>::new());
    }

    #[test]
    fn a_script_that_says_nothing_or_does_not_end_has_failed() {
        assert!(problem("").contains("never began"));
        assert!(problem("@begin a.sh\nok x\n").contains("ended before"));
        assert!(problem("@begin a.sh\nok x\n\n@end a.sh late\n").contains("time"));
        assert!(problem("@begin a.sh\nhm\n\n@end a.sh 0\n").contains("neither"));
        assert!(problem("@begin a.sh\nok x\n\n@end a.sh 3\n").contains("status 3"));
    }
}
