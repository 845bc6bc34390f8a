//! The numbered tests of workingset-report.md 11 about files, and a test with random texts.

use super::*;

use alloc::string::ToString;
use proptest::prelude::*;

fn numbers(count: u64) -> String {
    let all: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
    all.join(",")
}

/// A program can save a value by reading the file, change it, and restore it by writing the saved
/// text.
#[test]
fn text_that_was_read_may_be_written() {
    let text = print_node_millis([(0, Millis(5000))]);
    assert_eq!(parse_node_millis(&text, &[0]), Ok((0, Millis(5000))));
    let inner = parse_node_millis("N0 =5000", &[0]);
    assert_eq!(inner, Err(FileError::Invalid));
}

/// workingset-report.md 11, test 5, with a clock of 1000 ticks a second.
#[test]
fn intervals() {
    let edges = |text: &str| parse_intervals(text, 1000).map(|bins| bins.edges().to_vec());
    assert_eq!(edges("10,20,30"), Ok([10, 20, 30].map(Millis).to_vec()));
    // Regression: numbers that the kernel's kstrtouint() reads, and blanks that its strim() cuts
    // off, were refused.
    for text in ["1000\n", " 1000", "1000 \n\n", "+1000", "0x3e8", "01750"] {
        assert_eq!(edges(text), Ok(alloc::vec![Millis(1000)]), "{text:?}");
    }
    for text in [
        "20,10", "10,10", "a", "10,", ",", "-1", "1 ,2", "1, 2", "0x", "08,9",
    ] {
        assert_eq!(edges(text), Err(FileError::Invalid), "{text:?}");
    }
    assert_eq!(edges(&numbers(31)).map(|e| e.len()), Ok(31));
    assert_eq!(edges(&numbers(32)), Err(FileError::Range));
    assert_eq!(edges("4294967296"), Err(FileError::Range));
    for text in ["", "\n"] {
        assert_eq!(edges(text), Ok(Vec::new()), "removes the configuration");
    }
}

/// Edges are rounded up to clock ticks, and must increase after that, too.
/// spec: workingset-report.md 2.1, rule 3.
#[test]
fn intervals_increase_in_ticks() {
    assert_eq!(parse_intervals("1,5", 100), Err(FileError::Invalid));
    assert!(parse_intervals("1,5", 1000).is_ok());
    let bins = parse_intervals("1,15", 100).expect("two ticks");
    assert_eq!(bins.edges(), [Millis(10), Millis(20)]);
    assert_eq!(print_intervals(&bins), "10,20\n");
    assert_eq!(print_intervals(&Bins::default()), "\n");
}

/// A memcg's files have a value for each node, and set the value of one node.
/// spec: workingset-report.md 11, test 9.
#[test]
fn values_by_node() {
    let mut values = [(0, Millis(5000)), (1, Millis(0))];
    assert_eq!(print_node_millis(values), "N0=5000 N1=0 \n");
    let (node, value) = parse_node_millis("N1=7000\n", &[0, 1]).expect("a node that is there");
    values[node].1 = value;
    assert_eq!(print_node_millis(values), "N0=5000 N1=7000 \n");
    // Node numbers have gaps if some nodes have no memory.
    assert_eq!(parse_node_millis("N8=1", &[1, 8]), Ok((1, Millis(1))));
    assert_eq!(
        print_node_millis([(1, Millis(0)), (8, Millis(1))]),
        "N1=0 N8=1 \n"
    );
    for text in [
        "N9=1",
        "N2=1",
        "n1=1",
        "N=1",
        "N1",
        "N1=",
        "N1=x",
        "1=1",
        "N0=1 N1=2",
    ] {
        let refused = parse_node_millis(text, &[0, 1]);
        assert_eq!(refused, Err(FileError::Invalid), "{text:?}");
    }
    let errno = parse_node_millis("N9=1", &[0, 1]).map_err(FileError::errno);
    assert_eq!(errno, Err(22), "EINVAL");
    assert_eq!(parse_millis("2000\n"), Ok(Millis(2000)));
    assert_eq!(print_millis(Millis(0)), "0\n");
}

/// Pieces of which texts similar to valid ones are made.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "N",
        "N0",
        "N1",
        "=",
        ",",
        " ",
        "\n",
        "0",
        "10",
        "1000",
        "-",
        "+",
        "\u{661}",
        "4294967295",
        "4294967296",
        "x",
        "\0",
    ];
    prop_oneof![
        6 => prop::sample::select(words.to_vec()).prop_map(ToString::to_string),
        1 => "\\PC{0,3}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any text is either refused or has a value; parsing the printed value gives the same value.
    #[test]
    fn hostile_texts(pieces in prop::collection::vec(piece(), 0..40), hz in 1..1000u32) {
        let text = pieces.concat();
        if let Ok(bins) = parse_intervals(&text, hz) {
            prop_assert_eq!(parse_intervals(&print_intervals(&bins), 1000), Ok(bins));
        }
        if let Ok(value) = parse_millis(&text) {
            prop_assert_eq!(parse_millis(&print_millis(value)), Ok(value));
        }
        if let Ok((node, value)) = parse_node_millis(&text, &[0, 1]) {
            prop_assert!(node < 2 && value.0 <= u64::from(u32::MAX));
        }
    }
}
