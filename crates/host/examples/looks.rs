//! How long looks at a process and its descendants take by the clock: `looks PID [LOOKS [APART_MS]]`. One line a look: milliseconds,
//! the processor time of all our threads in it, and how many were read.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use host::system::family::Target;
use host::watch::{Settings, Watch};

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let Some(pid) = numbers.first().and_then(|pid| u32::try_from(*pid).ok()) else {
        eprintln!("usage: looks PID [LOOKS [APART_MS]]");
        std::process::exit(2);
    };
    let looks = numbers.get(1).copied().unwrap_or(10);
    let apart = Duration::from_millis(numbers.get(2).copied().unwrap_or(1000));
    let watch = Watch::open(Settings {
        target: Target::Descendants(pid),
        interval: apart,
        max_wait: None,
        source: None,
        own_process: true,
    });
    let mut watch = watch.unwrap_or_else(|error| {
        eprintln!("looks: {error}");
        std::process::exit(1);
    });
    let cpu = || pagetables::cpu_time(std::process::id()).unwrap_or_default();
    for _ in 0..looks {
        watch.advance();
        let (begin, before) = (Instant::now(), cpu());
        if let Err(error) = watch.look_now(&mut ()) {
            eprintln!("looks: {error}");
            std::process::exit(1);
        }
        let (took, cpu) = (begin.elapsed(), cpu() - before);
        let read = watch.members().len();
        println!(
            "{:.2} ms, {:.2} ms of processors, {read} processes",
            took.as_secs_f64() * 1e3,
            cpu.as_secs_f64() * 1e3
        );
        std::thread::sleep(apart.saturating_sub(took));
    }
}
