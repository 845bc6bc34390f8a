//! Tests of the page as users and attackers see it.

use host::manage::tenants::figures::{Figures, NodeFigures, TenantFigures};
use host::report::{Curve, CurvePoint};
use proptest::prelude::*;

use super::super::history::History;
use super::super::snapshot::Action;
use super::*;
use crate::http;

const HOSTILE: &str = "<script>alert(1)</script>\"'&\u{202e}";
const NOW: u64 = 1_800_000 * 1_000_000;

fn tenant(path: &str, mib: u64) -> TenantFigures {
    let mut node = NodeFigures::default();
    node.ages[0][0] = mib << 20;
    node.ages[0][8] = mib << 19;
    TenantFigures {
        path: path.into(),
        nodes: vec![node],
        swapped: mib << 18,
        charged: Some(mib << 21),
        ..TenantFigures::default()
    }
}

fn snapshot(paths: &[&str]) -> Snapshot {
    let tenants = (1..).zip(paths).map(|(mib, path)| tenant(path, mib));
    Snapshot {
        at_ms: NOW,
        nodes: vec![0],
        figures: Figures {
            tenants: tenants.collect(),
            ..Figures::default()
        },
        curves: Vec::new(),
        names: std::sync::Arc::default(),
        price: host::report::Price::default(),
        swap: None,
        actions: vec![Action {
            at_ms: NOW,
            text: format!("paged out 7 pages of /{HOSTILE}: over memory.high"),
        }],
    }
}

fn page(snapshot: &Snapshot, target: &str) -> String {
    let mut history = History::default();
    history.push(snapshot);
    let query = http::Query::parse(target).expect("encoded well");
    html(&View {
        snapshot,
        curve: snapshot.curves.iter().find_map(|(_, curve)| curve.as_ref()),
        history: &history,
        query: Query::of(&query),
        host: "a<b",
        nonce: "0123",
        now_ms: NOW + 1000,
    })
}

/// Checks that nothing on the page is loaded from elsewhere, and that our style and script have the
/// nonce.
fn is_sound(page: &str) {
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("nonce=\"0123\"").count(), 2);
    for outside in [
        "src=",
        "url(",
        "@import",
        "javascript:",
        " style=",
        " onclick",
        " onload",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let elsewhere = page.matches("http").count();
    assert_eq!(elsewhere, 1, "the name of SVG in the script");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(!page.contains('\u{202e}') && page.ends_with("</html>\n"));
    for href in page.split(" href=\"").skip(1) {
        assert!(
            href.starts_with("/?tenant=") || href.starts_with("data:,\""),
            "{}",
            &href[..40]
        );
    }
}

#[test]
fn the_page_shows_all_tenants_and_one_of_them() {
    let page_of = page(
        &snapshot(&["", "web", "web/a", "db"]),
        "tenant=%2Fweb&range=day",
    );
    is_sound(&page_of);
    assert!(
        page_of.contains("<title>/web on a&lt;b - pagetide</title>"),
        "{page_of}"
    );
    for part in [
        "Page age over time",
        "Memory by age",
        "What was done",
        "<b>3 MiB</b><span>in memory",
    ] {
        assert!(page_of.contains(part), "{part}");
    }
    assert_eq!(page_of.matches("<tr").count(), 5);
    assert!(page_of.contains("<tr class=\"chosen\"><th class=\"name d1\" scope=\"row\"><a href=\"/?tenant=%2Fweb&amp;range=day\""));
    assert!(
        page_of.contains("title=\"/web/a\">a</a>"),
        "the last part says most"
    );
    let sorted = page(&snapshot(&["", "web", "db"]), "sort=resident");
    assert!(sorted.find(">/db</a>") < sorted.find(">/web</a>"));
    let found = page(&snapshot(&["", "web", "db"]), "find=w");
    assert_eq!(found.matches("<tr").count(), 2);
    let missing = page(&snapshot(&[""]), "tenant=%2Fnone");
    assert!(missing.contains("no such tenant"));
}

#[test]
fn the_page_shows_a_known_curve() {
    let mut known = snapshot(&["", "a<b"]);
    let target = "tenant=%2Fa<b".replace('<', "%3C");
    let without = page(&known, &target);
    is_sound(&without);
    assert!(
        without.contains("Not known yet") && without.contains("report --curve &#39;/a&lt;b&#39;<")
    );
    let point = |mib: u64, refaults| CurvePoint::new(mib << 20, 0, (refaults, 9_000), 60_000);
    let curve = Curve {
        points: vec![point(1, 900), point(2, 9)],
        ..Curve::default()
    };
    known.curves = vec![("a<b".into(), Some(curve))];
    let with = page(&known, &target);
    is_sound(&with);
    assert!(!with.contains("Not known yet"));
    for part in [
        "<h3>What less memory would cost</h3>",
        "Pages that would come back a minute, by memory: 1 MiB: 900 pages a minute to 2 MiB: 9.0",
        "<path class=\"curve\"",
        // The percentage is of the tenant's memory.
        "<td>1 MiB</td><td>33%</td>",
    ] {
        assert!(with.contains(part), "{part}: {with}");
    }
    let gone = page(&known, "tenant=%2Fgone");
    assert!(!gone.contains("What less memory"));
}

#[test]
fn hostile_names_stay_text() {
    let target = format!(
        "tenant={}&find={}",
        http::encoded(&format!("/{HOSTILE}")),
        http::encoded("<")
    );
    let page = page(&snapshot(&["", HOSTILE]), &target);
    is_sound(&page);
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(
        page.contains("paged out 7 pages of /&lt;script&gt;"),
        "its actions are found"
    );
}

#[test]
fn a_thousand_tenants_are_not_all_listed() {
    let names: Vec<String> = (0..1000).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let page_of = page(&snapshot(&names), "");
    assert_eq!(page_of.matches("<tr").count(), ROWS_MAX + 1);
    assert!(page_of.contains("and 800 more"));
    assert!(page_of.len() < 1 << 20, "{}", page_of.len());
    assert_eq!(
        page(&snapshot(&names), "find=t99").matches("<tr").count(),
        12
    );
}

proptest! {
    #[test]
    fn any_names_and_queries_give_a_valid_page(
        names in prop::collection::vec("[^/\u{0}]{1,12}", 0..5), tenant in any::<String>(), find in any::<String>()
    ) {
        // The names in this test must not contain these texts, because the checks below search the
        // page for them.
        let plain = |text: &str| !text.contains("http") && !text.contains("src=");
        prop_assume!(names.iter().all(|name| plain(name)) && plain(&tenant) && plain(&find));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let target = format!("tenant={}&find={}&sort=back&range=week", http::encoded(&tenant), http::encoded(&find));
        let page = page(&snapshot(&names), &target);
        prop_assert_eq!(page.matches("<script").count(), 1);
        prop_assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
}
