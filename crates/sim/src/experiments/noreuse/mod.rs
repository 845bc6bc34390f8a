//! Repeats an experiment of source document 000 (docs/experiments.md) about `vma_has_recency` and
//! POSIX_FADV_NOREUSE. A program reads a large file once through a mapping, as a video encoder
//! does, and uses other memory all the time.
//! spec: reclaim-control.md 6.
//!
//! Invariant: for one policy, the runs differ only in the program's advice. At each read of an
//! accessed bit, `vma_has_recency` decides whether accesses through the mapping count.

mod results;

use super::Settings;
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::tenant::Tenant;
use crate::vma::{AddressSpace, Advice, Fadvice, OpenFileId, Vma, VmaKind};
use ::engine::active_inactive::Stage;
use ::engine::lru_gen::Profile;
use ::engine::vmstat::VmEvent;
use ::engine::{FaultKind, FolioId, FolioType, Millis, Pages, Policy};

/// Number of pages in a GiB.
const GIB: u64 = 1 << 18;
/// Free memory of the document's machine, 8 GiB, in pages; the video is nearly as large.
const MEMORY: u64 = 8 * GIB;
const VIDEO: u64 = 7 * GIB + GIB / 2;
/// Anonymous memory that the encoder uses all the time (the hot pages), in pages.
const HOT: u64 = 5 * GIB;
/// For each page of the video, the encoder also reads a random page among this many before it, as
/// later frames refer to earlier ones.
const WINDOW: u64 = GIB / 16;
/// Number of random touches of hot memory for each page of video.
const HOT_TOUCHES: u32 = 4;
/// Number of times that the encoder reads the whole video.
const ROUNDS: u64 = 2;

/// The advice that the program gives about its video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Nothing,
    NoReuse,
    Sequential,
}

impl Hint {
    const ALL: [Self; 3] = [Self::Nothing, Self::NoReuse, Self::Sequential];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::NoReuse => "FADV_NOREUSE",
            Self::Sequential => "MADV_SEQUENTIAL",
        }
    }

    /// Applies the advice.
    fn apply(self, space: &mut AddressSpace, video: &Vma) {
        match self {
            Self::Nothing => {}
            Self::NoReuse => space.fadvise(OpenFileId(1), Fadvice::NoReuse),
            Self::Sequential => space.madvise(video.start, video.end, Advice::Sequential),
        }
    }
}

fn policies(total: Pages) -> [(&'static str, Policy); 3] {
    [
        ("multi-gen, v6.16", Policy::MultiGen(Profile::P616)),
        ("multi-gen, v6.3", Policy::MultiGen(Profile::P63)),
        (
            "active/inactive",
            Policy::ActiveInactive(Stage::Detection, total),
        ),
    ]
}

/// The result of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// Number of hot pages that refaulted while the video was read.
    hot_back: u64,
    /// Number of hot pages that were swapped out.
    hot_out: u64,
    /// Number of video pages that were read from disk.
    video_in: u64,
    /// Number of hot pages in memory at the end.
    hot_left: u64,
    scanned: u64,
}

struct Encoder {
    tenant: Tenant,
    hot: u32,
    video_in: u64,
}

impl Encoder {
    fn new(policy: Policy, hint: Hint, scale: u64) -> Self {
        let pages = |n: u64| u32::try_from(n / scale).unwrap_or(u32::MAX);
        let (hot, video) = (pages(HOT), pages(VIDEO));
        let mut tenant = Tenant::new(policy, hot + video, Pages(MEMORY / scale));
        let mapped = |start: u32, len: u32, kind| Vma {
            start: u64::from(start),
            end: u64::from(start + len),
            kind,
            advice: Advice::Normal,
            first: FolioId(start),
        };
        tenant.space.map(mapped(0, hot, VmaKind::Anon));
        let file = mapped(hot, video, VmaKind::File(OpenFileId(1)));
        tenant.space.map(file);
        hint.apply(&mut tenant.space, &file);
        Self {
            tenant,
            hot,
            video_in: 0,
        }
    }

    fn touch_video(&mut self, page: u32) {
        let id = FolioId(self.hot + page);
        if !self.tenant.lruvec_mut().touch(id) {
            self.video_in += 1;
            self.tenant.fault(id.0, FolioType::File, FaultKind::Refault);
        }
    }
}

fn run_one(policy: Policy, hint: Hint, scale: u64, seed: u64) -> Run {
    let mut encoder = Encoder::new(policy, hint, scale);
    let mut rng = Rng::stream(seed, 2);
    let video = u32::try_from(VIDEO / scale).unwrap_or(u32::MAX);
    let window = u32::try_from(WINDOW / scale).unwrap_or(u32::MAX).max(1);
    for _ in 0..2 {
        (0..encoder.hot).for_each(|page| {
            encoder.tenant.touch(page);
        });
    }
    let mut step = 0;
    for _ in 0..ROUNDS {
        for page in 0..video {
            step += 1;
            // Reading the video takes 60 s at any scale.
            let now = step * 60_000 / u64::from(video);
            encoder.tenant.at(Millis(now));
            encoder.touch_video(page);
            if let Some(before) = page.checked_sub(rng.below(window) + 1) {
                encoder.touch_video(before);
            }
            for _ in 0..HOT_TOUCHES {
                encoder.tenant.touch(rng.below(encoder.hot));
            }
        }
    }
    encoder.tenant.machine().check_invariants();
    let folios = encoder.tenant.lruvec().folios();
    let is_left = |&page: &u32| folios.get(FolioId(page)).is_present();
    Run {
        hot_back: encoder.tenant.stat(VmEvent::Pswpin),
        hot_out: encoder.tenant.stat(VmEvent::Pswpout),
        video_in: encoder.video_in,
        hot_left: (0..encoder.hot).filter(is_left).count() as u64,
        scanned: encoder.tenant.lruvec().stat().pgscan(),
    }
}

/// Runs the experiment.
pub(super) fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let scale = settings.scale;
    let policies = policies(Pages(MEMORY / scale));
    let tasks: Vec<(Policy, Hint)> = policies
        .iter()
        .flat_map(|&(_, policy)| Hint::ALL.map(|hint| (policy, hint)))
        .collect();
    let runs = crate::parallel::map(
        &tasks,
        |&(policy, hint)| run_one(policy, hint, scale, settings.seed),
        progress,
    );
    let runs: Vec<&[Run]> = runs.chunks(Hint::ALL.len()).collect();
    let names = policies.map(|(name, _)| name);
    results::outcome(&names, &runs, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Claim;

    #[test]
    fn a_stream_with_advice_does_not_evict_the_hot_set() {
        let outcome = run(
            &Settings {
                seed: 1,
                scale: 512,
            },
            &mut |_| {},
        );
        assert!(
            outcome.claims.iter().all(|claim| claim.holds),
            "{:?}",
            outcome.claims
        );
    }

    /// Without the advice, the multi-gen LRU swaps out hot pages. The active/inactive LRU may swap
    /// a little, too: the second reading activates video pages, so few inactive ones remain to
    /// evict.
    #[test]
    fn without_advice_the_hot_set_is_swapped() {
        let outcome = run(
            &Settings {
                seed: 2,
                scale: 512,
            },
            &mut |_| {},
        );
        let multi_gen = |claim: &&Claim| {
            claim.what.starts_with("multi-gen") && claim.what.contains("swapped in again")
        };
        assert_eq!(outcome.claims.iter().filter(multi_gen).count(), 2);
    }

    #[test]
    fn only_advice_removes_recency() {
        let policy = Policy::default();
        let recency = Hint::ALL.map(|hint| {
            let encoder = Encoder::new(policy, hint, 4096);
            let space = &encoder.tenant.space;
            [0, encoder.hot].map(|page| space.is_recent(FolioId(page)))
        });
        assert_eq!(recency, [[true, true], [true, false], [true, false]]);
    }
}
