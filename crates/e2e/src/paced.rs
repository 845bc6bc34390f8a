//! Programs that access their memory at a steady rate: how much they access does not depend on how
//! fast they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::guard::Run;
use crate::redis::{NOISE, Redis};
use crate::subject::Subject;
use crate::wait::Chance;
use crate::{proc, programs};

/// One of so many requests is for any value; the others are for the first half of the values.
const RARE: u64 = 60_000;
/// Interval at which a batch of requests is sent to redis.
const TICK: Duration = Duration::from_millis(20);

/// How much memory a program has, how often it accesses it, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Number of values of 4 KiB each.
    pub values: u64,
    /// Accesses per second.
    pub per_second: u64,
    /// Time after which the program ends on its own.
    pub seconds: u64,
}

/// Which values are requested of redis. The index of a value is `a * b / n`, where n is the number
/// of values in use, and a and b are random and below n; so lower values are requested more often.
#[derive(Clone, Copy, Debug)]
pub enum KeyPattern {
    /// The first half of the values, and for one request of 60,000 any value.
    Half,
    /// All values. The time between two requests for one value is between seconds and many minutes.
    All,
    /// The first half of the values for this time, then all values for this time, and so on.
    Doubling(Duration),
}

impl KeyPattern {
    /// Index of the value for request `number`.
    fn pick(self, number: u64, values: u64, elapsed: Duration, chance: &mut Chance) -> u64 {
        let of = match self {
            KeyPattern::Half if number.is_multiple_of(RARE) => return chance.below(values),
            KeyPattern::Half => values / 2,
            KeyPattern::All => values,
            KeyPattern::Doubling(each) => match elapsed.as_secs() / each.as_secs().max(1) % 2 {
                0 => values / 2,
                _ => values,
            },
        };
        chance.below(of) * chance.below(of) / of
    }
}

/// A running program that accesses its memory at a steady rate.
#[derive(Debug)]
pub struct Paced {
    /// Name in the results.
    pub name: &'static str,
    /// Pid of the program, or of the redis server.
    pub pid: u32,
    _subject: Option<Subject>,
    requests: Option<RequestThread>,
}

/// The thread that sends requests to redis; ends when this is dropped.
#[derive(Debug)]
struct RequestThread {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Longest delay of a request since it was last read, milliseconds.
    late_ms: Arc<AtomicU64>,
}

impl Paced {
    /// Starts a test program by its command line, with a standard input that stays open.
    fn program(name: &'static str, words: &str, seconds: u64) -> Paced {
        let script = format!("sleep {} | {words}", seconds + 60);
        let subject = Subject::ready(Run::new(["sh", "-c", &script]).start());
        Paced {
            name,
            pid: subject.pid,
            _subject: Some(subject),
            requests: None,
        }
    }

    /// Starts a C program with one array, which it accesses by a pattern of `paced.c`.
    #[must_use]
    pub fn array(pattern: &str, pace: Pace) -> Paced {
        let Pace {
            values,
            per_second,
            seconds,
        } = pace;
        let words = format!(
            "{} {pattern} {} {per_second} {seconds}",
            programs::c("paced"),
            values / 256
        );
        Paced::program("C, an array", &words, seconds)
    }

    /// Starts a Python program with a dict or with a table in sqlite, as `kind` says.
    #[must_use]
    pub fn python(name: &'static str, kind: &str, pace: Pace) -> Paced {
        let Pace {
            values,
            per_second,
            seconds,
        } = pace;
        let source = programs::source("paced.py");
        let words = format!("python3 {source} {kind} {values} {per_second} {seconds}");
        Paced::program(name, &words, seconds)
    }

    /// Starts a node program with a Map.
    #[must_use]
    pub fn node(pace: Pace) -> Paced {
        let Pace {
            values,
            per_second,
            seconds,
        } = pace;
        let source = programs::source("paced.js");
        let words = format!("node {source} {values} {per_second} {seconds}");
        Paced::program("node, a Map", &words, seconds)
    }

    /// Starts a redis server and a client in this process that requests values.
    #[must_use]
    pub fn redis(pace: Pace, requested: KeyPattern) -> Paced {
        let mut server = Redis::start(NOISE, &Run::clone);
        server.fill(pace.values);
        let (pid, stop) = (server.pid, Arc::new(AtomicBool::new(false)));
        let late_ms = Arc::new(AtomicU64::new(0));
        let (reported, late) = (Arc::clone(&stop), Arc::clone(&late_ms));
        let thread = std::thread::spawn(move || {
            send_requests(&mut server, (pace, requested), (&reported, &late))
        });
        Paced {
            name: "redis",
            pid,
            _subject: None,
            requests: Some(RequestThread {
                thread: Some(thread),
                stop,
                late_ms,
            }),
        }
    }

    /// Longest delay of a request to redis since the last call, milliseconds; 0 for other programs.
    #[must_use]
    pub fn late_ms(&self) -> u64 {
        let requests = self.requests.as_ref();
        requests.map_or(0, |requests| requests.late_ms.swap(0, Ordering::Relaxed))
    }

    /// Number of major faults of the program, by the kernel.
    ///
    /// # Panics
    /// If the program has ended.
    #[must_use]
    pub fn major_faults(&self) -> u64 {
        proc::stat(self.pid, 12).expect("it runs")
    }
}

/// Sends requests at the rate of `pace` until `stop` is set or the time is over.
fn send_requests(
    server: &mut Redis,
    (pace, requested): (Pace, KeyPattern),
    (stop, late_ms): (&AtomicBool, &AtomicU64),
) {
    let (begin, mut chance, mut done) = (Instant::now(), Chance::new(7), 0);
    while !stop.load(Ordering::Relaxed) && begin.elapsed().as_secs() < pace.seconds {
        let micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let owed = (micros * pace.per_second / 1_000_000).saturating_sub(done);
        late_ms.fetch_max(owed * 1000 / pace.per_second, Ordering::Relaxed);
        let due = micros.saturating_mul(pace.per_second) / 1_000_000;
        let elapsed = begin.elapsed();
        let numbers: Vec<u64> = (done..due)
            .map(|number| requested.pick(number, pace.values, elapsed, &mut chance))
            .collect();
        done = due;
        numbers.chunks(100).for_each(|some| server.check_all(some));
        std::thread::sleep(TICK);
    }
}

impl Drop for RequestThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread has already printed any error it found.
            let _ = thread.join();
        }
    }
}

impl Paced {
    /// Whether the program still runs and all answers were right so far.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let thread = self
            .requests
            .as_ref()
            .and_then(|requests| requests.thread.as_ref());
        thread.is_none_or(|thread| !thread.is_finished()) && proc::is_alive(self.pid)
    }
}
