//! The metrics that Prometheus reads.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use engine::age_bins::BINS;
use host::manage::tenants::figures::{Cpu, Figures, Walks};
use host::manage::tenants::left_out::LeftOut;
use host::system::pressure::{Pressure, Stall};
use proptest::prelude::*;

use super::*;

fn snapshot(paths: &[&[u8]]) -> Snapshot {
    let mut walks = Walks {
        total: Duration::from_micros(2_500),
        ..Walks::default()
    };
    walks.counts[0] = 3;
    walks.counts[2] = 1;
    let tenants = paths.iter().map(|path| {
        let mut node = NodeFigures {
            unknown: [4096, 0],
            ..NodeFigures::default()
        };
        node.ages[0][0] = 8192;
        node.ages[0][3] = 4096;
        node.ages[1][BINS - 1] = 12288;
        TenantFigures {
            path: OsStr::from_bytes(path).into(),
            nodes: vec![node],
            swapped: 7,
            charged: Some(9),
            refaults: [1, 2],
            steals: [
                ("kswapd", 3),
                ("direct", 4),
                ("proactive", 5),
                ("kernel", 6),
            ],
            left_out_groups: 8,
            late_seconds: Some(75),
            unread: 3 << 20,
            pressure: Some(Pressure {
                some: Stall {
                    total_us: 1_500_000,
                    ..Stall::default()
                },
                full: None,
            }),
        }
    });
    Snapshot {
        at_ms: 1_700_000_000_250,
        nodes: vec![0],
        figures: Figures {
            scans: 4,
            tenants: tenants.collect(),
            left_out: LeftOut::of([("pid 12".to_owned(), "it is managed")]),
            walks,
            cpu: Cpu {
                scan: Duration::from_millis(1500),
                page_out: Duration::ZERO,
                other: Duration::from_nanos(1),
            },
        },
        curves: Vec::new(),
        price: host::report::Price::default(),
        swap: Some(SwapStore {
            swapped_bytes: 70,
            compressed_bytes: 20,
        }),
        names: Arc::default(),
        actions: Vec::new(),
    }
}

/// The labels that other tools use find a container of a pod, for any names of container and pod.
#[test]
fn needed_memory_is_labelled_with_units_and_containers() {
    let mut snapshot = snapshot(&[b"web"]);
    let mut workload = host::workload::Workload::of(std::path::Path::new("/web"));
    workload.unit = Some("crio-1.scope".to_owned());
    workload.namespace = Some("shop".to_owned());
    workload.pod = Some("web-0".to_owned());
    workload.container = Some("a \"b\"\n".to_owned());
    snapshot.names = Arc::new(BTreeMap::from([(PathBuf::from("web"), workload)]));
    let needed = Needed {
        bytes: 1,
        ..Needed::default()
    };
    let reported = text(&snapshot, &BTreeMap::from([(PathBuf::from("web"), needed)]));
    let line = r#"pagetide_needed_bytes{tenant="/web",unit="crio-1.scope",namespace="shop",pod="web-0",container="a \"b\"\n"} 1"#;
    assert!(reported.lines().any(|found| found == line), "{reported}");
}

/// Every name and label of docs/interfaces.md, which scripts rely on.
#[test]
fn names_are_those_of_the_interface() {
    let needed = Needed {
        bytes: 34 << 20,
        confidence: host::report::Confidence::High,
        refaults_per_minute: 90.0,
        ..Needed::default()
    };
    let needed = BTreeMap::from([(PathBuf::from("web"), needed)]);
    let reported = text(&snapshot(&[b"web", b"new"]), &needed);
    for line in [
        r#"pagetide_needed_bytes{tenant="/web"} 35651584"#,
        r#"pagetide_needed_confidence{tenant="/web"} 2"#,
        r#"pagetide_refaults_predicted{tenant="/web"} 1.5"#,
        r#"pagetide_swap_compressed_bytes{tenant="/web"} 2"#,
        r#"pagetide_net_saved_bytes{tenant="/web"} 5"#,
        r#"pagetide_resident_bytes{tenant="/web",node="0",type="anon"} 16384"#,
        r#"pagetide_resident_bytes{tenant="/web",node="0",type="file"} 12288"#,
        r#"pagetide_swapped_bytes{tenant="/web"} 7"#,
        r#"pagetide_charged_bytes{tenant="/web"} 9"#,
        r#"pagetide_left_out_groups{tenant="/web"} 8"#,
        r#"pagetide_scan_late_seconds{tenant="/web"} 75"#,
        r#"pagetide_unread_bytes{tenant="/web"} 3145728"#,
        r#"pagetide_unknown_age_bytes{tenant="/web",node="0",type="anon"} 4096"#,
        r#"pagetide_page_age_bytes{tenant="/web",node="0",type="anon",le="1"} 8192"#,
        r#"pagetide_page_age_bytes{tenant="/web",node="0",type="anon",le="5"} 8192"#,
        r#"pagetide_page_age_bytes{tenant="/web",node="0",type="anon",le="10"} 12288"#,
        r#"pagetide_page_age_bytes{tenant="/web",node="0",type="anon",le="+Inf"} 12288"#,
        r#"pagetide_page_age_bytes{tenant="/web",node="0",type="file",le="604800"} 0"#,
        r#"pagetide_page_age_bytes{tenant="/web",node="0",type="file",le="+Inf"} 12288"#,
        r#"pagetide_refaults_total{tenant="/web",type="anon"} 1"#,
        r#"pagetide_refaults_total{tenant="/web",type="file"} 2"#,
        r#"pagetide_steals_total{tenant="/web",reason="kswapd"} 3"#,
        r#"pagetide_steals_total{tenant="/web",reason="direct"} 4"#,
        r#"pagetide_steals_total{tenant="/web",reason="proactive"} 5"#,
        r#"pagetide_steals_total{tenant="/web",reason="kernel"} 6"#,
        r#"pagetide_pressure_seconds_total{tenant="/web",share="some"} 1.5"#,
        r#"pagetide_walk_seconds_bucket{le="0.001"} 3"#,
        r#"pagetide_walk_seconds_bucket{le="0.005"} 4"#,
        r#"pagetide_walk_seconds_bucket{le="+Inf"} 4"#,
        "pagetide_walk_seconds_sum 0.0025",
        "pagetide_walk_seconds_count 4",
        r#"pagetide_overhead_cpu_seconds_total{part="look"} 1.5"#,
        r#"pagetide_overhead_cpu_seconds_total{part="page_out"} 0"#,
        r#"pagetide_overhead_cpu_seconds_total{part="other"} 0.000000001"#,
        "pagetide_left_out 1",
        r#"pagetide_left_out_info{what="pid 12",reason="it is managed"} 1"#,
        "pagetide_last_look_timestamp_seconds 1700000000.25",
        concat!(
            "pagetide_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1"
        ),
    ] {
        assert!(
            reported.lines().any(|found| found == line),
            "{line}\n{reported}"
        );
    }
    assert!(
        !reported.contains(r#"needed_bytes{tenant="/new"}"#),
        "not known"
    );
    let share = "share=\"full\"";
    assert!(!reported.contains(share), "the kernel did not tell it");
}

/// Checks that the samples of a metric follow its help and type without a gap, and that each series
/// occurs once.
fn is_well_formed(reported: &str) {
    let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
    let mut family = String::new();
    for line in reported.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a name and a text");
            assert!(families.insert(name.to_owned()), "{name} once more");
            assert!(!help.is_empty());
            name.clone_into(&mut family);
        } else if let Some(ty) = line.strip_prefix("# TYPE ") {
            assert_eq!(ty.split(' ').next(), Some(family.as_str()));
        } else {
            let (labels, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(series.insert(labels.to_owned()), "{labels} once more");
            let end = labels.find(['{', ' ']).unwrap_or(labels.len());
            let name = &labels[..end];
            let parts = ["_bucket", "_sum", "_count"];
            let bare = parts.iter().find_map(|part| name.strip_suffix(part));
            let is_of = name == family || bare == Some(family.as_str());
            assert!(is_of, "{name} in {family}");
        }
    }
    assert!(
        reported.ends_with('\n') && families.len() == 22,
        "{families:?}"
    );
}

#[test]
fn odd_names_are_labels_of_their_own() {
    let odd: [&[u8]; 7] = [b"", b"a\"b", br"a\b", b"a\nb", b"a}b 1", b"\xff", b"\xfe"];
    let reported = text(&snapshot(&odd), &BTreeMap::new());
    is_well_formed(&reported);
    for label in [
        r#"{tenant="/"}"#,
        r#"{tenant="/a\"b"}"#,
        r#"{tenant="/a\\b"}"#,
        r#"{tenant="/a\nb"}"#,
        r#"{tenant="/a}b 1"}"#,
        r#"{tenant="///ff"}"#,
        r#"{tenant="///fe"}"#,
    ] {
        let line = format!("pagetide_swapped_bytes{label} 7");
        assert!(
            reported.lines().any(|found| found == line),
            "{line}\n{reported}"
        );
    }
}

proptest! {
    #[test]
    fn any_names_give_valid_lines(
        names in prop::collection::btree_set(prop::collection::vec(any::<u8>(), 0..12), 0..6)
    ) {
        let names: Vec<Vec<u8>> = names.into_iter().map(|name| {
            name.into_iter().filter(|byte| !matches!(byte, 0 | b'/')).collect()
        }).collect();
        let distinct: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
        let distinct: Vec<&[u8]> = distinct.into_iter().collect();
        is_well_formed(&text(&snapshot(&distinct), &BTreeMap::new()));
    }
}
