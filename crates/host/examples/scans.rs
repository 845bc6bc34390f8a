//! Measures scans of a process and its descendants: `scans PID [LOOKS [APART_MS]]`. Prints one line
//! for each scan: its milliseconds, the processor time of all our threads in it, and the number of
//! processes.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use host::system::family::Target;
use host::watch::{Watch, WatchSettings};

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let Some(pid) = numbers.first().and_then(|pid| u32::try_from(*pid).ok()) else {
        eprintln!("usage: scans PID [SCANS [APART_MS]]");
        std::process::exit(2);
    };
    let scans = numbers.get(1).copied().unwrap_or(10);
    let interval = Duration::from_millis(numbers.get(2).copied().unwrap_or(1000));
    let watch = Watch::open(WatchSettings {
        target: Target::Descendants(pid),
        interval,
        max_wait: None,
        source: None,
        memory: None,
        own_process: true,
    });
    let mut watch = watch.unwrap_or_else(|error| {
        eprintln!("scans: {error}");
        std::process::exit(1);
    });
    let cpu = || pagetables::cpu_time(std::process::id()).unwrap_or_default();
    for _ in 0..scans {
        watch.advance();
        let (begin, before) = (Instant::now(), cpu());
        if let Err(error) = watch.scan_now(&mut ()) {
            eprintln!("scans: {error}");
            std::process::exit(1);
        }
        let (took, cpu) = (begin.elapsed(), cpu() - before);
        let read = watch.members().len();
        println!(
            "{:.2} ms, {:.2} ms of processors, {read} processes",
            took.as_secs_f64() * 1e3,
            cpu.as_secs_f64() * 1e3
        );
        std::thread::sleep(interval.saturating_sub(took));
    }
}
