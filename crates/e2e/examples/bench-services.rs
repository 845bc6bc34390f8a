//! `cargo xtask bench services [--only NAME,...] [--warm 60] [--learn 300] [--hold 900] [--at
//! high|needs] [--reports FOLDER] [--json]`
//!
//! Limits real services under load for a quarter of an hour to the size that pagetide suggests.
//! Each service is in a memory control group (version 1) of its own, and gets requests at a fixed
//! rate from outside of the group.
//!
//! For `--learn` seconds `report --curve` watches each group; it finds the needed size, as
//! `recommend` does, and the cost of each size. Then `resize` sets the limit for `--hold` seconds.
//! Version 1 has only one limit, so that is the suggested `memory.high`. With `--at needs` it is
//! the needed size plus the needs of the kernel and of shared files. `resize` watches for two
//! minutes, which are part of the hold.
//!
//! The cost is the percentage of the time that was spent waiting for refaults, each at the price
//! that the report measured. Refaults are:
//! - pages from swap (`workingset_refault_anon`);
//! - other faults that read a file (`pgmajfault - workingset_refault_anon`);
//! - pages that read(2) read again; their cost is too high where one read gets several pages.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use e2e::bench::{Args, Findings};
use e2e::guard::Running;
use e2e::memcg::MemoryGroup;
use e2e::services::figures::{Counters, Sizes, pages_read_per_fault, vpa_target};
use e2e::services::janitor::Janitor;
use e2e::services::load::{Answers, Load};
use e2e::services::{ALL, Service, Started, Surroundings};
use e2e::temp::{TempDir, target_dir};
use e2e::zram::Swap;
use e2e::{pagetide, wait};
use serde_json::Value;

const MIB: f64 = 1_048_576.0;
/// Goal: highest cost of a limit, percent of the time.
const COST: f64 = 0.2;
/// Goal: highest difference between refaults and their predicted number, as a part of that number.
const NEAR: f64 = 0.3;
/// Goal: refaults per minute by which the number may always differ, as in pagetide's own rule.
const FLOOR: f64 = 60.0;
/// Goal: lowest throughput under the limit, percent of that before the limit.
const THROUGHPUT: f64 = 98.0;
/// Size of the swap, MiB.
const SWAP_MIB: u64 = 8 << 10;
/// Interval of samples for VPA, whose own metrics come once a minute. A shorter interval finds the
/// same peaks or higher ones.
const SAMPLED: Duration = Duration::from_secs(15);
/// Time that a command may take longer than it watches.
const SLACK: Duration = Duration::from_secs(180);

/// A running service and its results. Fields are dropped in this order: the group after all that
/// runs in it.
struct HeldService {
    service: Service,
    load: Load,
    _started: Started,
    /// The report of the group, made while it was watched.
    report: Value,
    /// Samples of `working_set_bytes` while the group was watched.
    working_sets: Vec<u64>,
    /// Answers before the group was watched.
    alone: Answers,
    /// Answers while the group was watched, and for how long that was.
    learned: (Answers, Duration),
    /// Sizes at the end of the watch.
    sizes: Sizes,
    /// The limit, bytes.
    limit: u64,
    /// The running `resize`; `None` before its start and after its end.
    resize: Option<Running>,
    /// Error message of `resize`; empty if it succeeded.
    resized: String,
    /// When the limit was set, and the counters at that time.
    since: (Instant, Counters),
    /// Answers under the limit, for how long it was set, and what was counted meanwhile.
    held: (Answers, Duration, Counters),
    group: MemoryGroup,
    folder: TempDir,
}

/// A JSON number; NaN if it is none.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// Right answers per second.
fn per_second((answers, time): &(Answers, Duration)) -> f64 {
    answers.right as f64 / time.as_secs_f64()
}

impl HeldService {
    /// Starts a service in a group below `top`, and its load.
    fn start(service: &Service, top: &MemoryGroup, outside: &MemoryGroup) -> HeldService {
        let begin = Instant::now();
        let (group, folder) = (top.below_named(service.name), TempDir::public());
        let place = Surroundings {
            group: &group,
            outside,
            folder: &folder,
        };
        let started = service.start(&place);
        let load = Load::start(service, &started.address);
        eprintln!("{} is there after {:.0?}", service.name, begin.elapsed());
        HeldService {
            service: *service,
            load,
            _started: started,
            report: Value::Null,
            working_sets: Vec::new(),
            alone: Answers::default(),
            learned: Default::default(),
            sizes: Sizes::default(),
            limit: 0,
            resize: None,
            resized: String::new(),
            since: (begin, Counters::default()),
            held: Default::default(),
            group,
            folder,
        }
    }

    /// Starts the report that watches the group for `time`.
    fn watch(&self, time: Duration, outside: &MemoryGroup) -> Running {
        let (path, time) = (self.group.path(), format!("{}s", time.as_secs()));
        let words = [
            "report", "--cgroup", &path, "--for", &time, "--curve", "--json",
        ];
        outside.run(&pagetide::command(words)).start()
    }

    /// Value of a field of the report's suggestion, bytes; 0 if there is none.
    fn suggested(&self, field: &str) -> u64 {
        self.report["needed"]["suggest"][field]
            .as_u64()
            .unwrap_or(0)
    }

    /// Bytes that the limit must allow beside the pages of the programs: kernel memory, shared
    /// files, unmapped page cache.
    fn beside(&self) -> u64 {
        ["kernel_bytes", "shared_bytes", "cache_bytes"]
            .map(|field| self.suggested(field))
            .iter()
            .sum()
    }

    /// Starts `resize`, and waits until it has limited the service.
    fn hold(&mut self, at: &str, watch: Duration, outside: &MemoryGroup) {
        let needed = self.report["needed"]["bytes"].as_u64().unwrap_or(0);
        self.limit = match at {
            "needs" => needed + self.beside(),
            _ => self.suggested("memory_high_bytes"),
        };
        let _ = self.load.take();
        self.since = (Instant::now(), Counters::of(&self.group));
        let (path, size) = (self.group.path(), self.limit.to_string());
        let watch = format!("{}s", watch.as_secs());
        let words = [
            "resize",
            "--cgroup",
            &path,
            "--memory-max",
            &size,
            "--watch",
            &watch,
        ];
        let mut resize = outside.run(&pagetide::command(words)).start();
        let is_set =
            || (resize.stdout().contains("limit set to") || resize.ended().is_some()).then_some(());
        assert!(wait::poll(SLACK, is_set).is_some(), "{}", resize.state());
        eprintln!(
            "{}: {}",
            self.service.name,
            resize.stdout().trim().replace('\n', "; ")
        );
        self.resize = Some(resize);
    }

    /// Waits for the end of `resize`; records its error message. A limit that `resize` has removed
    /// is set again, to measure what it would have cost.
    fn finish_resize(&mut self) {
        let Some(resize) = self.resize.take() else {
            return;
        };
        let outcome = resize.wait(SLACK);
        if !outcome.status.success() {
            self.resized = outcome.stderr.trim().replace('\n', "; ");
            eprintln!("{}: {}", self.service.name, self.resized);
            let file = Path::new(&self.group.path()).join("memory.limit_in_bytes");
            if let Err(error) = std::fs::write(file, self.limit.to_string()) {
                self.resized += &format!("; cannot be held: {error}");
            }
        }
    }

    /// Records answers and counters at the end of the hold.
    fn end(&mut self) {
        let (since, before) = self.since;
        let counters = Counters::of(&self.group).since(&before);
        self.held = (self.load.take(), since.elapsed(), counters);
    }

    /// Resident bytes of the service that are charged to other groups, such as libraries; the limit
    /// does not count them.
    fn charged_elsewhere(&self) -> u64 {
        let of = |field: &str| self.report[field].as_u64().unwrap_or(0);
        let beside = of("kernel_bytes") + of("unmapped_cache_bytes");
        of("resident_bytes").saturating_sub(of("charged_bytes").saturating_sub(beside))
    }

    /// Refaults per minute that the report predicts for the limit. They are those of its curve at
    /// the size `limit - beside() + charged_elsewhere()`. Above the curve's last size the number
    /// falls evenly to 0 at the whole resident size, as by the report's own rule.
    fn predicted(&self) -> f64 {
        let size = (self.limit + self.charged_elsewhere()).saturating_sub(self.beside()) as f64;
        let points = self.report["curve"]["points"].as_array();
        let points = points.into_iter().flatten();
        let reported = points.map(|point| {
            (
                number(&point["bytes"]),
                number(&point["refaults_per_minute"]),
            )
        });
        let all = (number(&self.report["needed"]["now_bytes"]), 0.0);
        let points: Vec<(f64, f64)> = reported.chain([all]).collect();
        match points.iter().position(|point| point.0 >= size) {
            None => 0.0,
            Some(0) => points[0].1,
            Some(at) => {
                let ((x0, y0), (x1, y1)) = (points[at - 1], points[at]);
                y0 + (y1 - y0) * (size - x0) / (x1 - x0).max(1.0)
            }
        }
    }

    /// The results under the limit.
    fn row(&self) -> Row {
        let (answers, time, counters) = &self.held;
        let price = &self.report["needed"]["price"];
        let minutes = time.as_secs_f64() / 60.0;
        let (anon, file) = (counters.anon as f64, counters.of_files() as f64);
        let read = counters.read(pages_read_per_fault(self.folder.path())) as f64;
        let waited = anon * number(&price["anon_us"]) + (file + read) * number(&price["file_us"]);
        let held = per_second(&(answers.clone(), *time));
        Row {
            predicted: self.predicted(),
            refaults: (anon + file) / minutes,
            of_files: file / minutes,
            read: read / minutes,
            cost: 100.0 * waited / 1e6 / time.as_secs_f64(),
            throughput: 100.0 * held / per_second(&self.learned),
            killed: counters.killed,
            wrong: answers.wrong + self.learned.0.wrong,
            failed: answers.failed,
        }
    }
}

/// Results of a service under its limit.
struct Row {
    /// Predicted refaults per minute.
    predicted: f64,
    /// Refaults by page faults per minute, measured.
    refaults: f64,
    /// Refaults by page faults that read a file, per minute.
    of_files: f64,
    /// Refaults by read(2), per minute.
    read: f64,
    /// Time spent waiting for refaults, percent.
    cost: f64,
    /// Right answers per second, in percent of those while the group was watched.
    throughput: f64,
    /// Processes killed by the OOM killer.
    killed: u64,
    wrong: u64,
    failed: u64,
}

impl Row {
    /// Whether there were as many refaults as predicted. Refaults by read(2) count, though the
    /// report predicts none for unmapped page cache.
    fn is_near(&self) -> bool {
        (self.refaults + self.read - self.predicted).abs() <= (NEAR * self.predicted).max(FLOOR)
    }
}

/// Watches all services for `time`, each by its own report.
fn watch_all(all: &mut [HeldService], time: Duration, outside: &MemoryGroup) {
    let begin = Instant::now();
    let reports: Vec<Running> = all
        .iter()
        .map(|held| {
            let running = held.watch(time, outside);
            // Each report measures the price of a page when it begins, so they begin one second
            // apart.
            thread::sleep(Duration::from_secs(1));
            running
        })
        .collect();
    all.iter().for_each(|held| drop(held.load.take()));
    let from = Instant::now();
    while begin.elapsed() < time {
        for held in &mut *all {
            held.working_sets
                .push(Sizes::of(&held.group, false).working_set);
        }
        thread::sleep(SAMPLED.min(time.saturating_sub(begin.elapsed())));
    }
    for (held, report) in all.iter_mut().zip(reports) {
        held.learned = (held.load.take(), from.elapsed());
        let outcome = report.wait(SLACK);
        let name = held.service.name;
        assert!(outcome.status.success(), "{name}: {}", outcome.stderr);
        held.report = serde_json::from_str(&outcome.stdout).expect("JSON");
        held.sizes = Sizes::of(&held.group, true);
    }
}

/// Prints the sizes of each service before its limit.
fn sizes_table(all: &[HeldService]) {
    eprintln!(
        "\n| service | resident | PSS | usage | `working_set_bytes` | VPA | needs | suggested high, max | confidence |\n\
         |---|---|---|---|---|---|---|---|---|"
    );
    let mib = |bytes: f64| format!("{:.0}", bytes / MIB);
    for held in all {
        let (sizes, needed) = (&held.sizes, &held.report["needed"]);
        let parts = [sizes.rss, sizes.pss, sizes.usage, sizes.working_set];
        let parts = parts.map(|bytes| mib(bytes as f64)).join(" | ");
        eprintln!(
            "| {} | {parts} | {} | {} | {}, {} | {} |",
            held.service.name,
            mib(vpa_target(&held.working_sets)),
            mib(number(&needed["bytes"])),
            mib(held.suggested("memory_high_bytes") as f64),
            mib(held.suggested("memory_max_bytes") as f64),
            needed["confidence"].as_str().unwrap_or("none"),
        );
    }
}

/// Prints the results of each service under its limit.
fn held_table(all: &[HeldService]) {
    eprintln!(
        "\n| service | held at, MiB | said a minute | faults a minute (of files) | pages read again | cost, % | throughput, % | p50, p99 alone, ms | watched | held | limit met |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    for held in all {
        let (row, (answers, _, counters)) = (held.row(), &held.held);
        let both = |answers: &Answers| {
            format!(
                "{:.1}, {:.1}",
                answers.percentile(50),
                answers.percentile(99)
            )
        };
        eprintln!(
            "| {} | {:.0} | {:.0} | {:.0} ({:.0}) | {:.0} | {:.3} | {:.1} | {} | {} | {} | {} |",
            held.service.name,
            held.limit as f64 / MIB,
            row.predicted,
            row.refaults,
            row.of_files,
            row.read,
            row.cost,
            row.throughput,
            both(&held.alone),
            both(&held.learned.0),
            both(answers),
            counters.limit_met,
        );
        if let Some(failure) = answers.failure.as_ref().or(held.learned.0.failure.as_ref()) {
            eprintln!("{}: a request failed: {failure}", held.service.name);
        }
    }
}

/// Adds the results and the goals. The goals are for twelve services; for fewer they are the same
/// part of all.
fn add_goals(all: &[HeldService], found: &mut Findings) {
    let rows: Vec<Row> = all.iter().map(HeldService::row).collect();
    for (held, row) in all.iter().zip(&rows) {
        let mut tell = |what: &str, value: f64, unit| {
            found.figure(&format!("{}: {what}", held.service.name), value, unit);
        };
        tell(
            "needs",
            number(&held.report["needed"]["bytes"]) / MIB,
            "MiB",
        );
        tell("held at", held.limit as f64 / MIB, "MiB");
        tell("resident", held.sizes.rss as f64 / MIB, "MiB");
        tell("PSS", held.sizes.pss as f64 / MIB, "MiB");
        tell(
            "working_set_bytes",
            held.sizes.working_set as f64 / MIB,
            "MiB",
        );
        tell("VPA", vpa_target(&held.working_sets) / MIB, "MiB");
        tell("said", row.predicted, "a minute");
        tell("refaults", row.refaults, "a minute");
        tell("pages read again", row.read, "a minute");
        tell("cost", row.cost, "%");
        tell("throughput", row.throughput, "%");
        tell("p99 alone", held.alone.percentile(99), "ms");
        tell("p99 watched", held.learned.0.percentile(99), "ms");
        tell("p99 held", held.held.0.percentile(99), "ms");
    }
    let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count() as f64;
    let of_twelve = |goal: usize| (rows.len() * goal / ALL.len()) as f64;
    let is_cheap = |row: &Row| row.cost <= COST;
    found.at_least(
        "cost within twice the budget",
        count(&is_cheap),
        "services",
        of_twelve(11),
    );
    let what = "refaults within 30%, or 60 a minute, of what was said";
    found.at_least(what, count(&Row::is_near), "services", of_twelve(10));
    let is_fast = |row: &Row| row.throughput >= THROUGHPUT;
    found.at_least(
        "throughput at least 98%",
        count(&is_fast),
        "services",
        of_twelve(12),
    );
    let killed: u64 = rows.iter().map(|row| row.killed).sum();
    let bad: u64 = rows.iter().map(|row| row.wrong + row.failed).sum();
    let back = all.iter().filter(|held| !held.resized.is_empty()).count();
    found.at_most("killed for memory", killed as f64, "", 0.0);
    found.at_most("wrong or failed answers", bad as f64, "", 0.0);
    found.at_most("limits that `resize` did not keep", back as f64, "", 0.0);
}

/// Writes each report to a file in the folder.
fn save(all: &[HeldService], folder: &str) {
    std::fs::create_dir_all(folder).expect("a folder");
    for held in all {
        let file = Path::new(folder).join(format!("{}.json", held.service.name));
        std::fs::write(file, held.report.to_string()).expect("there is room");
    }
}

/// The services that `--only` names, or all: those that can run here, and the number of those that
/// cannot.
fn chosen_services(args: &Args) -> (Vec<Service>, usize) {
    let only = args.text("--only");
    let is_requested = |service: &&Service| {
        only.as_deref()
            .is_none_or(|only| only.split(',').any(|name| name == service.name))
    };
    let requested: Vec<Service> = ALL.iter().filter(is_requested).copied().collect();
    let (can, cannot): (Vec<Service>, Vec<Service>) = requested
        .into_iter()
        .partition(|service| service.missing().is_empty());
    for service in &cannot {
        eprintln!(
            "{} cannot run: missing {}",
            service.name,
            service.missing().join(", ")
        );
    }
    (can, cannot.len())
}

fn main() -> ExitCode {
    let args = Args::from_env();
    let mut found = Findings::new("services", &args);
    let [warm, learning, hold] = [("--warm", 60), ("--learn", 300), ("--hold", 900)]
        .map(|(name, otherwise)| args.seconds(name, otherwise));
    let at = args.text("--at").unwrap_or_else(|| "high".to_owned());
    let (services, missing) = chosen_services(&args);
    let mut janitor = Janitor::start();
    for folder in [std::env::temp_dir(), target_dir().join("e2e")] {
        let own = folder.join(format!("pagetide-e2e-{}-*", std::process::id()));
        janitor.register("folder", &own.to_string_lossy());
    }
    let swap = Swap::new(SWAP_MIB);
    janitor.register("swap", &swap.device());
    let top = MemoryGroup::new();
    janitor.register("group", &top.path());
    let outside = top.below_named("loads");
    let mut all: Vec<HeldService> = services
        .iter()
        .map(|service| HeldService::start(service, &top, &outside))
        .collect();
    thread::sleep(warm);
    all.iter().for_each(|held| drop(held.load.take()));
    thread::sleep(warm);
    for held in &mut all {
        held.alone = held.load.take();
    }
    watch_all(&mut all, learning, &outside);
    if let Some(folder) = args.text("--reports") {
        save(&all, &folder);
    }
    sizes_table(&all);
    let watch = Duration::from_secs(120).min(hold / 2);
    for held in &mut all {
        held.hold(&at, watch, &outside);
    }
    let end = Instant::now() + hold;
    thread::sleep(watch + Duration::from_secs(1));
    all.iter_mut().for_each(HeldService::finish_resize);
    thread::sleep(end.saturating_duration_since(Instant::now()));
    all.iter_mut().for_each(HeldService::end);
    held_table(&all);
    add_goals(&all, &mut found);
    found.at_most("services that cannot run here", missing as f64, "", 0.0);
    drop(all);
    drop(outside);
    drop(top);
    drop(swap);
    found.finish()
}
