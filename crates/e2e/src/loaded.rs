//! A real server under the load of its clients, by a bench: redis with one of ours, or `PostgreSQL` with two of `pgbench`, asked for what lies
//! everywhere in its memory, some of it (by Zipf's law) much more often; three of ten change something. What it answered.

use std::time::{Duration, Instant};

use crate::guard::{Outcome, Run};
use crate::postgres::Postgres;
use crate::redis::{NOISE, Redis};
use crate::wait::Chance;

/// What redis takes for a key of ours, bytes.
const OF_KEY: u64 = 5284;
/// What a scale of `pgbench` takes, MiB.
const OF_SCALE: u64 = 16;
/// The time in which it is asked has so many parts.
const PARTS: u32 = 10;

/// Which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// redis-server.
    Redis,
    /// postgres.
    Postgres,
}

/// One that runs and has its data.
#[derive(Debug)]
pub enum Loaded {
    /// With so many keys.
    Redis(Box<Redis>, u64),
    /// With so many rows.
    Postgres(Postgres, u64),
}

/// What it came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Answered {
    /// Answers, and a second.
    pub all: f64,
    /// The same by second.
    pub per_second: f64,
    /// The fewest, of a tenth of the time.
    pub least: f64,
}

impl Loaded {
    /// Starts one as the argument of these words, and fills it with so many MiB.
    ///
    /// # Panics
    /// If it does not start, or ends.
    #[must_use]
    pub fn start(kind: Kind, mib: u64, prefix: &[String]) -> Loaded {
        let wrap = |run: &Run| run.under(prefix.iter().cloned());
        match kind {
            Kind::Redis => {
                let keys = (mib << 20) / OF_KEY;
                let mut server = Redis::start(NOISE, &wrap);
                server.fill(keys);
                Loaded::Redis(Box::new(server), keys)
            }
            Kind::Postgres => {
                let scale = (mib / OF_SCALE).max(1);
                let server = Postgres::start_as(&format!("{mib}MB"), scale, &wrap);
                Loaded::Postgres(server, scale * 100_000)
            }
        }
    }

    /// Asks it for so long.
    ///
    /// # Panics
    /// If it ends, or an answer is wrong.
    pub fn ask(&mut self, time: Duration, chance: &mut Chance) -> Answered {
        let part = time / PARTS;
        match self {
            Loaded::Redis(server, keys) => {
                let begin = Instant::now();
                let parts = (0..PARTS).map(|number| {
                    let end = begin + part * (number + 1);
                    asked(server, *keys, end, chance)
                });
                let parts: Vec<f64> = parts.collect();
                let all: f64 = parts.iter().sum();
                Answered {
                    all,
                    per_second: all / begin.elapsed().as_secs_f64(),
                    least: parts.iter().copied().fold(f64::INFINITY, f64::min),
                }
            }
            Loaded::Postgres(server, rows) => {
                let [seconds, part] = [time, part].map(|time| time.as_secs().max(1).to_string());
                let words = ["-n", "-f", "-", "-c", "2", "-T", &seconds, "-P", &part];
                let script = format!(
                    "\\set aid random_zipfian(1, {rows}, 1.07)\n\\set kind random(1, 10)\n\\if :kind <= 3\n\
                     UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n\\else\n\
                     SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\\endif\n"
                );
                let run = server.pgbench(&[&words[..], &["postgres"]].concat());
                let outcome = run.stdin(&script).finish(time + Duration::from_secs(120));
                assert!(outcome.status.success(), "{}", outcome.stderr);
                of_pgbench(&outcome, time)
            }
        }
    }
}

/// Answers until an instant. One in a thousand by Zipf's law is the thousandth part of all, wherever it lies.
fn asked(server: &mut Redis, keys: u64, end: Instant, chance: &mut Chance) -> f64 {
    const SPREAD: u64 = 2_654_435_761;
    let (mut answers, most) = (0.0, (keys as f64).ln());
    while Instant::now() < end {
        let share = chance.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "of the keys"
        )]
        let rank = (share * most).exp() as u64;
        let key = rank.wrapping_mul(SPREAD) % keys;
        match chance.below(10) {
            0..3 => server.set(key),
            _ => server.check(key),
        }
        answers += 1.0;
    }
    answers
}

/// What it says at its end, and each part's `progress: 4.0 s, 1234.5 tps, ...`.
fn of_pgbench(outcome: &Outcome, time: Duration) -> Answered {
    let number = |text: &str| text.split_whitespace().next()?.parse::<f64>().ok();
    let parts = outcome.stderr.lines().filter_map(|line| {
        let rest = line.strip_prefix("progress:")?;
        number(rest.split_once(" s, ")?.1)
    });
    let least = parts.fold(f64::INFINITY, f64::min);
    let mut told = outcome.stdout.lines();
    let per_second = told.find_map(|line| number(line.strip_prefix("tps = ")?));
    let per_second = per_second.unwrap_or(0.0);
    Answered {
        all: per_second * time.as_secs_f64(),
        per_second,
        least: least * time.as_secs_f64() / f64::from(PARTS),
    }
}
