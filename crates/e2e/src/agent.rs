//! The agent of working-set reporting's author at a tenant: by its rule, by another one, or a program of one's own. What a bench is told
//! decides, so that alternatives can be swept.

use crate::bench::Args;
use crate::guard::{Run, Running};
use crate::programs;
use crate::tenants::Tree;

/// What it is, and how often it asks for what.
#[derive(Clone, Debug)]
pub struct Agent {
    every: u64,
    cold_ms: u64,
    rule: String,
    edges: String,
    other: Option<String>,
}

impl Agent {
    /// By `--every SECONDS`, `--cold-ms MS`, `--rule label|lower`, `--intervals MS,MS,...`. With `--agent FILE` that program is run
    /// with the words that the author's takes: CGROUP --`reclaim_freq_seconds` N --`cold_age_threshold_ms` N.
    #[must_use]
    pub fn of(args: &Args) -> Agent {
        let text = |name, otherwise: &str| args.text(name).unwrap_or(otherwise.to_owned());
        Agent {
            every: args.number("--every", 40),
            cold_ms: args.number("--cold-ms", 10_000),
            rule: text("--rule", "label"),
            edges: text("--intervals", "1000,5000,10000,20000,40000,80000"),
            other: args.text("--agent"),
        }
    }

    /// How often it asks, seconds.
    #[must_use]
    pub fn every(&self) -> u64 {
        self.every
    }

    /// What was not used for so long is cold, milliseconds.
    #[must_use]
    pub fn cold_ms(&self) -> u64 {
        self.cold_ms
    }

    /// Has a tenant's ages told in its bins, refreshed each second.
    pub fn told(&self, tree: &Tree, tenant: &str) {
        tree.write("node0/workingset_report/page_age_intervals", &self.edges);
        let file = format!("{tenant}/memory.workingset.refresh_interval");
        tree.write(&file, "N0=1000");
    }

    /// Starts it, as the argument of these words.
    #[must_use]
    pub fn start(&self, tree: &Tree, tenant: &str, prefix: &[&str]) -> Running {
        let (every, cold_ms) = (self.every.to_string(), self.cold_ms.to_string());
        let path = |at: &str| tree.at(at).display().to_string();
        let own = match &self.other {
            None => vec![
                programs::source("agent.py"),
                path(""),
                every,
                cold_ms,
                self.rule.clone(),
            ],
            Some(file) => {
                let options = ["--reclaim_freq_seconds", "--cold_age_threshold_ms"];
                let [often, cold] = options.map(str::to_owned);
                vec![file.clone(), path(tenant), often, every, cold, cold_ms]
            }
        };
        let words = prefix.iter().chain(&["python3", "-u"]);
        let words = words.map(|word| (*word).to_owned());
        Run::new(words.chain(own)).start()
    }

    /// How often it has asked.
    #[must_use]
    pub fn times(&self, said: &str) -> usize {
        let word = if self.other.is_some() {
            "Detected"
        } else {
            "asked"
        };
        said.lines().filter(|line| line.contains(word)).count()
    }
}
