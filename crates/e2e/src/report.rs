//! The report file: the fields that scripts rely on.

use std::path::Path;

use serde_json::Value;

/// A report, read.
#[derive(Clone, Debug)]
pub struct Report(pub Value);

const NUMBERS: [&str; 6] = [
    "pid",
    "wall_ms",
    "resident_bytes",
    "resident_peak_bytes",
    "evicted_pages",
    "refaulted_pages",
];

impl Report {
    /// Reads a file and checks that it holds what every report must.
    ///
    /// # Panics
    /// If it is missing, or a field is.
    #[must_use]
    pub fn read(path: &Path) -> Report {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("no report at {}: {error}", path.display()));
        let report = Report(serde_json::from_str(&text).expect("the report is JSON"));
        report.check();
        report
    }

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

    /// A field that is a number.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("report: {name} is {}", self.0[name]))
    }
}
