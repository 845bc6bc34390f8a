//! What the manager can say about its family: the report, memory.stat, answers to questions.

use super::Supervisor;
use crate::control::{Complaint, Pong, Request, Response};
use crate::options::{Bytes, StorePlace};
use crate::report::{Faults, Overhead, Report, Stat, Unevictable};
use crate::target::{Target, proc};
use keeper::layout::{HIST_LEN, ctl, hist_upper_cycles};
use std::collections::BTreeMap;
use std::time::Instant;

/// Fault times of targets that are gone, and what a cycle is worth.
pub(crate) struct Scale {
    since: Instant,
    cycles: u64,
    hist: [u64; HIST_LEN],
    sums: [u64; SUMS.len()],
    anomaly: u64,
}

/// Control words that are added up over the family.
const SUMS: [usize; 6] = [
    ctl::FAULTS,
    ctl::LIMBO_RETURNS,
    ctl::REFAULTS,
    ctl::READAHEAD,
    ctl::TAKEOVERS,
    ctl::ANOMALIES,
];

impl Scale {
    pub(crate) fn start() -> Scale {
        Scale {
            since: Instant::now(),
            cycles: uffd::process::cycles(),
            hist: [0; HIST_LEN],
            sums: [0; SUMS.len()],
            anomaly: 0,
        }
    }

    /// Keeps what a target that is gone had counted.
    pub(crate) fn keep(&mut self, t: &Target) {
        for (i, n) in self.hist.iter_mut().enumerate() {
            *n += t.link.get(ctl::HIST + i);
        }
        for (sum, &word) in self.sums.iter_mut().zip(&SUMS) {
            *sum += t.link.get(word);
        }
        self.anomaly = t.link.get(ctl::ANOMALY_LAST);
    }

    fn cycles_per_us(&self) -> u64 {
        let us = u64::try_from(self.since.elapsed().as_micros())
            .unwrap_or(1)
            .max(1);
        (uffd::process::cycles().wrapping_sub(self.cycles) / us).max(1)
    }
}

fn percentile(hist: &[u64], share: u64, per_us: u64) -> u64 {
    let total: u64 = hist.iter().sum();
    let mut seen = 0;
    for (i, n) in hist.iter().enumerate() {
        seen += n;
        if total > 0 && seen * 100 >= total * share {
            return hist_upper_cycles(i).div_ceil(per_us);
        }
    }
    0
}

impl Supervisor {
    /// The report as of now.
    pub(crate) fn report(&mut self) -> Report {
        let mut hist = self.fault_scale.hist;
        let mut sums = self.fault_scale.sums;
        let mut counters = self.gone_counters;
        for t in &self.targets {
            for (i, n) in hist.iter_mut().enumerate() {
                *n += t.link.get(ctl::HIST + i);
            }
            for (sum, &word) in sums.iter_mut().zip(&SUMS) {
                *sum += t.link.get(word);
            }
            counters.evicted_pages += t.counters.evicted_pages;
            counters.keepers_replaced += t.counters.keepers_replaced;
        }
        let per_us = self.fault_scale.cycles_per_us();
        let keepers: Vec<i32> = self.targets.iter().flat_map(|t| t.link.keepers()).collect();
        let keeper_cpu_ms = self.looks.keeper_cpu_ms();
        let gauges = self.looks.last.clone();
        Report {
            pid: self.pid.unsigned_abs(),
            command: self.command.clone(),
            wall_ms: self.now().0,
            exit: None,
            resident_bytes: gauges.resident,
            resident_peak_bytes: self.peak,
            stored_bytes: gauges.stored,
            store_used_bytes: gauges.used,
            evicted_pages: counters.evicted_pages,
            refaulted_pages: sums[2] + sums[3],
            limbo_returns: sums[1],
            zero_pages: gauges.same,
            faults: Faults {
                count: sums[0],
                p50_us: percentile(&hist, 50, per_us),
                p99_us: percentile(&hist, 99, per_us),
            },
            page_age: vec![gauges.page_age],
            limits: self.options.limits,
            overhead: Overhead {
                cpu_ms: uffd::process::own_cpu_ns() / 1_000_000 + keeper_cpu_ms,
                keeper_cpu_ms,
                memory_bytes: proc::anon_bytes(std::process::id().cast_signed()).unwrap_or(0),
            },
            keepers: keepers.iter().map(|k| k.unsigned_abs()).collect(),
            children: self.managed_children(),
            unevictable_pages: self.unevictable(),
            compress: self.options.store.compress,
            store: match &self.options.store.place {
                StorePlace::Mem => "mem".to_owned(),
                StorePlace::Dir(dir) => dir.display().to_string(),
            },
            max_events: self.limit.max_events,
            keepers_replaced: sums[4] + counters.keepers_replaced,
            anomalies: sums[5],
            anomaly_last: self.last_anomaly(),
            dry_run: self.dry.clone(),
            policy: self.options.policy.policy,
        }
    }

    fn last_anomaly(&self) -> String {
        let words = self.targets.iter().map(|t| t.link.get(ctl::ANOMALY_LAST));
        let word = words
            .chain([self.fault_scale.anomaly])
            .find(|&w| w != 0)
            .unwrap_or(0);
        if word == 0 {
            String::new()
        } else {
            format!("{}:{}", word >> 32, word & 0xffff_ffff)
        }
    }

    fn managed_children(&self) -> Vec<u32> {
        let children = self
            .targets
            .iter()
            .map(|t| t.pid)
            .filter(|&p| p != self.pid);
        children.map(i32::unsigned_abs).collect()
    }

    fn unevictable(&self) -> BTreeMap<Unevictable, u64> {
        let mut out = BTreeMap::new();
        for t in &self.targets {
            for (&why, &bytes) in &t.regions.left {
                *out.entry(why).or_insert(0) += bytes / 4096;
            }
            *out.entry(Unevictable::Shared).or_insert(0) += t.counters.shared_pages;
            *out.entry(Unevictable::Busy).or_insert(0) += t.counters.busy_pages;
            *out.entry(Unevictable::StoreFull).or_insert(0) += t.counters.full_pages;
        }
        out.retain(|_, n| *n > 0);
        out
    }

    /// Answers whoever asks over the control socket.
    pub(super) fn answer(&mut self) {
        // The socket is put aside while its handler uses the rest of the supervisor.
        if let Some(mut socket) = self.control.take() {
            socket.poll(&mut |request| self.respond(request));
            self.control = Some(socket);
        }
    }

    fn respond(&mut self, request: Request) -> Response {
        match request {
            Request::Report {} => {
                self.look_now();
                Response::Report(Box::new(self.report()))
            }
            Request::Stat {} => Response::Stat(self.stat()),
            Request::Reclaim { bytes } => Response::Reclaimed {
                bytes: Bytes(self.reclaim_now(bytes.0)),
            },
            Request::Detach {} => match self.release_all() {
                Ok(()) => Response::Detached,
                Err(e) => Response::Error(Complaint::from(&e)),
            },
            Request::Ping {} => Response::Pong(Pong {
                manager: std::process::id(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            }),
        }
    }

    fn stat(&self) -> Stat {
        let mut stat = self.gone_stat.clone();
        for t in &self.targets {
            super::add_stat(&mut stat, t);
        }
        stat.set("anon", self.limit.resident());
        stat
    }
}
