//! Measures two redis servers in turn, to find out what something costs one of them. As their turns
//! alternate, this works on a busy machine, too.

use std::time::{Duration, Instant};

use crate::bench::{Findings, median, percents};
use crate::redis::Redis;
use crate::wait::Chance;

/// Time for which one server gets requests before the other server gets them.
const SLICE: Duration = Duration::from_millis(100);

/// Keys that each of two servers has answered per second, one number for each of its turns.
#[derive(Clone, Debug, Default)]
pub struct Pairs([Vec<f64>; 2]);

impl Pairs {
    /// Measures for `time`, with keys out of `used`. Calls `scan` with the elapsed time whenever
    /// each server has had a turn.
    #[must_use]
    pub fn measure(
        servers: &mut [Redis; 2],
        used: &[u64],
        chance: &mut Chance,
        time: Duration,
        scan: &mut dyn FnMut(Duration),
    ) -> Pairs {
        let (begin, mut pairs) = (Instant::now(), Pairs::default());
        while begin.elapsed() < time {
            // Each server is first in every other pair.
            let turn = pairs.0[0].len() % 2;
            for side in [turn, 1 - turn] {
                pairs.0[side].push(run_turn(&mut servers[side], used, chance));
            }
            scan(begin.elapsed());
        }
        pairs
    }

    /// Speed of the second server in percent of the first one's, for each pair of turns.
    fn ratios(&self) -> Vec<f64> {
        percents(&self.0[1], &self.0[0])
    }

    /// Speed of the second server in percent of the first one's, over the whole time.
    fn overall_ratio(&self) -> f64 {
        100.0 * self.0[1].iter().sum::<f64>() / self.0[0].iter().sum::<f64>()
    }
}

/// Adds what managing costs: the ratio of the managed server's speed to the other server's, in
/// percent of that ratio before the server was managed.
pub fn throughput(found: &mut Findings, before: &Pairs, managed: &Pairs) {
    let (was, is) = (before.ratios(), managed.ratios());
    found.figure("unmanaged, median of the pairs", median(&was), "%");
    let over = 100.0 * median(&is) / median(&was);
    found.at_least("throughput over that", over, "%", 99.0);
    let after = 100.0 * median(&is[is.len() / 4..]) / median(&was);
    found.figure("the same after the first quarter", after, "%");
    let whole = 100.0 * managed.overall_ratio() / before.overall_ratio();
    found.figure("the same of the whole time", whole, "%");
    let half = was.len() / 2;
    let error = 100.0 * median(&was[half..]) / median(&was[..half]);
    found.figure("unmanaged, its second half over its first", error, "%");
}

/// Reads random keys out of `used` for one turn; returns keys per second.
fn run_turn(server: &mut Redis, used: &[u64], chance: &mut Chance) -> f64 {
    let begin = Instant::now();
    let mut reads = 0_u32;
    while begin.elapsed() < SLICE {
        let at = chance.below(used.len() as u64);
        server.check(used[usize::try_from(at).unwrap_or(0)]);
        reads += 1;
    }
    f64::from(reads) / begin.elapsed().as_secs_f64()
}
