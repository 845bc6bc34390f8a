//! Every form of a result.

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
        sizes: vec![1000, 2000, 4000],
        curves: vec![
            (CurvePolicy::Lru, vec![0.75, 0.5, 0.004]),
            (CurvePolicy::LruGen, vec![0.5, 0.25, 0.004]),
        ],
    }
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
    assert!(
        !page.contains("src=") && !page.contains("href="),
        "nothing is fetched"
    );
}

/// `--sizes 1T` of a small trace was 33333333333333.0% of all.
#[test]
fn more_memory_than_there_are_pages_is_no_percentage() {
    assert_eq!(part_of_all(2_000, 4_000), "50.0%");
    assert_eq!(part_of_all(4_000, 4_000), "100.0%");
    assert_eq!(part_of_all(1 << 60, 3), "> 100%");
}
