//! Tests of every format of a result of `mrc`.

use super::*;
use sim::mrc::CurvePolicy;
use sim::trace::Format;

fn result() -> Curves {
    Curves {
        format: Format::Arc,
        references: 1_000_000,
        pages: 4000,
        sampled_pages: None,
        left_out: 3,
        note: None,
        sizes: vec![1000, 2000, 4000],
        curves: vec![
            (CurvePolicy::Lru, vec![0.75, 0.5, 0.004]),
            (CurvePolicy::LruGen, vec![0.5, 0.25, 0.004]),
        ],
    }
}

/// Returns curves of all policies at two sizes; the multi-gen LRU is neither the best nor the
/// worst.
fn every() -> Curves {
    let ratios = |n: u32| vec![0.5 + 0.01 * f64::from(n), 0.25 + 0.01 * f64::from(n)];
    let curve = |(n, policy): (u32, CurvePolicy)| (policy, ratios(n));
    Curves {
        sizes: vec![1000, 4000],
        curves: (0..).zip(CurvePolicy::ALL).map(curve).collect(),
        ..result()
    }
}

#[test]
fn all_policies_fit_side_by_side_or_below() {
    let text = human("a.lis", &every(), Style::PLAIN);
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    let legend: Vec<&str> = text.lines().skip(18).take(3).collect();
    assert!(legend.iter().all(|line| line.len() <= 80), "{text}");
    for policy in CurvePolicy::ALL {
        let name = format!(" {}", policy.name());
        assert!(legend.iter().any(|line| line.contains(&name)), "{text}");
    }
    assert_eq!(text.matches("of all").count(), 2, "two parts: {text}");
    let wide = Style {
        width: 160,
        ..Style::PLAIN
    };
    let text = human("a.lis", &every(), wide);
    assert_eq!(text.matches("of all").count(), 1, "one part: {text}");
}

#[test]
fn ours_is_compared_with_each_other_policy() {
    let text = human("a.lis", &every(), Style::PLAIN);
    let line = |name: &str| {
        text.lines()
            .rfind(|line| line.trim_start().starts_with(name))
    };
    // 0.53 compared with 0.5, and 0.28 compared with 0.25.
    let lru = line("lru ").map(|line| line.split_whitespace().collect::<Vec<_>>());
    let want = ["lru", "+9.0%", "+6.0%", "(1,000)", "+12.0%", "(4,000)"];
    assert_eq!(lru.as_deref(), Some(&want[..]), "{text}");
    assert!(
        line("w-tiny-lfu").is_some_and(|line| line.contains(" -")),
        "{text}"
    );
    let one = Curves {
        curves: every().curves[..1].to_vec(),
        ..every()
    };
    assert!(!human("a.lis", &one, Style::PLAIN).contains("Misses of lru-gen"));
}

#[test]
fn people_see_a_plot_and_a_table() {
    let text = human("a.lis", &result(), Style::PLAIN);
    let first = "a.lis (arc): 1,000,000 references to 4,000 pages, 15.6 MiB; 3 records are no";
    assert!(text.starts_with(first), "{text}");
    assert!(
        text.contains("  1.0 |") && text.contains("  0.0 |"),
        "{text}"
    );
    assert!(text.contains("* lru  o lru-gen"), "{text}");
    assert!(
        text.contains("       2,000    7.8 MiB   50.0%  0.5000   0.2500"),
        "{text}"
    );
    assert!(
        text.is_ascii() && text.lines().all(|line| line.len() <= 100),
        "{text}"
    );
}

#[test]
fn the_curve_falls_from_left_to_right() {
    let text = plot::plot(&result(), Style::PLAIN);
    let rows: Vec<&str> = text.lines().collect();
    let marked = |mark| rows[..14].iter().filter_map(move |row| row.find(mark));
    for mark in ['*', 'o'] {
        let columns: Vec<usize> = marked(mark).collect();
        assert!(columns.len() > 3 && columns.is_sorted(), "{text}");
    }
    assert_eq!(rows.len(), 18, "{text}");
    let one = Curves {
        sizes: vec![5],
        ..result()
    };
    assert_eq!(plot::plot(&one, Style::PLAIN), "");
}

#[test]
fn json_and_csv_have_all_digits() {
    let value: serde_json::Value = serde_json::from_str(&json("a.lis", &result())).expect("JSON");
    assert_eq!(value["sizes"][2]["miss_ratio"]["lru-gen"], 0.004);
    assert_eq!(value["sizes"][1]["bytes"], 8_192_000);
    assert_eq!(value["sampled_pages"], serde_json::Value::Null);
    assert_eq!(
        value["sizes"][0]["lru_gen_more_misses"]["lru"],
        0.5 / 0.75 - 1.0
    );
    assert_eq!(value["sizes"][2]["lru_gen_more_misses"]["lru"], 0.0);
    assert!(value["lru_gen_more_misses_mean"]["lru"].is_number());
    let text = csv(&result());
    assert_eq!(text.lines().next(), Some("pages,bytes,lru,lru-gen"));
    assert_eq!(text.lines().nth(3), Some("4000,16384000,0.004,0.004"));
}

#[test]
fn the_page_is_whole_and_escaped() {
    let page = html("<x>&\".lis", &result());
    assert!(page.contains("Miss ratios of &lt;x&gt;&amp;&quot;.lis") && !page.contains("<x>"));
    assert_eq!(page.matches("<polyline").count(), 2);
    assert!(page.contains("<td>0.2500</td>"));
    assert!(page.contains("<td>1,000</td><td>-33.3%</td>"));
    assert!(
        !page.contains("src=") && !page.contains("href="),
        "nothing is fetched"
    );
}

/// Regression: with `--sizes 1T` and a small trace, the size was shown as 33333333333333.0% of all
/// pages.
#[test]
fn more_memory_than_pages_is_shown_as_over_100_percent() {
    assert_eq!(part_of_all(2_000, 4_000), "50.0%");
    assert_eq!(part_of_all(4_000, 4_000), "100.0%");
    assert_eq!(part_of_all(1 << 60, 3), "> 100%");
}

#[test]
fn a_chart_of_all_policies_has_a_style_and_a_full_name_for_each() {
    let page = html("a.lis", &every());
    assert_eq!(page.matches("<polyline").count(), CurvePolicy::ALL.len());
    for (n, policy) in CurvePolicy::ALL.iter().enumerate() {
        let class = format!("class=\"curve c{n}");
        assert_eq!(
            page.matches(&class).count(),
            2,
            "curve and legend of {policy:?}"
        );
        assert!(page.contains(&format!(">{}</text>", policy.name())));
        assert_eq!(
            page.matches(&format!(".c{n}{{")).count(),
            2,
            "light and dark"
        );
    }
}

/// Regression: the name of a trace moved the cursor. (Users unpack traces from archives of others.)
#[test]
fn a_name_is_shown_and_never_obeyed() {
    let text = human("a\x1b[2J\u{e9}.lis", &result(), Style::PLAIN);
    assert!(
        text.starts_with("a?[2J?.lis (") && text.is_ascii(),
        "{text}"
    );
    let text = json("\u{9b}2J.lis", &result());
    assert!(!text.contains('\u{9b}'), "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).expect("an object");
    assert_eq!(value["file"], "\u{9b}2J.lis");
}
