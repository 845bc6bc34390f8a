//! Measures elapsed time, and processor time, on which other programs have less influence.
//!
//! Invariant: no simulated result depends on it; it is only for the timings of an outcome.

use std::time::Instant;

/// A point in time from which times are measured.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall_clock: Instant,
    processor: Option<f64>,
}

/// Time since a stopwatch was started, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    /// Elapsed seconds.
    pub wall_clock: f64,
    /// Processor time of this thread, seconds; `None` if the system does not report it.
    pub processor: Option<f64>,
}

impl Stopwatch {
    /// Starts a stopwatch.
    #[must_use]
    pub fn start() -> Self {
        Self {
            wall_clock: Instant::now(),
            processor: processor(),
        }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn read(&self) -> Seconds {
        let since = |then: f64| processor().map(|now| now - then);
        Seconds {
            wall_clock: self.wall_clock.elapsed().as_secs_f64(),
            processor: self.processor.and_then(since),
        }
    }
}

/// Returns the processor time of this thread so far, seconds; `None` if the system does not report
/// it.
fn processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(crate::stats::number(nanos) / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_measures_elapsed_time() {
        let watch = Stopwatch::start();
        let mut sum = 0u64;
        while watch.wall_clock.elapsed().as_micros() < 2000 {
            sum = std::hint::black_box(sum + 1);
        }
        let seconds = watch.read();
        assert!(seconds.wall_clock >= 0.002);
        assert!(seconds.processor.is_none_or(|s| s >= 0.0));
    }
}
