use super::*;
use crate::outcome::{By, Claim, Kind, Picture, Series};

fn outcome() -> Outcome {
    let mut table = Table::new("Misses & more", &["size (MiB)", "LRU (%)", "name, quoted"]);
    for n in 0..3u32 {
        table.row(vec![
            Cell::Count(u64::from(n)),
            Cell::Figure(f64::from(n) / 3.0),
            Cell::Text(format!("a \"b\", <{n}>")),
        ]);
    }
    table.row(vec![Cell::Count(3), Cell::Empty, Cell::Text("c".into())]);
    Outcome {
        tables: vec![table.clone(), table],
        claims: vec![Claim {
            what: "less than 1".into(),
            document: None,
            ours: 0.5,
            holds: true,
        }],
        pictures: pictures(),
        timings: vec![Table::new("Seconds", &["s"])],
        notes: vec!["A remark.".into()],
    }
}

/// Makes one picture of each kind.
fn pictures() -> Vec<Picture> {
    let groups = ["memcg LRU", "hierarchy iterator, <old>"].map(str::to_owned);
    let both = [Some(3.0), Some(40.0)];
    let documents = Series::bars("document", both).by(By::Document);
    let bars = vec![Series::bars("ours", both), documents.clone()];
    let axes = ["how (ways)", "pages taken (MiB)"];
    let samples = vec![
        Series::samples("a strip", [1.0, 2.0, 2.0]),
        Series::samples("a bound", [1.5]).by(By::Rule),
    ];
    vec![
        Picture::new("Bars?", Kind::Bars(groups.into()), axes, bars),
        Picture::new("A curve?", Kind::Curve, axes, vec![documents]).log(false, true),
        Picture::new("Spread?", Kind::Distribution, axes, samples),
        Picture::new(
            "Time?",
            Kind::Curve,
            axes,
            vec![Series::new("t", [(1.0, 2.0)])],
        )
        .timed(),
    ]
}

fn heading() -> Heading {
    Heading {
        name: "x".into(),
        about: "an example".into(),
        document: Some("000".into()),
        seed: 1,
        scale: 16,
    }
}

#[test]
fn csv_quotes_and_keeps_digits() {
    let text = csv(&outcome().tables[0]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "size (MiB),LRU (%),\"name, quoted\"");
    assert_eq!(lines[2], "1,0.3333333333333333,\"a \"\"b\"\", <1>\"");
    assert_eq!(lines[4], "3,,c");
}

#[test]
fn text_lines_up() {
    let shown = text(&heading(), &outcome(), false);
    assert!(shown.starts_with("x: an example (seed 1, scale 1/16, document 000)\n"));
    assert!(
        shown.contains("\n           1   0.3333  a \"b\", <1>\n"),
        "{shown}"
    );
    assert!(!shown.contains("Seconds") && shown.ends_with("\nA remark.\n"));
    assert!(text(&heading(), &outcome(), true).contains("Seconds"));
}

/// Regression: for an experiment file without a description, the title was the name, a colon, and
/// nothing after it.
#[test]
fn without_a_line_about_it_the_name_stands_alone() {
    let unnamed = Heading {
        about: String::new(),
        document: None,
        ..heading()
    };
    assert_eq!(unnamed.line(), "x (seed 1, scale 1/16)");
}

#[test]
fn json_has_all_and_nulls() {
    let value = json(&heading(), &outcome(), false);
    assert_eq!(value["tables"][0]["rows"][3][1], serde_json::Value::Null);
    assert_eq!(value["claims"][0]["holds"], true);
    assert_eq!(value["tables"].as_array().map(Vec::len), Some(2));
    assert!(value.get("timings").is_none());
}

#[test]
fn a_page_is_self_contained_and_escaped() {
    let page = html(&heading(), &outcome(), false);
    for fetch in ["http", "src=", "@import", "url(", "<script"] {
        assert!(!page.contains(fetch), "{fetch}");
    }
    assert!(page.contains("<polyline") && page.contains("&lt;1&gt;") && !page.contains("<1>"));
    assert!(page.contains("prefers-color-scheme:dark"));
    for (open, close) in [
        ("<svg", "</svg>"),
        ("<figure", "</figure>"),
        ("<text", "</text>"),
    ] {
        assert_eq!(
            page.matches(open).count(),
            page.matches(close).count(),
            "{open}"
        );
    }
}

/// All pictures of the outcome are drawn, and no others; they have whole names and units, and the
/// document's series are marked.
#[test]
fn pictures_are_whole() {
    let page = html(&heading(), &outcome(), false);
    assert_eq!(page.matches("<figure>").count(), 3, "tables draw nothing");
    assert!(!page.contains("Time?") && html(&heading(), &outcome(), true).contains("Time?"));
    for whole in [
        "<h2>Bars?</h2>",
        ">memcg LRU<",
        ">hierarchy iterator, &lt;old&gt;<",
        "<p class=\"up\">pages taken (MiB)</p>",
        "<p class=\"along\">how (ways)</p>",
        "<i class=\"key c0 document\"></i>document",
        "<i class=\"key rule\"></i>a bound",
        ">a strip<",
        "class=\"bar c0 document\"",
        "class=\"line c0 document\"",
        "class=\"line rule\"",
    ] {
        assert!(page.contains(whole), "{whole}: {page}");
    }
    let (bound, name) = (page.find("class=\"line rule\""), page.find(">a strip<"));
    assert!(
        bound < name,
        "a bound that is drawn later runs through names"
    );
    let empty = Outcome {
        tables: Vec::new(),
        claims: Vec::new(),
        ..outcome()
    };
    assert_eq!(html(&heading(), &empty, false).matches("<svg").count(), 3);
}

/// The columns with one unit become curves over the first column.
#[test]
fn a_table_makes_curves_of_one_unit() {
    let mut table = outcome().tables.remove(0);
    let picture = Picture::of_columns("?", &table, "%").expect("a column in percent");
    assert_eq!(
        (picture.x.as_str(), picture.y.as_str()),
        ("size (MiB)", "%")
    );
    assert_eq!(picture.series.len(), 1);
    let series = &picture.series[0];
    assert_eq!((series.name.as_str(), series.points.len()), ("LRU", 3));
    assert!(Picture::of_columns("?", &table, "GiB").is_none());
    table.rows[0][0] = Cell::Text("x".into());
    assert!(
        Picture::of_columns("?", &table, "%").is_none(),
        "a name is no place"
    );
}

#[test]
fn parquet_reads_back() {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;
    let mut bytes = Vec::new();
    parquet(&outcome().tables[0], &mut bytes).expect("a vector takes all");
    let mut again = Vec::new();
    parquet(&outcome().tables[0], &mut again).expect("a vector takes all");
    assert_eq!(bytes, again, "the same bytes");
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a Parquet file");
    let rows: Vec<_> = reader
        .get_row_iter(None)
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[2].get_long(0).ok(), Some(2));
    assert!(
        rows[1]
            .get_double(1)
            .is_ok_and(|v| (v - 1.0 / 3.0).abs() < 1e-15)
    );
    assert!(rows[3].get_double(1).is_err(), "null");
    assert_eq!(
        rows[0].get_string(2).ok().map(String::as_str),
        Some("a \"b\", <0>")
    );
}

#[test]
fn file_names_do_not_collide() {
    let names = file_names(&outcome().tables);
    assert_eq!(names, ["misses-more", "misses-more-2"]);
}

#[test]
fn figures_for_people() {
    let shown = [0.0, 0.12345, 1.005, 123.456, 98765.4, 1e-7, f64::NAN].map(figure);
    assert_eq!(
        shown,
        ["0", "0.1235", "1.00", "123.5", "98765", "1.00e-7", "-"]
    );
}
