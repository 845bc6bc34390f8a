//! Computes how much of a report can be right, given when the program `ages` touched each class of
//! its pages.
//!
//! A report has bytes by age, not single pages, so the result is the largest number of bytes that
//! can be in a right bin. The pages of a class may be in every bin that overlaps with their true
//! age, one scan interval more or less; these bins are neighbours. The maximum is found by going
//! through the bins by age, and assigning the bytes of each to the class whose ages end first.
//!
//! The report also has memory of no class (libraries, stacks), which may hide that pages are
//! missing. [`Verdict::share_at_least`] subtracts it.

use crate::ages::{ALWAYS, KINDS, Printed, Record, Table};

/// Size of a page, bytes.
const PAGE: u64 = 4096;
/// Nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

/// A bin of a report's age histogram, summed over all NUMA nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bin {
    /// Lower edge of the bin, milliseconds. The upper edge is the lower edge of the next bin; the
    /// last bin has none.
    pub older_than_ms: u64,
    /// Bytes of anonymous and shared memory of these ages.
    pub anon_bytes: u64,
    /// Bytes of file memory of these ages.
    pub file_bytes: u64,
}

/// When the last scan of a report was, and its interval. Times are nanoseconds of
/// `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanTimes {
    /// A time before the last scan.
    pub begin: u64,
    /// A time after the last scan.
    pub end: u64,
    /// Time between two scans, nanoseconds; a right age differs from the true age by at most this.
    pub interval: u64,
    /// Time from the first scan to the last one, nanoseconds; no reported age can be larger.
    pub watched: u64,
}

/// The pages of one class and one kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Index in [`KINDS`].
    pub kind: usize,
    /// Class of the pages, 0 to 4.
    pub class: usize,
    /// Whether a report counts the pages as file memory.
    pub file: bool,
    /// Resident bytes.
    pub bytes: u64,
    /// Lowest and highest age that a right report may show, nanoseconds.
    pub ages: (u64, u64),
}

/// Lowest and highest true age of the pages of a class at a scan, nanoseconds. `None` if the table,
/// which keeps only the last passes, does not reach back to the scan.
fn true_ages(record: &Record, scan: &ScanTimes) -> Option<(u64, u64)> {
    if record.class == ALWAYS {
        return Some((0, 0));
    }
    let done = |pass: &&(u64, u64)| pass.1 != 0 && pass.1 <= scan.begin;
    let before = record.passes.iter().rfind(done);
    let known = before.is_some() || record.begun == record.passes.len() as u64;
    let (oldest, mut newest) = *before.unwrap_or(&record.fill);
    // A pass during the scan has touched some pages, or all, or none.
    if let Some(pass) = record.passes.iter().rfind(|pass| pass.0 <= scan.end)
        && !done(&pass)
    {
        newest = scan.begin;
    }
    let youngest = scan.begin.saturating_sub(newest);
    known.then_some((youngest, scan.end.saturating_sub(oldest)))
}

/// The pages that a right report must have, by class and kind of memory.
///
/// # Errors
/// If the table has no record of a class, or none that reaches back to the scan.
pub fn groups(printed: &Printed, table: &Table, scan: &ScanTimes) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for map in printed.maps.iter().filter(|map| map.counts != "none") {
        let of_map = |record: &&Record| KINDS.get(record.kind) == Some(&map.kind.as_str());
        for class in (0..map.classes.len()).filter(|class| map.classes[*class] != 0) {
            let what = || format!("ages: {} class {class}: no record of the look", map.kind);
            let mut of_kind = table.0.iter().filter(of_map);
            let record = of_kind.find(|record| record.class == class);
            let record = record.ok_or_else(what)?;
            let (youngest, oldest) = true_ages(record, scan).ok_or_else(what)?;
            groups.push(Group {
                kind: record.kind,
                class,
                file: map.counts == "file",
                bytes: record.pages * PAGE,
                ages: (
                    youngest.min(scan.watched).saturating_sub(scan.interval),
                    oldest.min(scan.watched) + scan.interval,
                ),
            });
        }
    }
    Ok(groups)
}

/// How much of the expected memory is in a right bin.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// Number of bytes that the report must have.
    pub expected: u64,
    /// Number of those bytes that are in a right bin.
    pub matched: u64,
    /// Number of bytes that the report has.
    pub reported: u64,
    /// Missing bytes of each group. Which of two groups lacks a byte is not always certain.
    pub missing: Vec<(Group, u64)>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shares, of less than 2^52 bytes"
)]
/// `part / of`; 1 if `of` is 0.
fn share(part: u64, of: u64) -> f64 {
    if of == 0 {
        1.0
    } else {
        part as f64 / of as f64
    }
}

impl Verdict {
    /// `matched / expected`: the right share of the expected bytes, if no other memory hides
    /// missing pages.
    #[must_use]
    pub fn share(&self) -> f64 {
        share(self.matched, self.expected)
    }

    /// The right share of the expected bytes, if all other memory in the report hides missing
    /// pages.
    #[must_use]
    pub fn share_at_least(&self) -> f64 {
        let other = self.reported.saturating_sub(self.expected);
        share(self.matched.saturating_sub(other), self.expected)
    }

    /// Adds groups and the bins that may have them: lower and upper edge in nanoseconds, and bytes.
    fn add(&mut self, groups: &[Group], sizes: &[(u64, u64, u64)]) {
        let mut left: Vec<u64> = groups.iter().map(|group| group.bytes).collect();
        for &(from, to, size) in sizes {
            let mut free = size;
            let fits = |group: &Group| group.ages.0 < to && group.ages.1 >= from;
            let mut here: Vec<usize> = (0..groups.len()).filter(|i| fits(&groups[*i])).collect();
            here.sort_by_key(|i| groups[*i].ages.1);
            for i in here {
                let taken = free.min(left[i]);
                free -= taken;
                left[i] -= taken;
                self.matched += taken;
            }
            self.reported += size;
        }
        self.expected += groups.iter().map(|group| group.bytes).sum::<u64>();
        let missing = groups.iter().copied().zip(left);
        self.missing
            .extend(missing.filter(|(_, bytes)| *bytes != 0));
    }
}

/// Compares the bins of a report, youngest first, with the groups that a right report must have.
#[must_use]
pub fn judge(groups: &[Group], bins: &[Bin]) -> Verdict {
    let mut verdict = Verdict::default();
    let edge = |i: usize| bins.get(i).map_or(u64::MAX, |bin| bin.older_than_ms * MS);
    for file in [false, true] {
        let of: Vec<Group> = groups.iter().filter(|g| g.file == file).copied().collect();
        let bytes = |bin: &Bin| if file { bin.file_bytes } else { bin.anon_bytes };
        let numbered = bins.iter().enumerate();
        let sizes = numbered.map(|(i, bin)| (edge(i), edge(i + 1), bytes(bin)));
        verdict.add(&of, &sizes.collect::<Vec<_>>());
    }
    verdict
}
