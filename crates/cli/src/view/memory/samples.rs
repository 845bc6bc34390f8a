//! Sample reports for tests of the views.

use host::report::{
    AgeBin, AgeGrain, AgeSource, Curve, CurvePoint, Ended, KernelSays, NodeAge, Overhead,
    PressureOf, Process, Reaccess, Report, Saving, SwapStore, Unknown,
};
use proptest::prelude::*;

pub(crate) const MIB: u64 = 1 << 20;

/// A command line that a hostile process could have.
pub(crate) const HOSTILE: &str =
    "<script>alert(1)</script>\x1b[2J\x1b]0;title\x07\u{9b}31m\u{202e}\",'=1\r\n\u{6f22}\u{5b57}";

fn bin(older_than_ms: u64, anon: u64, file: u64) -> AgeBin {
    AgeBin {
        older_than_ms,
        anon_bytes: anon * MIB,
        file_bytes: file * MIB,
    }
}

pub(crate) fn process(pid: u32, resident: u64, command: &str) -> Process {
    Process {
        pid,
        command: command.to_owned(),
        uid: pid % 3,
        cgroup: format!("/system.slice/service-{}.service", pid % 4),
        resident_bytes: resident * MIB,
        mapped_bytes: (resident + 20) * MIB,
        swapped_bytes: 3 * MIB,
        young_bytes: resident * MIB / 3,
        older_than_10s_bytes: resident * MIB / 2,
        older_than_1m_bytes: resident * MIB / 4,
        ..Process::default()
    }
}

const ENDED: Ended = Ended {
    processes: 12,
    unseen: 3,
    peak_resident_bytes: 40 * MIB,
    counted_by_events: true,
};
const OVERHEAD: Overhead = Overhead {
    cpu_ms: 1_300,
    walk_ms: 700,
    clear_ms: 340,
    clear_longest_us: 2_812,
    page_out_ms: 0,
    memory_bytes: 4 * MIB,
};

/// Swap of a host on which memory compresses to two fifths.
const HOST_SWAP: SwapStore = SwapStore {
    swapped_bytes: 200 * MIB,
    compressed_bytes: 80 * MIB,
};

/// Returns a report about a server with some children, after two minutes.
pub(crate) fn server() -> Report {
    let commands = [
        "redis-server *:6379",
        "redis-server rdb-bgsave",
        "sh -c backup",
    ];
    Report {
        pid: Some(1234),
        command: "redis-server *:6379".to_owned(),
        wall_ms: 131_000,
        resident_bytes: 1208 * MIB,
        charged_bytes: Some(1500 * MIB),
        charged_peak_bytes: Some(1600 * MIB),
        resident_peak_bytes: 1600 * MIB,
        swapped_bytes: 100 * MIB,
        host_swap: Some(HOST_SWAP),
        saving: Saving::of(100 * MIB, Some(HOST_SWAP), None),
        evicted_pages: 25_600,
        refaulted_pages: 1_234,
        page_age: vec![NodeAge {
            node: 0,
            bins: vec![
                bin(0, 300, 24),
                bin(1_000, 100, 2),
                bin(5_000, 80, 2),
                bin(10_000, 60, 0),
                bin(20_000, 100, 100),
                bin(30_000, 40, 0),
                bin(60_000, 280, 0),
            ],
        }],
        unknown_age_bytes: 120 * MIB,
        unknown_because: vec![Unknown {
            reason:
                "memory of a virtual machine (KVM): the processor's marks are in tables of its \
                     own, which nobody outside can read"
                    .to_owned(),
            bytes: 120 * MIB,
        }],
        age_source: AgeSource::PageTables,
        age_grain: AgeGrain::Page,
        interval_ms: 1000,
        walks: 132,
        reaccessed: vec![
            reaccess(0, 9_000_000),
            reaccess(1_000, 51_000),
            reaccess(10_000, 2_500),
            reaccess(60_000, 300),
        ],
        unmapped_cache_bytes: Some(200 * MIB),
        kernel_bytes: Some(20 * MIB),
        charged_rest_bytes: Some(72 << 20),
        kernel_says: KernelSays {
            asked_ms_ago: 0,
            pss_bytes: Some(1207 * MIB),
            swap_pss_bytes: Some(98 * MIB),
            shared_bytes: Some(7 * MIB),
            pressure_some_avg10: Some(125),
            pressure_of: Some(PressureOf::Group),
        },
        ended: ENDED,
        overhead: OVERHEAD,
        processes: (0u32..3)
            .zip(commands)
            .map(|(n, command)| process(1234 + n, 900 / (u64::from(n) + 1), command))
            .collect(),
        notes: vec!["2 processes of other users could not be read".to_owned()],
        ..Report::default()
    }
}

fn reaccess(older_than_ms: u64, pages: u64) -> Reaccess {
    Reaccess {
        older_than_ms,
        pages,
    }
}

/// Returns a report about all processes of a host: `processes` of them, `n` scans after the start.
pub(crate) fn everything(processes: u32, n: u64) -> Report {
    let mut report = server();
    report.pid = None;
    report.command = "all processes".to_owned();
    report.wall_ms = n * 2000;
    report.interval_ms = 2000;
    report.walks = n + 1;
    report.processes = (0..processes)
        .map(|i| {
            process(
                100 + i,
                u64::from(processes - i),
                "/usr/lib/some/long/path/program --with --many --options=yes",
            )
        })
        .collect();
    report
}

/// Returns the report of [`server`] after `n` scans, in which its memory has become colder: for a
/// long history.
pub(crate) fn cooling(n: u64) -> Report {
    let mut report = server();
    report.wall_ms = n * 1000;
    report.walks = n + 1;
    let hot = 200 + (n * 37) % 90;
    let warm = (n * 3).min(150);
    let bins = &mut report.page_age[0].bins;
    *bins = vec![
        bin(0, hot, 20),
        bin(1_000, warm, 4),
        bin(5_000, n.min(60), 0),
    ];
    for (edge, ms) in [(10, 10_000), (60, 60_000), (600, 600_000)] {
        bins.push(bin(
            ms,
            n.saturating_sub(edge).min(180),
            n.saturating_sub(edge).min(40),
        ));
    }
    report.swapped_bytes = n.min(80) * MIB;
    let all = bins.iter().map(AgeBin::bytes).sum::<u64>();
    report.resident_bytes = all + report.unknown_age_bytes;
    report
}

/// Returns a report with hostile names in all fields, and impossible figures.
pub(crate) fn hostile() -> Report {
    let mut report = huge();
    report.command = HOSTILE.to_owned();
    report.notes = vec![HOSTILE.to_owned(); 20];
    report.unknown_because = vec![
        Unknown {
            reason: HOSTILE.to_owned(),
            bytes: u64::MAX
        };
        9
    ];
    for process in &mut report.processes {
        process.command = HOSTILE.to_owned();
        process.cgroup = format!("/{HOSTILE}");
    }
    report
}

/// Returns a report with the largest possible value in every figure.
pub(crate) fn huge() -> Report {
    let mut report = everything(12, 70);
    let json = serde_json::to_string(&report).expect("plain data");
    // Every size and count becomes the largest value; fields of smaller types are restored below.
    let mut value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    largest(&mut value);
    value["exit"] = i32::MIN.into();
    value["saving"]["net_bytes"] = i64::MIN.into();
    value["charged_rest_bytes"] = i64::MIN.into();
    value["kernel_says"]["pressure_some_avg10"] = u32::MAX.into();
    for (n, node) in value["page_age"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .enumerate()
    {
        node["node"] = n.into();
    }
    for process in value["processes"].as_array_mut().into_iter().flatten() {
        (process["pid"], process["uid"]) = (u32::MAX.into(), u32::MAX.into());
    }
    report = serde_json::from_value(value).expect("a report");
    report.pid = Some(u32::MAX);
    report
}

fn largest(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) => *number = u64::MAX.into(),
        serde_json::Value::Array(all) => all.iter_mut().for_each(largest),
        serde_json::Value::Object(all) => all.values_mut().for_each(largest),
        _ => {}
    }
}

/// Returns a report about resident memory without any known age.
pub(crate) fn unknown() -> Report {
    let mut report = server();
    report.page_age.clear();
    report.reaccessed.clear();
    report.unknown_age_bytes = report.resident_bytes;
    report.unknown_because.clear();
    (report.age_source, report.age_grain) = (AgeSource::None, AgeGrain::None);
    report
}

/// Generates random reports.
pub(crate) fn any_report() -> impl Strategy<Value = Report> {
    let number = prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..5_000_000_000u64];
    let numbers = prop::collection::vec(number, 64);
    let name = prop_oneof![any::<String>(), Just(HOSTILE.to_owned())];
    let names = prop::collection::vec(name, 0..14);
    (numbers, names, any::<(bool, bool, bool)>()).prop_map(|(numbers, names, flags)| {
        let mut numbers = numbers.into_iter().cycle();
        let mut next = move || numbers.next().unwrap_or_default();
        let mut report = any_sizes(&mut next, flags);
        report.command = names.first().cloned().unwrap_or_default();
        report.notes = names.clone();
        for name in names {
            add_named(&mut report, name, &mut next);
        }
        report
    })
}

fn small(n: u64) -> u32 {
    u32::try_from(n % u64::from(u32::MAX)).unwrap_or_default()
}

fn any_sizes(mut next: impl FnMut() -> u64, flags: (bool, bool, bool)) -> Report {
    let mut report = Report {
        pid: flags.0.then(|| small(next())),
        wall_ms: next(),
        exit: flags.1.then_some(137),
        resident_bytes: next(),
        charged_bytes: flags.2.then(&mut next),
        charged_peak_bytes: flags.2.then(&mut next),
        resident_peak_bytes: next(),
        swapped_bytes: next(),
        evicted_pages: next(),
        refaulted_pages: next(),
        unknown_age_bytes: next(),
        interval_ms: next(),
        walks: next(),
        unmapped_cache_bytes: flags.0.then(&mut next),
        hugetlb_bytes: next(),
        secret_bytes: next(),
        device_bytes: next(),
        pfn_bytes: next(),
        age_source: if flags.1 {
            AgeSource::PageTables
        } else {
            AgeSource::Referenced
        },
        ..Report::default()
    };
    report.curve = flags.2.then(|| any_curve(&mut next));
    report.kernel_says.pss_bytes = flags.1.then(&mut next);
    report.kernel_says.pressure_some_avg10 = flags.2.then(|| small(next()));
    report.kernel_says.pressure_of = flags.2.then_some(PressureOf::Host);
    (report.ended.processes, report.ended.unseen) = (next(), next());
    (report.ended.peak_resident_bytes, report.overhead.cpu_ms) = (next(), next());
    (report.overhead.walk_ms, report.overhead.clear_ms) = (next(), next());
    (
        report.overhead.clear_longest_us,
        report.overhead.memory_bytes,
    ) = (next(), next());
    report
}

fn any_curve(mut next: impl FnMut() -> u64) -> Curve {
    let points = (0..next() % 9).map(|_| {
        let (bytes, idle_ms) = (next(), next());
        CurvePoint::new(bytes, idle_ms, (next(), next()), next())
    });
    let points = points.collect();
    let curve = Curve {
        watched_ms: next(),
        working_set_bytes: next(),
        known_from_bytes: next(),
        known_to_bytes: next(),
        untouched_bytes: next(),
        blind_ms: next(),
        points,
        ..Curve::default()
    };
    curve.recommend(2.0)
}

/// Returns a report about a program that accesses 40 of its 100 MiB evenly, and the rest rarely.
pub(crate) fn curved() -> Report {
    let point = |mib: u64, idle_s: u64, refaults: u64| {
        CurvePoint::new(mib << 20, idle_s * 1000, (refaults, 1_000_000), 60_000)
    };
    let curve = Curve {
        watched_ms: 60_000,
        working_set_bytes: 44 << 20,
        known_from_bytes: 24 << 20,
        known_to_bytes: 48 << 20,
        untouched_bytes: 52 << 20,
        points: vec![
            point(24, 1, 180_000),
            point(30, 2, 90_000),
            point(36, 5, 4_000),
            point(42, 20, 21),
            point(48, 50, 0),
        ],
        ..Curve::default()
    };
    Report {
        wall_ms: 61_000,
        resident_bytes: 100 << 20,
        curve: Some(curve.recommend(2.0)),
        ..Report::default()
    }
}

/// Adds an element to each list of the report.
fn add_named(report: &mut Report, name: String, mut next: impl FnMut() -> u64) {
    report.unknown_because.push(Unknown {
        reason: name.clone(),
        bytes: next(),
    });
    report.reaccessed.push(reaccess(next(), next()));
    report.page_age.push(NodeAge {
        node: 0,
        bins: vec![AgeBin {
            older_than_ms: next(),
            anon_bytes: next(),
            file_bytes: next(),
        }],
    });
    report.processes.push(Process {
        pid: small(next()),
        uid: small(next()),
        cgroup: name.clone(),
        command: name,
        resident_bytes: next(),
        young_bytes: next(),
        older_than_10s_bytes: next(),
        unknown_age_bytes: next(),
        ..Process::default()
    });
}
