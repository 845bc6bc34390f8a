//! `/metrics`: figures of a snapshot in the text format of Prometheus (0.0.4).
//!
//! Invariant: names, labels and units are those of docs/usage.md, "Metrics and dashboard". Each
//! series occurs once, for any names of tenants. Bytes of unknown age are in no bucket of ages.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use host::manage::tenants::figures::{EDGES_MS, NodeFigures, TenantFigures, WALK_EDGES_MS};

use host::report::{Needed, Saving, SwapStore};

use super::names::{Names, labels};
use super::snapshot::{Snapshot, name_of};

/// Content type of the metrics.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const TYPES: [&str; 2] = ["anon", "file"];

/// Returns all metrics as text; `needed` is how much memory each tenant needs, by path.
pub(super) fn text(snapshot: &Snapshot, needed: &BTreeMap<PathBuf, Needed>) -> String {
    let mut page = Page {
        text: String::new(),
        tenants: snapshot.figures.tenants.iter().map(Labelled::new).collect(),
        nodes: &snapshot.nodes,
        names: &snapshot.names,
        swap: snapshot.swap,
    };
    page.of_tenants();
    page.saving();
    page.needed(needed);
    page.ages();
    page.counters();
    page.of_ourselves(snapshot);
    page.text
}

struct Labelled<'a> {
    /// The label `tenant="..."`, escaped.
    label: String,
    figures: &'a TenantFigures,
}

impl Labelled<'_> {
    fn new(figures: &TenantFigures) -> Labelled<'_> {
        Labelled {
            label: format!("tenant=\"{}\"", escaped(&name_of(&figures.path))),
            figures,
        }
    }
}

struct Page<'a> {
    text: String,
    tenants: Vec<Labelled<'a>>,
    nodes: &'a [u32],
    names: &'a Names,
    swap: Option<SwapStore>,
}

impl Page<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Appends one sample for each tenant, node and type of memory; `of` returns the value.
    fn by_node(&mut self, name: &str, of: impl Fn(&NodeFigures, usize) -> u64) {
        let Page {
            text,
            tenants,
            nodes,
            ..
        } = self;
        for Labelled { label, figures } in tenants {
            for (node, found) in nodes.iter().zip(&figures.nodes) {
                for (ty, type_name) in TYPES.into_iter().enumerate() {
                    let value = of(found, ty);
                    let _ = writeln!(
                        text,
                        "{name}{{{label},node=\"{node}\",type=\"{type_name}\"}} {value}"
                    );
                }
            }
        }
    }

    /// Appends one sample for each tenant for which `of` returns a value.
    fn by_tenant(&mut self, name: &str, of: impl Fn(&TenantFigures) -> Option<u64>) {
        for Labelled { label, figures } in &self.tenants {
            if let Some(value) = of(figures) {
                let _ = writeln!(self.text, "{name}{{{label}}} {value}");
            }
        }
    }

    fn of_tenants(&mut self) {
        let name = "pagetide_resident_bytes";
        let help = "Memory of a tenant and all below it, each frame once.";
        self.family(name, "gauge", help);
        self.by_node(name, NodeFigures::resident);
        let name = "pagetide_swapped_bytes";
        self.family(
            name,
            "gauge",
            "What of a tenant and all below it is in swap.",
        );
        self.by_tenant(name, |figures| Some(figures.swapped));
        let name = "pagetide_charged_bytes";
        let help = "What the kernel charges to the tenant's control group, page cache and kernel memory included.";
        self.family(name, "gauge", help);
        self.by_tenant(name, |figures| figures.charged);
        let name = "pagetide_left_out_groups";
        let help = "Control groups below a tenant that have no figures of their own and are part of it, as far as they are known; none where there are none.";
        self.family(name, "gauge", help);
        self.by_tenant(name, |figures| {
            Some(figures.left_out_groups).filter(|count| *count > 0)
        });
        let name = "pagetide_scan_late_seconds";
        let help = "Time between the last scan of the tenant and the last scan of all; only tenants whose scans cost more than their share of the scan budget.";
        self.family(name, "gauge", help);
        self.by_tenant(name, |figures| figures.late_seconds);
        let name = "pagetide_unread_bytes";
        let help = "Resident memory of processes that are not read, because pagetide's own memory is limited (own-memory); none where all are read.";
        self.family(name, "gauge", help);
        self.by_tenant(name, |figures| {
            Some(figures.unread).filter(|bytes| *bytes > 0)
        });
        let name = "pagetide_unknown_age_bytes";
        let help =
            "Resident memory whose age is not known; in no bucket of pagetide_page_age_bytes.";
        self.family(name, "gauge", help);
        self.by_node(name, |found, ty| found.unknown[ty]);
    }

    /// Appends what swapped-out memory saves. What is unknown has no sample.
    fn saving(&mut self) {
        let host = self.swap;
        let saving = |figures: &TenantFigures| Saving::of(figures.swapped, host, None);
        let name = "pagetide_swap_compressed_bytes";
        let help = "Memory that the compressed copies of a tenant's swapped-out memory take: the host's, shared out by pages.";
        self.family(name, "gauge", help);
        self.by_tenant(name, |figures| saving(figures).compressed_bytes);
        let name = "pagetide_net_saved_bytes";
        let help = "pagetide_swapped_bytes less pagetide_swap_compressed_bytes.";
        self.family(name, "gauge", help);
        for Labelled { label, figures } in &self.tenants {
            if let Some(net) = saving(figures).net_bytes {
                let _ = writeln!(self.text, "{name}{{{label}}} {net}");
            }
        }
    }

    /// Appends how much memory tenants need. A tenant of which that is unknown has no sample.
    fn needed(&mut self, needed: &BTreeMap<PathBuf, Needed>) {
        type Of = fn(&Needed) -> f64;
        #[expect(clippy::cast_precision_loss, reason = "sizes below 2^53")]
        let gauges: [(&str, &str, Of); 3] = [
            (
                "pagetide_needed_bytes",
                "Memory with which a tenant and all below it wait for refaults for no more than 0.1% of the time.",
                |needed| needed.bytes as f64,
            ),
            (
                "pagetide_needed_confidence",
                "How sure pagetide_needed_bytes is: 0 low, 1 medium, 2 high.",
                |needed| f64::from(needed.confidence as u8),
            ),
            (
                "pagetide_refaults_predicted",
                "Expected refaults in a second with pagetide_needed_bytes of memory.",
                |needed| needed.refaults_per_minute / 60.0,
            ),
        ];
        for (name, help, of) in gauges {
            self.family(name, "gauge", help);
            for Labelled { label, figures } in &self.tenants {
                if let Some(needed) = needed.get(&figures.path) {
                    let value = of(needed);
                    let _ = write!(self.text, "{name}{{{label}");
                    for (key, text) in self.names.get(&figures.path).into_iter().flat_map(labels) {
                        let _ = write!(self.text, ",{key}=\"{}\"", escaped(text));
                    }
                    let _ = writeln!(self.text, "}} {value}");
                }
            }
        }
    }

    /// Appends bytes by age, cumulative like a histogram's buckets. The metric has no type: because
    /// the amounts also shrink it is neither a histogram nor a counter.
    fn ages(&mut self) {
        let name = "pagetide_page_age_bytes";
        let help = "Resident memory that was accessed no longer ago than le, seconds (cumulative).";
        self.family(name, "untyped", help);
        let edges: Vec<String> = EDGES_MS.iter().map(|ms| seconds_of_ms(*ms)).collect();
        let edges: Vec<&str> = edges.iter().map(String::as_str).chain(["+Inf"]).collect();
        let Page {
            text,
            tenants,
            nodes,
            ..
        } = self;
        for Labelled { label, figures } in tenants {
            for (node, found) in nodes.iter().zip(&figures.nodes) {
                for (type_name, bins) in TYPES.into_iter().zip(&found.ages) {
                    let mut sum = 0;
                    for (edge, bytes) in edges.iter().zip(bins) {
                        sum += bytes;
                        let _ = writeln!(
                            text,
                            "{name}{{{label},node=\"{node}\",type=\"{type_name}\",le=\"{edge}\"}} {sum}"
                        );
                    }
                }
            }
        }
    }

    fn counters(&mut self) {
        let name = "pagetide_refaults_total";
        self.family(name, "counter", "Paged-out pages that were accessed again.");
        for Labelled { label, figures } in &self.tenants {
            for (type_name, count) in TYPES.into_iter().zip(figures.refaults) {
                let _ = writeln!(self.text, "{name}{{{label},type=\"{type_name}\"}} {count}");
            }
        }
        let name = "pagetide_steals_total";
        let help = "Pages paged out: for the host's lack of memory (kswapd), for a limit (direct), by request or policy (proactive), \
            or by kernel reclaim, as scans found (kernel).";
        self.family(name, "counter", help);
        for Labelled { label, figures } in &self.tenants {
            for (reason, count) in figures.steals {
                let _ = writeln!(self.text, "{name}{{{label},reason=\"{reason}\"}} {count}");
            }
        }
        let name = "pagetide_pressure_seconds_total";
        let help = "Time that some tasks, or all (full), waited for memory.";
        self.family(name, "counter", help);
        for Labelled { label, figures } in &self.tenants {
            let Some(pressure) = figures.pressure else {
                continue;
            };
            for (share, stall) in [("some", Some(pressure.some)), ("full", pressure.full)] {
                if let Some(stall) = stall {
                    let value = seconds(Duration::from_micros(stall.total_us));
                    let _ = writeln!(self.text, "{name}{{{label},share=\"{share}\"}} {value}");
                }
            }
        }
    }

    fn of_ourselves(&mut self, snapshot: &Snapshot) {
        let figures = &snapshot.figures;
        let name = "pagetide_walk_seconds";
        self.family(
            name,
            "histogram",
            "How long it took to read the tables of all processes once, by the clocks of all threads.",
        );
        let mut sum = 0;
        let edges = WALK_EDGES_MS.iter().map(|ms| seconds_of_ms(*ms));
        let edges = edges.chain(["+Inf".to_owned()]);
        for (edge, count) in edges.zip(figures.walks.counts) {
            sum += count;
            let _ = writeln!(self.text, "{name}_bucket{{le=\"{edge}\"}} {sum}");
        }
        let total = seconds(figures.walks.total);
        let _ = writeln!(self.text, "{name}_sum {total}\n{name}_count {sum}");
        let name = "pagetide_overhead_cpu_seconds_total";
        let help = "Processor time of pagetide: scans (look), reclaim (page_out), and all else.";
        self.family(name, "counter", help);
        let cpu = figures.cpu;
        for (part, time) in [
            ("look", cpu.scan),
            ("page_out", cpu.page_out),
            ("other", cpu.other),
        ] {
            let _ = writeln!(self.text, "{name}{{part=\"{part}\"}} {}", seconds(time));
        }
        let name = "pagetide_left_out";
        let help = "Processes and control groups that are not scanned.";
        self.family(name, "gauge", help);
        let _ = writeln!(self.text, "{name} {}", figures.left_out.count());
        let name = "pagetide_left_out_info";
        let help = "Each of them, at most 100, with the reason; always 1.";
        self.family(name, "gauge", help);
        for (what, why) in figures.left_out.named() {
            let (what, why) = (escaped(what), escaped(why));
            let _ = writeln!(self.text, "{name}{{what=\"{what}\",reason=\"{why}\"}} 1");
        }
        let name = "pagetide_last_look_timestamp_seconds";
        self.family(
            name,
            "gauge",
            "When these figures were taken, seconds since 1970.",
        );
        let _ = writeln!(self.text, "{name} {}", seconds_of_ms(snapshot.at_ms));
        let name = "pagetide_build_info";
        self.family(name, "gauge", "Which pagetide this is; always 1.");
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(self.text, "{name}{{version=\"{version}\"}} 1");
    }
}

/// Escapes a label's value: puts a backslash before the characters that the format reserves.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

fn seconds_of_ms(ms: u64) -> String {
    seconds(Duration::from_millis(ms))
}

/// Formats a time in seconds, without trailing zeros.
fn seconds(time: Duration) -> String {
    let text = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
