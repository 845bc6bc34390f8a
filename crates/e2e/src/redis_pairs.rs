//! Two redis servers asked in turn: what something costs one of them, whatever else the machine does.

use std::time::{Duration, Instant};

use crate::bench::{Findings, median, percents};
use crate::redis::Redis;
use crate::wait::Chance;

/// One of them is asked for so long at a time.
const SLICE: Duration = Duration::from_millis(100);

/// Keys a second of both servers, slice by slice.
#[derive(Clone, Debug, Default)]
pub struct Pairs([Vec<f64>; 2]);

impl Pairs {
    /// For so long; `look` is called after each pair.
    #[must_use]
    pub fn take(
        servers: &mut [Redis; 2],
        used: &[u64],
        chance: &mut Chance,
        time: Duration,
        look: &mut dyn FnMut(Duration),
    ) -> Pairs {
        let (begin, mut pairs) = (Instant::now(), Pairs::default());
        while begin.elapsed() < time {
            // Each goes first every other time.
            let turn = pairs.0[0].len() % 2;
            for side in [turn, 1 - turn] {
                pairs.0[side].push(slice(&mut servers[side], used, chance));
            }
            look(begin.elapsed());
        }
        pairs
    }

    /// The second server's speed, percent of the first one's, pair by pair.
    fn ratios(&self) -> Vec<f64> {
        percents(&self.0[1], &self.0[0])
    }

    /// The same over the whole time.
    fn whole(&self) -> f64 {
        100.0 * self.0[1].iter().sum::<f64>() / self.0[0].iter().sum::<f64>()
    }
}

/// The managed server's speed beside the other's, over what it was before.
pub fn throughput(found: &mut Findings, before: &Pairs, managed: &Pairs) {
    let (was, is) = (before.ratios(), managed.ratios());
    found.figure("unmanaged, median of the pairs", median(&was), "%");
    let over = 100.0 * median(&is) / median(&was);
    found.at_least("throughput over that", over, "%", 99.0);
    let after = 100.0 * median(&is[is.len() / 4..]) / median(&was);
    found.figure("the same after the first quarter", after, "%");
    let whole = 100.0 * managed.whole() / before.whole();
    found.figure("the same of the whole time", whole, "%");
    let half = was.len() / 2;
    let error = 100.0 * median(&was[half..]) / median(&was[..half]);
    found.figure("unmanaged, its second half over its first", error, "%");
}

/// Reads keys in use for one slice; keys a second.
fn slice(server: &mut Redis, used: &[u64], chance: &mut Chance) -> f64 {
    let begin = Instant::now();
    let mut reads = 0_u32;
    while begin.elapsed() < SLICE {
        let at = chance.below(used.len() as u64);
        server.check(used[usize::try_from(at).unwrap_or(0)]);
        reads += 1;
    }
    f64::from(reads) / begin.elapsed().as_secs_f64()
}
