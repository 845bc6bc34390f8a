//! Tests valid files: reading returns what was written.

use super::*;

proptest! {
    #[test]
    fn every_format_returns_the_references_written(all in references()) {
        for name in NAMES {
            let file = bytes(name, &all);
            let want = expected(name, &all);
            prop_assert_eq!(plain(name, &file).expect(name), want.clone(), "{}", name);
            let packed = zstd(&file);
            prop_assert_eq!(plain(name, &packed).expect(name), want, "{} compressed", name);
        }
    }
}

#[test]
fn several_frames_are_one_file_and_batches_have_a_size() {
    let all: Vec<Reference> = (0..30_000u64)
        .map(|n| Reference {
            page: n * n,
            time: n / 100,
            kind: Kind::Access,
        })
        .collect();
    let (a, b) = all.split_at(11_111);
    let mut file = zstd(&bytes("t.csv", a));
    file.extend(zstd(&bytes("t.csv", b)));
    assert_eq!(
        plain("x.csv.zst", &file).expect("two frames"),
        expected("t.csv", &all)
    );
}

#[test]
fn arc_requests_are_expanded_in_order_across_batches() {
    let pages: Vec<u64> = plain("a.lis", b"10 3 0 0\n\n100 9000 7 1\n5 1 0 2")
        .expect("sound")
        .iter()
        .map(|r| r.page)
        .collect();
    let want: Vec<u64> = (10..13).chain(100..9100).chain([5]).collect();
    assert_eq!(pages, want);
}

fn csv_with(text: &str, change: impl FnOnce(&mut CsvOptions)) -> Vec<(u64, u64, Kind)> {
    let mut options = TraceOptions::default();
    change(&mut options.csv);
    let all = read("a.csv", text.as_bytes(), &options).expect("sound");
    all.iter().map(|r| (r.page, r.time, r.kind)).collect()
}

#[test]
fn csv_headings_quotes_delimiters_and_kinds() {
    let access = |page| (page, 0, Kind::Access);
    assert_eq!(
        csv_with("id\r\n7\r\n\r\n0x1F\r\n", |_| ()),
        [access(7), access(31)]
    );
    assert_eq!(csv_with("7\n8", |_| ()), [access(7), access(8)]);
    let text = "when;\"what;so\";id\n1.75;\"a;\"\"b\";5\n2;write;6\n3;GET;5\n";
    let all = csv_with(text, |csv| {
        csv.delimiter = b';';
        csv.id = Column::Name("ID".into());
        csv.time = Some(Column::Name("when".into()));
        csv.op = Some(Column::Name("what;so".into()));
    });
    assert_eq!(
        all,
        [
            (5, 1, Kind::Access),
            (6, 2, Kind::Write),
            (5, 3, Kind::Read)
        ]
    );
}

/// Regression: with ids of any text, a first line `# time, op, ...` counted as a reference.
#[test]
fn a_heading_of_text_ids_is_known_by_its_first_character_or_its_time() {
    let nr = |heading: &str, has_time: bool| {
        let text = format!("{heading}\n0,1,A\n9,1,B\n");
        let all = csv_with(&text, |csv| {
            csv.id = Column::Number(3);
            csv.time = has_time.then_some(Column::Number(1));
            csv.ids = Ids::Text;
        });
        all.len()
    };
    assert_eq!(nr("# time, op, object", false), 2);
    assert_eq!(nr("time,op,object", true), 2);
    // Nothing distinguishes this heading from a reference.
    assert_eq!(nr("time,op,object", false), 3);
}

#[test]
fn csv_ids_may_be_text() {
    let all = csv_with("apple\npear\napple\n", |csv| csv.ids = Ids::Text);
    assert!(all.len() == 3 && all[0] == all[2] && all[0] != all[1]);
    let all = csv_with("name\npear\n", |csv| {
        csv.ids = Ids::Text;
        csv.header = Header::Yes;
    });
    assert_eq!(all.len(), 1);
}

#[test]
fn objects_of_size_0_are_counted_as_skipped() {
    let all = [1, 2, 1].map(|page| Reference {
        page,
        ..Reference::default()
    });
    let mut file = oracle_general(&all);
    file[24 + 12] = 0;
    let stream = Box::new(Cursor::new(file));
    let name = Path::new("t.oracleGeneral.bin");
    let mut trace = Trace::from_reader(name, stream, &TraceOptions::default()).expect("sound");
    let mut batch = Vec::new();
    assert!(trace.fill(&mut batch).expect("sound"));
    assert_eq!((batch.len(), trace.left_out()), (2, 1));
}

#[test]
fn kinds_and_windows() {
    let records = [4 << 2, 4 << 2 | 1, u64::MAX, 9 << 2 | 2];
    let file: Vec<u8> = records.iter().flat_map(|r| r.to_le_bytes()).collect();
    let all = plain("a.w10000", &file).expect("sound");
    let all: Vec<_> = all.iter().map(|r| (r.page, r.time, r.kind)).collect();
    assert_eq!(
        all,
        [(4, 0, Kind::Fetch), (4, 0, Kind::Read), (9, 1, Kind::Write)]
    );
}
