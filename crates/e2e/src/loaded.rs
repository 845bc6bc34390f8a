//! A real server under the load of its clients, for benchmarks: redis with one client of ours, or
//! `PostgreSQL` with two clients of `pgbench`. A benchmark measures how many requests the server
//! answers.
//!
//! Some keys are requested much more often than others (Zipf's law); these keys are spread over all
//! memory of the server. Three of ten requests write.

use std::time::{Duration, Instant};

use crate::guard::{Outcome, Run};
use crate::postgres::Postgres;
use crate::redis::{NOISE, Redis};
use crate::wait::Chance;

/// Memory that redis uses for a key and its value, bytes.
const BYTES_PER_KEY: u64 = 5284;
/// Memory that `PostgreSQL` uses for each unit of `pgbench`'s scale, MiB.
const MIB_PER_SCALE: u64 = 16;
/// Number of equal intervals into which the time under load is divided.
const PARTS: u32 = 10;

/// Kind of server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// redis-server.
    Redis,
    /// postgres.
    Postgres,
}

/// A running server with its data.
#[derive(Debug)]
pub enum Loaded {
    /// A redis server, and its number of keys.
    Redis(Box<Redis>, u64),
    /// A `PostgreSQL` server, and its number of rows.
    Postgres(Postgres, u64),
}

/// How many requests a server has answered.
#[derive(Clone, Copy, Default, Debug)]
pub struct Throughput {
    /// Number of answers.
    pub all: f64,
    /// Answers per second.
    pub per_second: f64,
    /// Number of answers in the tenth of the time that had the fewest.
    pub least: f64,
}

impl Loaded {
    /// Starts a server as arguments of the command `prefix`, and fills it with `mib` MiB.
    ///
    /// # Panics
    /// If it does not start, or ends.
    #[must_use]
    pub fn start(kind: Kind, mib: u64, prefix: &[String]) -> Loaded {
        let wrap = |run: &Run| run.under(prefix.iter().cloned());
        match kind {
            Kind::Redis => {
                let keys = (mib << 20) / BYTES_PER_KEY;
                let mut server = Redis::start(NOISE, &wrap);
                server.fill(keys);
                Loaded::Redis(Box::new(server), keys)
            }
            Kind::Postgres => {
                let scale = (mib / MIB_PER_SCALE).max(1);
                let server = Postgres::start_as(&format!("{mib}MB"), scale, &wrap);
                Loaded::Postgres(server, scale * 100_000)
            }
        }
    }

    /// Sends requests for `time`.
    ///
    /// # Panics
    /// If the server ends, or an answer is wrong.
    pub fn run_load(&mut self, time: Duration, chance: &mut Chance) -> Throughput {
        let part = time / PARTS;
        match self {
            Loaded::Redis(server, keys) => {
                let begin = Instant::now();
                let parts = (0..PARTS).map(|number| {
                    let end = begin + part * (number + 1);
                    request_redis(server, *keys, end, chance)
                });
                let parts: Vec<f64> = parts.collect();
                let all: f64 = parts.iter().sum();
                Throughput {
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

/// Sends requests to redis until `end`; returns the number of answers. Zipf's law determines the
/// rank of each key; ranks are spread over all keys.
fn request_redis(server: &mut Redis, keys: u64, end: Instant, chance: &mut Chance) -> f64 {
    /// A prime that spreads ranks over all keys.
    const SPREAD: u64 = 2_654_435_761;
    let (mut answers, most) = (0.0, (keys as f64).ln());
    while Instant::now() < end {
        let share = chance.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank below the number of keys"
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

/// Reads the throughput from pgbench's summary; the fewest answers from its lines `progress: 4.0 s,
/// 1234.5 tps, ...`, one for each interval.
fn of_pgbench(outcome: &Outcome, time: Duration) -> Throughput {
    let number = |text: &str| text.split_whitespace().next()?.parse::<f64>().ok();
    let parts = outcome.stderr.lines().filter_map(|line| {
        let rest = line.strip_prefix("progress:")?;
        number(rest.split_once(" s, ")?.1)
    });
    let least = parts.fold(f64::INFINITY, f64::min);
    let mut reported = outcome.stdout.lines();
    let per_second = reported.find_map(|line| number(line.strip_prefix("tps = ")?));
    let per_second = per_second.unwrap_or(0.0);
    Throughput {
        all: per_second * time.as_secs_f64(),
        per_second,
        least: least * time.as_secs_f64() / f64::from(PARTS),
    }
}
