//! How long something took: on the wall, and on the processor, which a busy machine disturbs less.
//!
//! Invariant: nothing that is simulated depends on it; it is for the timings of an outcome alone.

use std::time::Instant;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall: Instant,
    processor: Option<f64>,
}

/// Seconds since a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    /// On the wall.
    pub wall: f64,
    /// Of this thread on the processor; `None` where the system does not tell.
    pub processor: Option<f64>,
}

impl Stopwatch {
    /// Now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            wall: Instant::now(),
            processor: processor(),
        }
    }

    /// Since then.
    #[must_use]
    pub fn read(&self) -> Seconds {
        let since = |then: f64| processor().map(|now| now - then);
        Seconds {
            wall: self.wall.elapsed().as_secs_f64(),
            processor: self.processor.and_then(since),
        }
    }
}

/// Seconds that this thread has had a processor.
fn processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(crate::stats::number(nanos) / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let watch = Stopwatch::start();
        let mut sum = 0u64;
        while watch.wall.elapsed().as_micros() < 2000 {
            sum = std::hint::black_box(sum + 1);
        }
        let seconds = watch.read();
        assert!(seconds.wall >= 0.002);
        assert!(seconds.processor.is_none_or(|s| s >= 0.0));
    }
}
