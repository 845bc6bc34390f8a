//! Programs that ask for their memory at a steady pace: what they do does not depend on how fast they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::guard::Run;
use crate::redis::{NOISE, Redis};
use crate::subject::Subject;
use crate::wait::Chance;
use crate::{proc, programs};

/// Of all askings one goes anywhere, the others to the first half.
const RARE: u64 = 60_000;
/// Askings of redis on their way at once.
const TICK: Duration = Duration::from_millis(20);

/// Values of 4 KiB, and how many of them are asked for in a second.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How many there are.
    pub values: u64,
    /// How many are asked for.
    pub per_second: u64,
    /// It ends by itself then.
    pub seconds: u64,
}

/// Which values redis is asked for; lower ones more often, by a product of two even chances.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// Of the first half, and one of 60,000 anywhere.
    Half,
    /// Of all: between two askings for one lie seconds to many minutes.
    All,
    /// Of the first half and of all in turn, for so long each.
    Doubling(Duration),
}

impl Asked {
    fn pick(self, number: u64, values: u64, elapsed: Duration, chance: &mut Chance) -> u64 {
        let of = match self {
            Asked::Half if number.is_multiple_of(RARE) => return chance.below(values),
            Asked::Half => values / 2,
            Asked::All => values,
            Asked::Doubling(each) => match elapsed.as_secs() / each.as_secs().max(1) % 2 {
                0 => values / 2,
                _ => values,
            },
        };
        chance.below(of) * chance.below(of) / of
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct Paced {
    /// What it is.
    pub name: &'static str,
    /// Its process.
    pub pid: u32,
    _subject: Option<Subject>,
    asker: Option<Asker>,
}

/// Who asks redis.
#[derive(Debug)]
struct Asker {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// The longest that an asking was late, milliseconds.
    late_ms: Arc<AtomicU64>,
}

impl Paced {
    /// One of the test programs, by its words; its standard input stays open.
    fn program(name: &'static str, words: &str, seconds: u64) -> Paced {
        let script = format!("sleep {} | {words}", seconds + 60);
        let subject = Subject::ready(Run::new(["sh", "-c", &script]).start());
        Paced {
            name,
            pid: subject.pid,
            _subject: Some(subject),
            asker: None,
        }
    }

    /// A C program with one array: a pattern of `paced.c`.
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

    /// Python, a dict or a table in sqlite.
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

    /// node, a Map.
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

    /// redis with a client.
    #[must_use]
    pub fn redis(pace: Pace, asked: Asked) -> Paced {
        let mut server = Redis::start(NOISE, &Run::clone);
        server.fill(pace.values);
        let (pid, stop) = (server.pid, Arc::new(AtomicBool::new(false)));
        let late_ms = Arc::new(AtomicU64::new(0));
        let (told, late) = (Arc::clone(&stop), Arc::clone(&late_ms));
        let thread = std::thread::spawn(move || ask(&mut server, (pace, asked), (&told, &late)));
        Paced {
            name: "redis",
            pid,
            _subject: None,
            asker: Some(Asker {
                thread: Some(thread),
                stop,
                late_ms,
            }),
        }
    }

    /// The longest that redis was asked late since the last time, milliseconds; 0 of others.
    #[must_use]
    pub fn late_ms(&self) -> u64 {
        let asker = self.asker.as_ref();
        asker.map_or(0, |asker| asker.late_ms.swap(0, Ordering::Relaxed))
    }

    /// Faults that needed reading, as the kernel counts them.
    ///
    /// # Panics
    /// If it is gone.
    #[must_use]
    pub fn major_faults(&self) -> u64 {
        proc::stat(self.pid, 12).expect("it runs")
    }
}

fn ask(
    server: &mut Redis,
    (pace, asked): (Pace, Asked),
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
            .map(|number| asked.pick(number, pace.values, elapsed, &mut chance))
            .collect();
        done = due;
        numbers.chunks(100).for_each(|some| server.check_all(some));
        std::thread::sleep(TICK);
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it found wrong was said already.
            let _ = thread.join();
        }
    }
}

impl Paced {
    /// Whether what it was asked for was right until now.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let thread = self.asker.as_ref().and_then(|asker| asker.thread.as_ref());
        thread.is_none_or(|thread| !thread.is_finished()) && proc::is_alive(self.pid)
    }
}
