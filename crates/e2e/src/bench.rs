//! What all benchmarks need: numbers from the command line, medians, and results as a table or as
//! JSON.
//!
//! A benchmark measures two sides in one run and compares them by the ratio of their medians.
//! Absolute times would mean little: the speed of the machine is unknown, and other programs may
//! use it at the same time.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// The arguments of a benchmark.
#[derive(Clone, Debug)]
pub struct Args(Vec<String>);

impl Args {
    /// The arguments of this process.
    #[must_use]
    pub fn from_env() -> Args {
        Args(std::env::args().skip(1).collect())
    }

    /// Whether the option `name` (with its dashes) was given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|word| word == name)
    }

    /// The number after the option `name`; `otherwise` without that option.
    ///
    /// # Panics
    /// If the word after the option is no number.
    #[must_use]
    pub fn number(&self, name: &str, otherwise: u64) -> u64 {
        let at = self.0.iter().position(|word| word == name);
        let text = at.and_then(|at| self.0.get(at + 1));
        match (at, text.map(|text| text.parse())) {
            (None, _) => otherwise,
            (Some(_), Some(Ok(number))) => number,
            _ => panic!("{name} needs a number"),
        }
    }

    /// The word after the option `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|word| word == name)?;
        self.0.get(at + 1).cloned()
    }

    /// The number after the option `name`, or `otherwise`, as seconds.
    #[must_use]
    pub fn seconds(&self, name: &str, otherwise: u64) -> Duration {
        Duration::from_secs(self.number(name, otherwise))
    }
}

/// The median of some values; 0 if there are none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Each value of `side` in percent of the value with the same index in `of`.
#[must_use]
pub fn percents(side: &[f64], of: &[f64]) -> Vec<f64> {
    of.iter().zip(side).map(|(a, b)| 100.0 * b / a).collect()
}

/// A measured figure.
#[derive(Clone, Debug)]
struct Line {
    what: String,
    value: f64,
    unit: &'static str,
    /// The goal, if there is one: true and the least value, or false and the largest value, that
    /// meets it.
    goal: Option<(bool, f64)>,
}

/// The results of a benchmark.
#[derive(Clone, Debug)]
pub struct Findings {
    name: &'static str,
    /// Whether to print JSON.
    json: bool,
    lines: Vec<Line>,
}

impl Findings {
    /// Begins without results. They are printed as JSON if `--json` was given.
    #[must_use]
    pub fn new(name: &'static str, args: &Args) -> Findings {
        Findings {
            name,
            json: args.has("--json"),
            lines: Vec::new(),
        }
    }

    /// Adds a figure and prints it to standard error.
    fn push(&mut self, what: &str, value: f64, unit: &'static str, goal: Option<(bool, f64)>) {
        let line = Line {
            what: what.to_owned(),
            value,
            unit,
            goal,
        };
        eprintln!("{}", line.text());
        self.lines.push(line);
    }

    /// Adds a figure that has no goal.
    pub fn figure(&mut self, what: &str, value: f64, unit: &'static str) {
        self.push(what, value, unit, None);
    }

    /// Adds a figure that should be at most `goal`.
    pub fn at_most(&mut self, what: &str, value: f64, unit: &'static str, goal: f64) {
        self.push(what, value, unit, Some((false, goal)));
    }

    /// Adds a figure that should be at least `goal`.
    pub fn at_least(&mut self, what: &str, value: f64, unit: &'static str, goal: f64) {
        self.push(what, value, unit, Some((true, goal)));
    }

    /// Prints all results; returns exit status 0 if all goals are met, else 1.
    #[must_use]
    pub fn finish(self) -> std::process::ExitCode {
        if self.json {
            println!("{}", self.to_json());
        } else {
            println!("\n{}", self.name);
            for line in &self.lines {
                println!("  {}", line.text());
            }
        }
        if self.lines.iter().all(Line::is_met) {
            std::process::ExitCode::SUCCESS
        } else {
            std::process::ExitCode::FAILURE
        }
    }

    fn to_json(&self) -> Value {
        let lines = self.lines.iter().map(|line| {
            let mut object = Map::new();
            object.insert("what".into(), json!(line.what));
            object.insert("value".into(), json!(line.value));
            object.insert("unit".into(), json!(line.unit));
            if let Some((least, goal)) = line.goal {
                let name = if least { "at_least" } else { "at_most" };
                object.insert(name.into(), json!(goal));
                object.insert("met".into(), json!(line.is_met()));
            }
            Value::Object(object)
        });
        json!({"bench": self.name, "lines": lines.collect::<Vec<_>>()})
    }
}

impl Line {
    /// Whether the goal is met, or there is none.
    fn is_met(&self) -> bool {
        match self.goal {
            None => true,
            // A value that could not be measured meets no goal. (A share of a time of 0 was minus
            // infinity.)
            Some(_) if !self.value.is_finite() => false,
            Some((true, goal)) => self.value >= goal,
            Some((false, goal)) => self.value <= goal,
        }
    }

    /// The figure with its unit, and the goal if there is one.
    fn text(&self) -> String {
        let goal = match self.goal {
            None => String::new(),
            Some((least, goal)) => format!(
                "  (goal: at {} {goal}: {})",
                if least { "least" } else { "most" },
                if self.is_met() { "met" } else { "MISSED" }
            ),
        };
        format!("{:58} {:>10.3} {}{goal}", self.what, self.value, self.unit)
    }
}
