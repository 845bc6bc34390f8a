//! A user-space agent that reclaims memory from one tenant. Its rule is that of the author of
//! working-set reporting, or another rule, or that of a program given by `--agent`. The command
//! line of a benchmark chooses, so that several agents can be compared.

use crate::bench::Args;
use crate::guard::{Run, Running};
use crate::programs;
use crate::tenants::Tree;

/// Which agent runs, how often it requests reclaim, and the age from which it takes memory for
/// cold.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Seconds between two reclaim requests.
    every: u64,
    /// Age from which memory is cold, milliseconds.
    cold_ms: u64,
    /// Which bins the author's agent reclaims: those whose upper edge (`label`) or lower edge
    /// (`lower`) is at least `cold_ms`.
    rule: String,
    /// Upper edges of the age bins, milliseconds, separated by commas.
    edges: String,
    /// The program given by `--agent`.
    other: Option<String>,
}

impl Agent {
    /// Reads the options `--every SECONDS`, `--cold-ms MS`, `--rule label|lower` and `--intervals
    /// MS,MS,...`. With `--agent FILE` that program runs, with the arguments of the author's agent:
    /// CGROUP --`reclaim_freq_seconds` N --`cold_age_threshold_ms` N.
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

    /// Seconds between two reclaim requests of the agent.
    #[must_use]
    pub fn every(&self) -> u64 {
        self.every
    }

    /// Age from which memory is cold, milliseconds.
    #[must_use]
    pub fn cold_ms(&self) -> u64 {
        self.cold_ms
    }

    /// Makes `serve` report a tenant's ages in the agent's bins, refreshed each second.
    pub fn enable_reports(&self, tree: &Tree, tenant: &str) {
        tree.write("node0/workingset_report/page_age_intervals", &self.edges);
        let file = format!("{tenant}/memory.workingset.refresh_interval");
        tree.write(&file, "N0=1000");
    }

    /// Starts the agent as arguments of the command `prefix`.
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

    /// Number of reclaim requests that the agent has made, counted in its output `said`.
    #[must_use]
    pub fn count_requests(&self, said: &str) -> usize {
        let word = if self.other.is_some() {
            "Detected"
        } else {
            "asked"
        };
        said.lines().filter(|line| line.contains(word)).count()
    }
}
