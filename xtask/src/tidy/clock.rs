//! Rule: in `host::manage`, time is an argument of what decides. Few files read the clock of the
//! machine, and only the steps of a manager call what they read. The files with the rules read
//! nothing at all, so that each rule can be tested off a machine.

use super::sources::Source;

/// The folder of the managers.
const FOLDER: &str = "crates/host/src/manage/";
/// Files that may read the clock of the machine, relative to [`FOLDER`], each with its purpose.
const CLOCKS: [(&str, &str); 3] = [
    ("driver.rs", "what time it is"),
    ("stopwatch.rs", "what a call cost"),
    ("wakeup.rs", "when a slice ends"),
];
/// Code that reads it.
const READINGS: [&str; 4] = ["Instant", "SystemTime", "elapsed", "elapsed_ms"];
/// Files with steps of a manager, which call `Driver::now` at their beginning.
const STEPS: [&str; 18] = [
    "act.rs",
    "driver.rs",
    "mod.rs",
    "ordered.rs",
    "writeback.rs",
    "tenants/ask.rs",
    "tenants/enforce_limits.rs",
    "tenants/host.rs",
    "tenants/kernel_reclaim.rs",
    "tenants/list.rs",
    "tenants/mod.rs",
    "tenants/policy.rs",
    "tenants/pressure.rs",
    "tenants/reclaim.rs",
    "tenants/scan.rs",
    "tenants/under_way.rs",
    "tenants/unmapped.rs",
    "tenants/write_back.rs",
];
/// Files whose code decides from arguments alone.
const RULES: [&str; 25] = [
    "activation_rules.rs",
    "ahead_of_limit.rs",
    "files_in_use.rs",
    "messages.rs",
    "moment.rs",
    "options.rs",
    "reclaim_totals.rs",
    "scan_budget.rs",
    "stall.rs",
    "unevictable.rs",
    "unseen.rs",
    "work_share.rs",
    "writing_back.rs",
    "tenants/allocation_race.rs",
    "tenants/back_off.rs",
    "tenants/by_path.rs",
    "tenants/further_scans.rs",
    "tenants/group_share.rs",
    "tenants/host_watermarks.rs",
    "tenants/kernel_counters.rs",
    "tenants/limit_controller.rs",
    "tenants/pending_limit.rs",
    "tenants/rate_limited.rs",
    "tenants/swap_cache.rs",
    "tenants/thrashing_detector.rs",
];
/// What such a file does not use: slices, costs, the kernel's files, and the objects that read
/// them.
const OUTSIDE: [&str; 12] = [
    "Driver",
    "Groups",
    "HardLimit",
    "Pause",
    "Proc",
    "Stopwatch",
    "Tenants",
    "Watch",
    "fs",
    "io",
    "rustix",
    "thread",
];

/// Returns what breaks the rule.
pub(super) fn problems(files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let Some(name) = file.path.strip_prefix(FOLDER) else {
            continue;
        };
        let tokens = file.tokens().iter().filter(|token| !token.is_test);
        let words: Vec<&str> = tokens.map(|token| token.text.as_str()).collect();
        let is_test = name.ends_with("tests.rs");
        let is_in = |word: &&str| match word.starts_with("elapsed") {
            true => contains(&words, &[".", word]),
            false => words.contains(word),
        };
        let reading = READINGS.into_iter().find(is_in);
        if let Some(word) = reading.filter(|_| !is_test && !is_clock(name)) {
            let purposes = CLOCKS.map(|(file, why)| format!("{file}: {why}"));
            found.push(format!(
                "{}: {word}: time comes in as a `Moment` (only these files read a clock: {})",
                file.path,
                purposes.join(", ")
            ));
        }
        let may_call = is_test || is_clock(name) || STEPS.contains(&name);
        if contains(&words, &["now", "(", ")"]) && !may_call {
            let path = &file.path;
            found.push(format!("{path}: now(): the caller passes a `Moment` down"));
        }
        let is_rule = RULES.contains(&name);
        for word in OUTSIDE.iter().filter(|word| is_rule && uses(&words, word)) {
            let path = &file.path;
            found.push(format!(
                "{path}: {word}: this file decides by arguments alone"
            ));
        }
    }
    for name in RULES {
        let path = format!("{FOLDER}{name}");
        if !files.iter().any(|file| file.path == path) {
            found.push(format!("{path}: it is gone; change {}", file!()));
        }
    }
    found
}

/// Whether a file of [`FOLDER`] may read the clock.
fn is_clock(name: &str) -> bool {
    CLOCKS.iter().any(|(clock, _)| *clock == name)
}

/// Lower-case words are common as names, so this finds them only as path segments (`std::fs`).
fn uses(words: &[&str], word: &str) -> bool {
    match word.starts_with(char::is_uppercase) {
        true => words.contains(&word),
        false => contains(words, &["std", ":", ":", word]) || contains(words, &[word, ":", ":"]),
    }
}

fn contains(words: &[&str], sequence: &[&str]) -> bool {
    words.windows(sequence.len()).any(|part| part == sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the problems of one file, without those about files that are not there.
    fn of(name: &str, text: &str) -> Vec<String> {
        let found = problems(&[Source::new(&format!("{FOLDER}{name}"), text)]);
        let is_there = |what: &String| !what.contains("it is gone");
        found.into_iter().filter(is_there).collect()
    }

    #[test]
    fn only_the_named_files_read_a_clock() {
        for text in ["let now: Instant;", "driver.watch.elapsed_ms()"] {
            assert_eq!(of("tenants/policy.rs", text).len(), 1, "{text}");
            assert!(of("stopwatch.rs", text).is_empty(), "{text}");
            assert!(of("ids/tests.rs", text).is_empty(), "{text}");
        }
        assert_eq!(of("waits.rs", "let now = driver.now();").len(), 1);
        assert!(of("tenants/policy.rs", "let now = self.now();").is_empty());
        let other = Source::new("crates/host/src/watch/mod.rs", "Instant::now()");
        assert!(!problems(&[other]).iter().any(|what| what.contains("watch")));
    }

    #[test]
    fn rules_decide_by_arguments() {
        for text in [
            "use crate::hard_limit::HardLimit;",
            "std::fs::read(x);",
            "use std::io;",
            "rustix::fs::open(x);",
        ] {
            assert!(!of("unseen.rs", text).is_empty(), "{text}");
            assert!(of("tenants/policy.rs", text).is_empty(), "{text}");
        }
        assert!(!of("unseen.rs", "let now = driver.now();").is_empty());
        for text in [
            "fn left(&self, now: Moment) -> Duration {",
            "// Proc::system() is not read here",
            "#[cfg(test)]\nmod tests { use crate::system::Proc; }",
        ] {
            assert!(of("unseen.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_rule_that_has_moved_is_found() {
        assert_eq!(problems(&[Source::new("a.rs", "")]).len(), RULES.len());
    }
}
