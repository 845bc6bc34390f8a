//! Reads a report file, and checks the fields that scripts rely on.

use std::path::Path;

use serde_json::Value;

/// A report as JSON.
#[derive(Clone, Debug)]
pub struct Report(pub Value);

/// Fields that every report must have and that are numbers.
const NUMBERS: [&str; 6] = [
    "pid",
    "wall_ms",
    "resident_bytes",
    "resident_peak_bytes",
    "evicted_pages",
    "refaulted_pages",
];

impl Report {
    /// Reads a report file and checks that it has all fields that every report must have.
    ///
    /// # Panics
    /// If the file or a field is missing.
    #[must_use]
    pub fn read(path: &Path) -> Report {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("no report at {}: {error}", path.display()));
        let report = Report(serde_json::from_str(&text).expect("the report is JSON"));
        report.check();
        report
    }

    /// Checks the fields that every report must have.
    fn check(&self) {
        for name in NUMBERS {
            assert!(self.0[name].is_u64(), "report: {name} is {}", self.0[name]);
        }
        assert!(
            self.0["command"].is_string(),
            "report: command is {}",
            self.0["command"]
        );
        assert!(
            self.0["limits"].is_object(),
            "report: limits is {}",
            self.0["limits"]
        );
        assert!(
            self.0["overhead"]["cpu_ms"].is_u64(),
            "report: {}",
            self.0["overhead"]
        );
        let bins = &self.0["page_age"][0]["bins"][0];
        for name in ["older_than_ms", "anon_bytes", "file_bytes"] {
            assert!(
                bins[name].is_u64(),
                "report: page_age: {}",
                self.0["page_age"]
            );
        }
    }

    /// Value of the field `name`, a number.
    ///
    /// # Panics
    /// If it is no number.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("report: {name} is {}", self.0[name]))
    }
}
