//! Tests of the output of reports, compared exactly if the output is plain text.

use proptest::prelude::*;

use super::samples::{HOSTILE, any_report, cooling, curved, everything, hostile, server, unknown};
use super::*;
use crate::view::text::{columns, json_line};
use host::report::{ActionReport, LimitsReport, PolicyReport};

const UNICODE: Style = Style {
    unicode: true,
    ..Style::PLAIN
};

#[test]
fn the_age_of_a_share_is_said() {
    let mut report = server();
    assert!(!human(&report, Style::PLAIN).contains("accessed"));
    report.set_quantile(50.0, Some(0));
    let text = human(&report, Style::PLAIN);
    let line = text
        .lines()
        .find(|line| line.contains("accessed"))
        .expect("a row");
    assert!(
        line.contains("50% of ") && line.contains("of node 0 in the last"),
        "{line}"
    );
    report.set_quantile(100.0, None);
    let text = human(&report, Style::PLAIN);
    assert!(text.contains(": longer ago than was watched"), "{text}");
    report.set_quantile(50.0, Some(77));
    let text = human(&report, Style::PLAIN);
    assert!(
        text.contains("50% of node 77: no ages are known yet"),
        "{text}"
    );
}

#[test]
fn a_report_in_a_pipe() {
    let want = include_str!("tests/server.txt");
    let text = human(&server(), Style::PLAIN);
    assert_eq!(text, want, "{text}");
}

#[test]
fn an_empty_report_says_so() {
    let text = human(&Report::default(), Style::PLAIN);
    assert!(text.contains("0 processes, watched for 0.0s"), "{text}");
    assert!(text.contains("ages from  none"), "{text}");
    for none in ["Page age", "Processes", "Touched", "Notes", "ended", "cold"] {
        assert!(!text.contains(none), "{text}");
    }
}

#[test]
fn when_nothing_is_known_nothing_is_cold() {
    let text = human(&unknown(), Style::PLAIN);
    assert!(
        text.contains("Age unknown: 1.2 GiB, 100% of what is resident"),
        "{text}"
    );
    assert!(
        !text.contains("cold") && text.contains("pagetide doctor"),
        "{text}"
    );
}

#[test]
fn of_many_processes_ten_are_shown() {
    let text = human(&everything(1000, 5), Style::PLAIN);
    assert!(text.contains("1,000 processes, watched for 10s"), "{text}");
    assert_eq!(text.matches("/usr/lib/some").count(), 10);
    assert!(text.contains("and 990 more (--json has all)"), "{text}");
}

#[test]
fn cold_memory_is_shown_only_for_ages_that_can_be_known() {
    let at = |wall_ms| {
        let mut report = server();
        report.wall_ms = wall_ms;
        cold(&report)
    };
    assert_eq!(at(900), None, "nobody can know yet");
    assert_eq!(
        at(3_000).as_deref(),
        Some("63% (764 MiB) not touched for 1s")
    );
    let both = "48% (580 MiB) not touched for 10s, 23% for 1m";
    assert_eq!(at(70_000).as_deref(), Some(both));
}

#[test]
fn a_curve_names_a_size_and_what_is_not_known() {
    let text = human(&curved(), Style::PLAIN);
    let want = include_str!("tests/curved.txt");
    let part = text.split("What less memory").nth(1).unwrap_or_default();
    let part = part.split("\n\nHow it was").next().unwrap_or_default();
    assert_eq!(format!("What less memory{part}\n"), want, "{text}");
    let page = html(&curved(), &History::default());
    assert!(page.contains("<h2>What less memory would cost</h2>"));
    assert!(page.contains("<path class=\"curve\"") && page.contains("<dt>limit</dt><dd>42"));
}

/// Five seconds are too short to measure a rate as low as 60 pages a minute.
#[test]
fn a_curve_that_is_too_young_names_no_limit() {
    let mut report = curved();
    let curve = report.curve.take().expect("a curve");
    let mut young = host::report::Curve {
        working_set_bytes: 4 << 20,
        watched_ms: 5_000,
        ..curve
    };
    let points = young.points.iter_mut();
    points.for_each(|point| point.watched_ms = 5_000);
    report.curve = Some(young.recommend(2.0));
    let text = human(&report, Style::PLAIN);
    assert!(
        text.contains("not yet: it takes 10s to tell that no more than 0.2% of the working"),
        "{text}"
    );
    assert!(text.contains("takes 10s to tell"), "{text}");
}

/// No format of output lets hostile names or extreme figures do harm.
#[test]
fn hostile_names_stay_text() {
    let report = hostile();
    let mut history = History::default();
    history.push(&report);
    for style in [Style::PLAIN, UNICODE] {
        let text = human(&report, style);
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'), "{text:?}");
    }
    let page = html(&report, &history);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
    let names = [
        "!DOCTYPE",
        "/",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "p",
        "div",
        "b",
        "span",
        "small",
        "figure",
        "figcaption",
        "table",
        "tr",
        "th",
        "td",
        "svg",
        "rect",
        "i",
        "text",
        "path",
        "g",
        "details",
        "summary",
        "dl",
        "dt",
        "dd",
        "ul",
        "li",
    ];
    for tag in tags(&page) {
        let name = tag.split([' ', '\n']).next().unwrap_or_default();
        assert!(names.contains(&name.trim_start_matches('/')), "{tag}");
    }
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
    let row = csv::row(&report);
    assert!(
        !row.contains(char::is_control) && row.contains("[2J"),
        "{row}"
    );
    let line = json_line(&report);
    assert!(!line.contains(|c: char| c.is_control() || c == '\u{202e}'));
    let back: Report = serde_json::from_str(&line).expect("JSON");
    assert_eq!(back.command, HOSTILE, "JSON has it whole");
}

#[test]
fn csv_lines_match_their_header() {
    let names = csv::header();
    let line = csv::row(&server());
    let value = |name: &str| {
        let at = names.split(',').position(|n| n == name).expect(name);
        line.split(',').nth(at).expect(name).to_owned()
    };
    assert_eq!(names.split(',').count(), line.split(',').count());
    assert_eq!(
        value("anon_older_than_10s_bytes"),
        (480u64 << 20).to_string()
    );
    assert_eq!(
        value("file_older_than_1s_bytes"),
        (104u64 << 20).to_string()
    );
    assert_eq!(value("reaccessed_older_than_10s_pages"), "2800");
    assert_eq!(
        (value("exit"), value("age_source")),
        (String::new(), "page-tables".to_owned())
    );
    assert!(names.starts_with("pid,command,wall_ms,exit,"));
}

#[test]
fn the_page_is_whole_and_fetches_nothing() {
    let mut history = History::default();
    for n in 0..1500 {
        history.push(&cooling(n));
    }
    let page = html(&cooling(1499), &history);
    for part in [
        "How old the memory is",
        "Over time",
        "Touched again",
        "Processes",
        "Notes",
    ] {
        assert!(page.contains(&format!("<h2>{part}</h2>")), "{part}");
    }
    // The same pictures as in the dashboard.
    for part in [
        "Page age over time",
        "Memory by age",
        "Pages that came back, a minute",
        "By kind",
    ] {
        assert!(
            page.contains(&format!("<figcaption>{part}</figcaption>")),
            "{part}"
        );
    }
    assert!(page.contains("prefers-color-scheme:dark") && page.ends_with("</html>\n"));
    assert!(
        page.contains("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';")
    );
    assert_eq!(page.matches("http").count(), 1, "the policy's own name");
    for outside in [
        "src=", "href=", "url(", "@import", "<script", " on", "<link",
    ] {
        assert!(!tags(&page).any(|tag| tag.contains(outside)), "{outside}");
    }
    assert!(page.len() < 200_000, "{}", page.len());
    let plain = html(&Report::default(), &History::default());
    assert!(
        !plain.contains("Over time") && !plain.contains("<svg"),
        "{plain}"
    );
}

#[test]
fn a_long_command_line_is_cut_in_the_heading_alone() {
    let report = Report {
        command: "java ".to_owned() + &"-Dx=y ".repeat(500),
        ..Report::default()
    };
    let page = html(&report, &History::default());
    let heading = page
        .split("<h1")
        .nth(1)
        .and_then(|rest| rest.split("</h1>").next());
    let (whole, shown) = heading
        .and_then(|text| text.split_once('>'))
        .expect("a heading");
    assert_eq!(columns(shown), 200, "{shown}");
    assert!(whole.len() > 3000);
}

/// Returns the texts between `<` and `>`.
fn tags(page: &str) -> impl Iterator<Item = &str> {
    page.split('<')
        .skip(1)
        .filter_map(|rest| rest.split('>').next())
}

/// The bars show the report's own bytes: each kind and each age once. Both sums are the resident
/// memory.
#[test]
fn bars_are_the_reports_figures() {
    let report = server();
    let page = html(&report, &History::default());
    let sum = |from: &str, to: &str| -> u64 {
        let part = page
            .split(from)
            .nth(1)
            .and_then(|rest| rest.split(to).next());
        let bytes = part.expect(from).split("data-bytes=\"").skip(1);
        let bytes = bytes.filter_map(|rest| rest.split('"').next()?.parse::<u64>().ok());
        bytes.sum()
    };
    let kinds = sum("<figcaption>By kind", "</figure>");
    assert_eq!(kinds, report.resident_bytes + report.swapped_bytes);
    let ages = sum("<figcaption>By age", "</figure>");
    assert_eq!(ages, report.resident_bytes - report.unknown_age_bytes);
    assert_eq!(sum("row\">20s - 30s<", "</tr>"), 200 << 20);
    assert_eq!(sum("row\">anonymous<", "</tr>"), 960 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_report_fits_and_is_text(report in any_report(), width in 20usize..130, unicode: bool) {
        let style = Style { width, unicode, ..Style::PLAIN };
        let text = human(&report, style);
        for line in text.lines() {
            prop_assert!(columns(line) <= width, "{width}: {line:?}");
        }
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
        prop_assert!(unicode || text.is_ascii());
        let coloured = human(&report, Style { color: true, ..style });
        prop_assert_eq!(coloured.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", ""), text);
    }

    #[test]
    fn any_report_is_one_line_of_csv_and_a_page(report in any_report(), more in any_report()) {
        let row = csv::row(&report);
        prop_assert!(!row.contains(char::is_control));
        prop_assert_eq!(fields(&row), csv::header().split(',').count());
        let mut history = History::default();
        for one in [&more, &report, &report, &more] {
            history.push(one);
        }
        let page = html(&report, &history);
        prop_assert!(!page.contains("NaN") && !page.contains("inf\""));
        prop_assert!(!page.contains(|c: char| c.is_control() && c != '\n'));
        prop_assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }
}

/// Counts the fields of a line, as a reader of RFC 4180 counts quoted ones.
fn fields(line: &str) -> usize {
    let mut quoted = false;
    let commas = line.chars().filter(|&c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    commas.count() + 1
}

/// Regression: the JSON contained what a manager does, but the text report did not.
#[test]
fn what_a_manager_holds_and_did_is_shown() {
    let action = ActionReport {
        at_ms: 65_000,
        pages: 1234,
        is_dry: false,
        why: "not accessed for <1m>".to_owned(),
    };
    let report = Report {
        limits: LimitsReport {
            max_bytes: Some(512 << 20),
            ..LimitsReport::default()
        },
        policy: Some(PolicyReport {
            name: "cold-age".to_owned(),
            threshold_ms: Some(60_000),
            evicted_pages: 1234,
            actions: vec![action],
            ..PolicyReport::default()
        }),
        actions: (0..5).map(|n| format!("paged out {n} pages")).collect(),
        ..Report::default()
    };
    let text = human(&report, Style::PLAIN);
    for part in [
        "Managed\n",
        "memory-max 512 MiB",
        "cold-age: what was not accessed for 1m; 1,234 pages paged out, 0",
        "paged out 4 pages",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("paged out 1 pages"), "the latest three");
    let page = html(&report, &History::default());
    for part in [
        "<h2>How it is managed</h2>",
        "<dt>memory-max</dt><dd>512 MiB</dd>",
        "<li>1m 05s: 1,234 pages paged out: not accessed for &lt;1m&gt;</li>",
        "<li>paged out 0 pages</li>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let plain = human(&Report::default(), Style::PLAIN);
    assert!(!plain.contains("Managed"), "{plain}");
}
