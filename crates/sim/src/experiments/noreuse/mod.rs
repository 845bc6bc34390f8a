//! Document 000: vma_has_recency and POSIX_FADV_NOREUSE. A program reads a large file through a
//! mapping, once, as a video encoder does, beside memory that it uses all the time.
//! spec: reclaim-control.md 6.
//!
//! Invariant: whether accesses through a mapping count is `vma_has_recency`, asked at each look of an
//! address space in which the program gave its advice; nothing else differs between the runs.

mod results;

use super::Settings;
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::tenant::Tenant;
use ::engine::active_inactive::Stage;
use ::engine::lru_gen::Profile;
use ::engine::vmstat::VmEvent;
use ::engine::{FaultKind, FolioId, FolioType, Millis, Pages, Policy};
use models::vma::{AddressSpace, Advice, Fadvice, OpenFileId, Vma, VmaKind};

const GIB: u64 = 1 << 18;
/// The document's machine has 8 GiB left, and its video about as much.
const MEMORY: u64 = 8 * GIB;
const VIDEO: u64 = 7 * GIB + GIB / 2;
/// The encoder's own memory, anon, in use all the time.
const HOT: u64 = 5 * GIB;
/// A frame is looked at again by later ones: this much of the video behind the reader.
const WINDOW: u64 = GIB / 16;
/// Touches of hot memory for each page of video, at random.
const HOT_TOUCHES: u32 = 4;
/// The encoder reads the video so many times.
const ROUNDS: u64 = 2;

/// What the program said about its video.
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

    /// Gives the advice.
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

/// One run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// Hot pages that had to come back while the video was read.
    hot_back: u64,
    /// Hot pages swapped out.
    hot_out: u64,
    /// Video pages brought in.
    video_in: u64,
    /// Hot pages in memory at the end.
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
            // 60 s for the video, whatever its scale.
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
    fn a_marked_stream_leaves_the_hot_set_alone() {
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

    /// The multi-gen LRU swaps without the mark; the active/inactive LRU may, a little: a video that is read again is
    /// activated, and its inactive pages are no cache to trim then.
    #[test]
    fn without_the_mark_the_hot_set_pays() {
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
    fn advice_is_what_takes_recency_away() {
        let policy = Policy::default();
        let recency = Hint::ALL.map(|hint| {
            let encoder = Encoder::new(policy, hint, 4096);
            let space = &encoder.tenant.space;
            [0, encoder.hot].map(|page| space.is_recent(FolioId(page)))
        });
        assert_eq!(recency, [[true, true], [true, false], [true, false]]);
    }
}
