//! Makes files of every format from references.

use super::*;

pub(super) const NAMES: [&str; 4] = ["t.oracleGeneral", "t.csv", "t.lis", "t.w100"];

/// Makes references that every format can express. (ARC has no times, and windows have times of
/// their own.)
pub(super) fn references() -> impl Strategy<Value = Vec<Reference>> {
    let page = prop_oneof![0u64..20, 0u64..1 << 40];
    let reference = (page, 0u64..3).prop_map(|(page, step)| Reference {
        page,
        time: step,
        kind: Kind::Access,
    });
    prop::collection::vec(reference, 1..300).prop_map(|mut all| {
        let mut time = 0;
        for reference in &mut all {
            time += reference.time;
            reference.time = time;
        }
        all
    })
}

/// Returns the bytes of a file with this name.
pub(super) fn bytes(name: &str, all: &[Reference]) -> Vec<u8> {
    match name {
        "t.oracleGeneral" => oracle_general(all),
        "t.csv" => csv(all),
        "t.lis" => arc(all),
        _ => windows(all),
    }
}

/// Returns the references that a reader of this format must return.
pub(super) fn expected(name: &str, all: &[Reference]) -> Vec<Reference> {
    let mut all = all.to_vec();
    for reference in &mut all {
        if name == "t.lis" || name == "t.csv" {
            reference.time = 0;
        }
        if name == "t.w100" {
            reference.kind = Kind::Read;
        }
    }
    all
}

pub(super) fn oracle_general(all: &[Reference]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, reference) in all.iter().enumerate() {
        let later = all[at + 1..].iter().position(|r| r.page == reference.page);
        let next = later.map_or(-1, |n| i64::try_from(at + 1 + n).expect("short"));
        bytes.extend(u32::try_from(reference.time).expect("small").to_le_bytes());
        bytes.extend(reference.page.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

fn csv(all: &[Reference]) -> Vec<u8> {
    let line = |r: &Reference| format!("{},{}\n", r.page, r.time);
    all.iter().flat_map(|r| line(r).into_bytes()).collect()
}

fn arc(all: &[Reference]) -> Vec<u8> {
    let mut lines: Vec<(u64, u64)> = Vec::new();
    for reference in all {
        match lines.last_mut() {
            Some((start, n)) if *start + *n == reference.page => *n += 1,
            _ => lines.push((reference.page, 1)),
        }
    }
    let line = |(at, (start, n)): (usize, &(u64, u64))| format!("{start} {n} 0 {at}\n");
    lines
        .iter()
        .enumerate()
        .flat_map(|l| line(l).into_bytes())
        .collect()
}

fn windows(all: &[Reference]) -> Vec<u8> {
    let (mut bytes, mut window) = (Vec::new(), 0);
    for reference in all {
        while window < reference.time {
            bytes.extend(u64::MAX.to_le_bytes());
            window += 1;
        }
        bytes.extend((reference.page << 2 | 1).to_le_bytes());
    }
    bytes
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
    let n = zstd_safe::compress(&mut out[..], bytes, 3).expect("it fits");
    out.truncate(n);
    out
}
