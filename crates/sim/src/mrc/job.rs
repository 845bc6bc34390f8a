//! Computes the curves of a trace file, for `pagetide mrc`.
//!
//! LRU needs one pass over the file. Other policies need the sizes beforehand, which may be shares
//! of the footprint, so the file is read a second time. If pages are sampled, the exact LRU curve
//! of the first pass corrects the results of the second.
//!
//! Invariant: both passes read the same references, or the job fails. The same file and job produce
//! the same curves.

use super::{Curve, CurvePolicy, Lru, Miniature, NextUses, Shards, Stack, opt_misses, ratio};
use crate::memory_bound::MemoryBound;
use crate::trace::{Dense, Format, Position, Reference, Trace, TraceError, TraceOptions};
use std::path::Path;

/// Number of references that each simulated memory processes before the next memory does. A turn is
/// long enough that the memory's tables are in the processor's cache.
const TURN: usize = 1 << 16;
/// Number of references between two checks of the memory in use.
const CHECK_EVERY: u64 = 1 << 16;

/// The size of a memory, as the user gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// A number of pages.
    Pages(u64),
    /// A share of the footprint (the number of different pages) in percent, rounded down.
    Percent(f64),
}

impl Size {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a footprint below 2^32 pages"
    )]
    fn pages(self, footprint: u64) -> u64 {
        match self {
            Self::Pages(pages) => pages,
            Self::Percent(percent) => (footprint as f64 * percent / 100.0 + 1e-9) as u64,
        }
    }
}

/// A job: what to compute.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The policies, in the order of the result.
    pub policies: Vec<CurvePolicy>,
    /// The memory sizes; if empty, every 5% of the footprint.
    pub sizes: Vec<Size>,
    /// Share of the pages to sample, 0 to 1; `None` for an exact result from all pages.
    pub sampled: Option<f64>,
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Curves {
    /// Format of the trace.
    pub format: Format,
    /// Number of references in the trace.
    pub references: u64,
    /// Number of different pages in the trace; an estimate if only a sample was read.
    pub pages: u64,
    /// Number of pages in the sample; `None` if all were read.
    pub sampled_pages: Option<u64>,
    /// Number of records that are not references and were skipped.
    pub left_out: u64,
    /// A remark about the trace for the user, if there is one.
    pub note: Option<String>,
    /// Sizes in pages, ascending, each once.
    pub sizes: Vec<u64>,
    /// Each policy with its miss ratios, one for each size.
    pub curves: Vec<(CurvePolicy, Vec<f64>)>,
}

/// Receives progress: name of the activity; its completed share (0 to 1; `None` if unknown); number
/// of references so far.
pub type Progress<'a> = dyn FnMut(&str, Option<f64>, u64) + 'a;

impl Job {
    /// Reads `file` and computes the curves, in no more memory than `bound` allows.
    ///
    /// # Errors
    /// If the trace cannot be read (twice, if necessary), is too long for OPT, or has so many
    /// different pages that their tables would exceed the bound.
    pub fn run(
        &self,
        (file, options): (&Path, &TraceOptions),
        bound: MemoryBound,
        progress: &mut Progress<'_>,
    ) -> Result<Curves, TraceError> {
        let reader = &mut Reader {
            file,
            options,
            bound,
            progress,
        };
        let lru_only = self.policies.iter().all(|p| *p == CurvePolicy::Lru);
        if !lru_only && !file.is_file() {
            let what = "it is no regular file, and policies other than lru read it twice";
            return Err(whole(file, what, "write it to a file first"));
        }
        let first = match self.sampled {
            Some(rate) if lru_only => FirstPass::Sampled(Shards::new(rate)),
            _ => FirstPass::exact(),
        };
        let (first, trace) = first.read(reader)?;
        let sizes = self.sizes(first.pages());
        let mut curves = Curves {
            format: trace.format(),
            references: trace.references(),
            pages: first.pages(),
            sampled_pages: first.sampled_pages(),
            left_out: trace.left_out(),
            note: trace.note(),
            curves: Vec::new(),
            sizes,
        };
        let mut others = match &first {
            FirstPass::Exact { curve, .. } if !lru_only => {
                self.second(reader, (curve, &mut curves))?
            }
            _ => Vec::new(),
        };
        for &policy in &self.policies {
            let ratios = match others.iter().position(|(other, _)| *other == policy) {
                Some(at) => others.swap_remove(at).1,
                None => curves.sizes.iter().map(|&n| first.miss_ratio(n)).collect(),
            };
            curves.curves.push((policy, ratios));
        }
        Ok(curves)
    }

    fn sizes(&self, footprint: u64) -> Vec<u64> {
        let default: Vec<Size> = (1..=20)
            .map(|n| Size::Percent(5.0 * f64::from(n)))
            .collect();
        let sizes = if self.sizes.is_empty() {
            &default
        } else {
            &self.sizes
        };
        let sizes = sizes.iter().map(|size| size.pages(footprint).max(1));
        let mut sizes: Vec<u64> = sizes.collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The second pass: computes all policies except LRU.
    fn second(
        &self,
        reader: &mut Reader<'_, '_>,
        (exact, result): (&Curve, &mut Curves),
    ) -> Result<Vec<(CurvePolicy, Vec<f64>)>, TraceError> {
        let file = reader.file;
        // A memory larger than twice the footprint has the same misses as one of that size. The cap
        // bounds the tables.
        let most = exact.pages().saturating_mul(2);
        let sizes: Vec<u64> = result.sizes.iter().map(|&size| size.min(most)).collect();
        let mut minis = Miniature::new(&sizes, self.sampled.unwrap_or(1.0));
        let mut simulated = Vec::new();
        for &policy in &self.policies {
            if policy.is_simulated() && !simulated.contains(&policy) {
                minis.add(|size, batch| {
                    let cache = policy.memory(size, batch);
                    cache.unwrap_or_else(|| Box::new(Lru::new(size)))
                });
                simulated.push(policy);
            }
        }
        let wants_opt = self.policies.contains(&CurvePolicy::Opt);
        if wants_opt && self.sampled.is_none() && exact.references() >= OPT_MAX as u64 {
            // The trace is refused now, before it fills the memory.
            return Err(too_long(file));
        }
        let (mut kept, mut pages) = (Vec::new(), Vec::new());
        let mut replay = |pages: &mut Vec<u64>, minis: &mut Miniature| {
            minis.replay(pages.drain(..));
            // A trace that is too long for OPT will be refused, so its further references are not
            // kept.
            if wants_opt && kept.len() < OPT_MAX {
                kept.extend_from_slice(minis.sampled());
            }
        };
        let trace = reader.read("simulating", |batch, bound| {
            pages.extend(batch.iter().map(|reference| reference.page));
            if pages.len() >= TURN {
                replay(&mut pages, &mut minis);
            }
            let known = minis.sampled_pages() as usize;
            match (known + 2 * TURN).next_power_of_two() > known.next_power_of_two() {
                // The tables of all memories may double at once.
                true => (bound.used)(),
                false => 0,
            }
        })?;
        replay(&mut pages, &mut minis);
        if trace.references() != exact.references() {
            let (was, is) = (exact.references(), trace.references());
            let what = format!("it held {was} references, and {is} at the second reading");
            return Err(whole(file, what, "let nobody write it meanwhile"));
        }
        if self.sampled.is_some() {
            if minis.sampled_pages() == 0 {
                // With an empty sample, the result would be the exact LRU curve.
                return Err(nothing_sampled(file));
            }
            result.sampled_pages = Some(u64::from(minis.sampled_pages()));
        }
        let curves = simulated.iter().enumerate();
        let mut all: Vec<_> = curves
            .map(|(n, &p)| (p, minis.corrected(n, exact)))
            .collect();
        if wants_opt {
            let opt = opt(reader, kept, &minis, (exact, &result.sizes))?;
            all.push((CurvePolicy::Opt, opt));
        }
        Ok(all)
    }
}

/// Maximum number of references for OPT. Each needs an index of 32 bits, and one value means never.
const OPT_MAX: usize = u32::MAX as usize;
/// Maximum number of bytes that OPT needs for a reference in addition to its id: the position of
/// the page's next reference, and an entry in a heap.
const OPT_BYTES: u64 = 12;

fn too_long(file: &Path) -> TraceError {
    let what = "OPT keeps all references in memory and takes less than 2^32";
    whole(file, what, "look at a part of the pages: --sampled 0.1")
}

fn nothing_sampled(file: &Path) -> TraceError {
    let what = "no page fell into the sample";
    whole(file, what, "give --sampled a larger share, or leave it out")
}

fn opt(
    reader: &mut Reader<'_, '_>,
    ids: Vec<u32>,
    minis: &Miniature,
    (exact, sizes): (&Curve, &[u64]),
) -> Result<Vec<f64>, TraceError> {
    if ids.len() >= OPT_MAX {
        return Err(too_long(reader.file));
    }
    reader.admit(OPT_BYTES * ids.len() as u64)?;
    let (uses, mut misses) = (NextUses::new(ids), Vec::new());
    for (n, &size) in sizes.iter().enumerate() {
        let share = ratio(n as u64, sizes.len() as u64);
        (reader.progress)("looking ahead", Some(share), exact.references());
        misses.push(opt_misses(&uses, minis.scaled(size)));
    }
    Ok(minis.correct(&misses, exact))
}

/// Results of the first pass.
enum FirstPass {
    Exact {
        dense: Dense,
        stack: Stack,
        curve: Curve,
    },
    Sampled(Shards),
}

impl FirstPass {
    fn exact() -> Self {
        Self::Exact {
            dense: Dense::default(),
            stack: Stack::default(),
            curve: Curve::default(),
        }
    }

    fn read(mut self, reader: &mut Reader<'_, '_>) -> Result<(Self, Trace), TraceError> {
        let mut ids = Vec::new();
        let trace = reader.read("reading", |batch, _| match &mut self {
            Self::Exact {
                dense,
                stack,
                curve,
            } => {
                // All ids are computed before the distances, so that the processor overlaps the
                // table look-ups.
                ids.clear();
                ids.extend(batch.iter().map(|reference| dense.id(reference.page)));
                ids.iter().for_each(|&id| curve.count(stack.access(id)));
                dense.growth_bytes(2 * TURN)
            }
            Self::Sampled(shards) => {
                batch.iter().for_each(|r| shards.access(r.page));
                shards.growth_bytes(2 * TURN)
            }
        })?;
        if self.pages() == 0 {
            return Err(nothing_sampled(reader.file));
        }
        Ok((self, trace))
    }

    fn pages(&self) -> u64 {
        match self {
            Self::Exact { curve, .. } => curve.pages(),
            Self::Sampled(shards) => shards.pages(),
        }
    }

    const fn sampled_pages(&self) -> Option<u64> {
        match self {
            Self::Exact { .. } => None,
            Self::Sampled(shards) => Some(shards.sampled_pages()),
        }
    }

    fn miss_ratio(&self, size: u64) -> f64 {
        match self {
            Self::Exact { curve, .. } => curve.miss_ratio(size),
            Self::Sampled(shards) => shards.miss_ratio(size),
        }
    }
}

/// Reads a trace, a second time if necessary, and checks the memory bound.
struct Reader<'a, 'b> {
    file: &'a Path,
    options: &'a TraceOptions,
    bound: MemoryBound,
    progress: &'a mut Progress<'b>,
}

impl Reader<'_, '_> {
    /// Reads the whole trace. `each` gets a batch, and returns by how many bytes its tables may
    /// grow at once during the next references.
    fn read(
        &mut self,
        what: &str,
        mut each: impl FnMut(&[Reference], MemoryBound) -> u64,
    ) -> Result<Trace, TraceError> {
        let (mut trace, mut batch) = (Trace::open(self.file, self.options)?, Vec::new());
        let mut check_at = CHECK_EVERY;
        while trace.fill(&mut batch)? {
            let growth = each(&batch, self.bound);
            if trace.references() >= check_at {
                check_at = trace.references() + CHECK_EVERY;
                self.admit(growth)?;
            }
            (self.progress)(what, trace.progress(), trace.references());
        }
        Ok(trace)
    }

    fn admit(&self, more: u64) -> Result<(), TraceError> {
        let remedy = "raise it with --memory-max, or look at a part of the pages: --sampled 0.1; \
                      fewer --sizes and --policy need less, too";
        let admitted = self.bound.admit(more);
        admitted.map_err(|exceeded| whole(self.file, exceeded.to_string(), remedy))
    }
}

fn whole(file: &Path, what: impl Into<String>, remedy: &'static str) -> TraceError {
    TraceError {
        file: file.to_owned(),
        place: Position::Whole,
        what: what.into(),
        remedy: remedy.into(),
    }
}
