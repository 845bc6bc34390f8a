//! The clients of a service: they send requests at a fixed rate, also if the service is slow (an
//! open loop).
//!
//! Invariant: each request has a scheduled time, and its latency counts from that time. So if a
//! service stalls, the latencies show all requests that it delayed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Service;
use super::client::{Address, Client};
use crate::wait::Chance;

/// One of so many requests is for any key; all others are for the hot part of the keys.
const RARE: u64 = 1000;
/// A prime by which the most requested keys are spread over the hot part.
const SPREAD: u64 = 2_654_435_761;

/// Counts and latencies of requests.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Number of right answers.
    pub right: u64,
    /// Number of wrong answers.
    pub wrong: u64,
    /// Number of requests without an answer.
    pub failed: u64,
    /// Message of the first request that failed.
    pub failure: Option<String>,
    /// Latency of each request, microseconds, counted from its scheduled time.
    pub latencies: Vec<u32>,
}

impl Answers {
    /// Latency that `percent` percent of the requests did not exceed, milliseconds; NaN without
    /// requests.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted
            .get(at)
            .map_or(f64::NAN, |micros| f64::from(*micros) / 1000.0)
    }
}

/// Clients that send requests until this is dropped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    answers: Arc<Mutex<Answers>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts the clients.
    #[must_use]
    pub fn start(service: &Service, address: &Address) -> Load {
        let (stop, answers) = (Arc::default(), Arc::default());
        let threads = (0..service.clients).map(|number| {
            let mut client = LoadClient {
                service: *service,
                address: address.clone(),
                number,
                stop: Arc::clone(&stop),
                answers: Arc::clone(&answers),
                client: None,
                first: HashMap::new(),
            };
            std::thread::spawn(move || client.run())
        });
        let threads = threads.collect();
        Load {
            stop,
            answers,
            threads,
        }
    }

    /// Takes the results since the last call.
    #[must_use]
    pub fn take(&self) -> Answers {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut answers)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A client, which runs in a thread of its own.
struct LoadClient {
    service: Service,
    address: Address,
    /// Number of the client, from 0 on.
    number: u64,
    stop: Arc<AtomicBool>,
    answers: Arc<Mutex<Answers>>,
    /// The connection; `None` before the first request and after a failure.
    client: Option<Box<dyn Client>>,
    /// First answer for each key, by which later ones are checked if the service has no expected
    /// value.
    first: HashMap<u64, Vec<u8>>,
}

impl LoadClient {
    /// Sends requests until `stop` is set.
    fn run(&mut self) {
        let mut chance = Chance::new(self.number + 1);
        let begin = Instant::now();
        let every = Duration::from_secs(60 * self.service.clients);
        let every = every.div_f64(self.service.per_minute as f64);
        // The clients' requests are spread evenly over the interval.
        let mut at = every.mul_f64(self.number as f64 / self.service.clients as f64);
        while !self.stop.load(Ordering::Relaxed) {
            let wait = at.saturating_sub(begin.elapsed());
            if !wait.is_zero() {
                // Short sleeps, so that a client whose next request is seconds away stops soon.
                std::thread::sleep(wait.min(Duration::from_millis(200)));
                continue;
            }
            let result = self.request(key(&self.service, &mut chance));
            let late = begin.elapsed().saturating_sub(at);
            self.count(result, late);
            at += every;
        }
    }

    /// Sends a request for `key`; returns whether the answer is right.
    fn request(&mut self, key: u64) -> std::io::Result<bool> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.address.connect()?,
        };
        let answer = client.get(key)?;
        self.client = Some(client);
        let expected = self.service.expected(key);
        let expected =
            expected.unwrap_or_else(|| self.first.entry(key).or_insert(answer.clone()).clone());
        Ok(answer == expected)
    }

    /// Adds a result; `late` is the time since the request's scheduled time.
    fn count(&self, result: std::io::Result<bool>, late: Duration) {
        let failed = result.is_err();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let micros = u32::try_from(late.as_micros()).unwrap_or(u32::MAX);
        answers.latencies.push(micros);
        match result {
            Ok(true) => answers.right += 1,
            Ok(false) => answers.wrong += 1,
            Err(error) => {
                answers.failed += 1;
                answers.failure.get_or_insert(error.to_string());
            }
        }
        drop(answers);
        if failed {
            // If the service has ended, the next request waits a moment.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Picks a random key: one in `RARE` from all keys, the others from the hot part, by Zipf's law
/// with exponent 1. The hot part is the last keys, as recently made data would be. Neighbours in
/// the hot part differ in how often they are requested.
fn key(service: &Service, chance: &mut Chance) -> u64 {
    let hot = (service.keys * service.hot / 100).max(1);
    if chance.below(RARE) == 0 {
        return chance.below(service.keys);
    }
    let share = chance.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank below the number of keys"
    )]
    let rank = ((hot as f64 + 1.0).ln() * share).exp() as u64 - 1;
    service.keys - hot + rank.wrapping_mul(SPREAD) % hot
}
