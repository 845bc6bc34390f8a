//! How much of a report can be true, given when each class of pages of `ages` was touched.
//!
//! A report tells bytes by age, not pages: what is right is the most that can be right. A class may lie in
//! any bin that its true age, one interval more or less, reaches into: a run of neighbouring bins. Going
//! through the bins by age and giving each byte to the class that must end first finds the most.
//! Memory that is of no class (libraries, stacks) may fill in for what is missing;
//! `Verdict::share_at_least` takes that off.

use crate::ages::{ALWAYS, KINDS, Printed, Record, Table};

const PAGE: u64 = 4096;
const MS: u64 = 1_000_000;

/// A bin of a report, all nodes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bin {
    /// Lower edge; the upper one is the next bin's, the last has none.
    pub older_than_ms: u64,
    /// Private and shared memory.
    pub anon_bytes: u64,
    /// Files.
    pub file_bytes: u64,
}

/// When and how the report looked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The last reading of the tables: not before this.
    pub begin: u64,
    /// And not after this.
    pub end: u64,
    /// Between two readings, nanoseconds: an age may be wrong by so much.
    pub interval: u64,
    /// Since the first reading, nanoseconds: nothing can be seen to be older.
    pub watched: u64,
}

/// The pages of one class of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Index in `KINDS`.
    pub kind: usize,
    /// 0 to 4.
    pub class: usize,
    /// Whether a report has it under files.
    pub file: bool,
    /// Resident.
    pub bytes: u64,
    /// The ages that a right report may give, nanoseconds.
    pub ages: (u64, u64),
}

/// The ages that the pages of a class have at a look. None if the table does not reach back so far: it
/// must be read within a few periods.
fn true_ages(record: &Record, look: &Look) -> Option<(u64, u64)> {
    if record.class == ALWAYS {
        return Some((0, 0));
    }
    let done = |pass: &&(u64, u64)| pass.1 != 0 && pass.1 <= look.begin;
    let before = record.passes.iter().rfind(done);
    let known = before.is_some() || record.begun == record.passes.len() as u64;
    let (oldest, mut newest) = *before.unwrap_or(&record.fill);
    // A pass during the look has touched some pages, or all, or none.
    if let Some(pass) = record.passes.iter().rfind(|pass| pass.0 <= look.end)
        && !done(&pass)
    {
        newest = look.begin;
    }
    let youngest = look.begin.saturating_sub(newest);
    known.then_some((youngest, look.end.saturating_sub(oldest)))
}

/// What a right report would be made of.
///
/// # Errors
/// If the table has no record of a class, or none as old as the look.
pub fn groups(printed: &Printed, table: &Table, look: &Look) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for map in printed.maps.iter().filter(|map| map.counts != "none") {
        let of_map = |record: &&Record| KINDS.get(record.kind) == Some(&map.kind.as_str());
        for class in (0..map.classes.len()).filter(|class| map.classes[*class] != 0) {
            let what = || format!("ages: {} class {class}: no record of the look", map.kind);
            let mut of_kind = table.0.iter().filter(of_map);
            let record = of_kind.find(|record| record.class == class);
            let record = record.ok_or_else(what)?;
            let (youngest, oldest) = true_ages(record, look).ok_or_else(what)?;
            groups.push(Group {
                kind: record.kind,
                class,
                file: map.counts == "file",
                bytes: record.pages * PAGE,
                ages: (
                    youngest.min(look.watched).saturating_sub(look.interval),
                    oldest.min(look.watched) + look.interval,
                ),
            });
        }
    }
    Ok(groups)
}

/// How much of the expected is where it may be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// What should be there.
    pub expected: u64,
    /// Of that, what is in a right bin.
    pub matched: u64,
    /// What the report has.
    pub reported: u64,
    /// By group: what it lacks. Which of two groups lacks a byte is not always certain.
    pub missing: Vec<(Group, u64)>,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shares, of less than 2^52 bytes"
)]
fn share(part: u64, of: u64) -> f64 {
    if of == 0 {
        1.0
    } else {
        part as f64 / of as f64
    }
}

impl Verdict {
    /// The share of the expected bytes that are in a right bin, if other memory filled in for none.
    #[must_use]
    pub fn share(&self) -> f64 {
        share(self.matched, self.expected)
    }

    /// The same, if all other memory filled in for missing pages.
    #[must_use]
    pub fn share_at_least(&self) -> f64 {
        let other = self.reported.saturating_sub(self.expected);
        share(self.matched.saturating_sub(other), self.expected)
    }

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

/// Compares the bins of a report, by increasing age, with the groups.
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
