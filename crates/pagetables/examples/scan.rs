//! Measures how long it takes to read, decode and clear the accessed bits of a running process, per
//! GiB of its memory: `scan PID [ROUNDS] [clear | PROBE]`. Prints medians over ROUNDS iterations.
//! PROBE is another program to compare with. Each iteration runs it once as `PROBE -p PID`; it must
//! print a line that begins with `total` and ends with `N us`, its time in microseconds.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

use pagetables::{Pace, Part, Piece, Reader};

fn ranges(pid: u32) -> Vec<Range<u64>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process");
    let range = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
    };
    text.lines()
        .filter(|line| !line.contains("[v"))
        .filter_map(range)
        .collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Runs the probe once; returns the time that it reports, in microseconds.
fn probe_us(probe: &str, pid: u32) -> f64 {
    let output = Command::new(probe)
        .args(["-p", &pid.to_string()])
        .output()
        .expect("the probe runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let total = text.lines().find(|line| line.starts_with("total"));
    let us = total.and_then(|line| line.split_whitespace().rev().nth(1));
    us.and_then(|us| us.parse().ok())
        .expect("a line of totals that ends with: N us")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let pid: u32 = args[0].parse().expect("a pid");
    let rounds = args
        .get(1)
        .map_or(20, |text| text.parse().expect("a number"));
    let clear = args.get(2).is_some_and(|word| word == "clear");
    let probe = args.get(2).filter(|_| !clear);
    let mut probed = vec![];
    let mut reader = Reader::open().expect("page tables can be read");
    let (mut bare, mut decoded, mut cleared, mut cpu) = (vec![], vec![], vec![], vec![]);
    let (mut present, mut accessed) = (0u64, 0u64);
    let mut pace = Pace::default();
    for _ in 0..rounds {
        let ranges = ranges(pid);
        let begin = Instant::now();
        let space = reader.attach(pid).expect("alive");
        let runs = reader.runs();
        reader
            .walk(&space, &ranges, &mut |_, _| ())
            .expect("readable");
        bare.push(begin.elapsed().as_secs_f64() * 1e6);
        (present, accessed) = (0, 0);
        let begin = Instant::now();
        reader
            .walk(&space, &ranges, &mut |_, piece| match piece {
                Piece::Pages { entries, .. } => {
                    for entry in entries.iter().filter(|entry| entry.is_present()) {
                        present += 1;
                        accessed += u64::from(entry.is_accessed());
                    }
                }
                Piece::Whole(whole) if whole.entry.is_present() => {
                    present += whole.bytes / 4096;
                    accessed += whole.bytes / 4096 * u64::from(whole.entry.is_accessed());
                }
                _ => {}
            })
            .expect("readable");
        decoded.push(begin.elapsed().as_secs_f64() * 1e6);
        cpu.push((reader.runs() - runs) as f64);
        probed.extend(probe.map(|probe| probe_us(probe, pid)));
        if clear {
            let begin = Instant::now();
            for part in [Part::Anon, Part::File] {
                let _ = pace.clear(pid, part, present, Duration::from_secs(10));
            }
            cleared.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    let times = [bare, decoded, probed, cleared];
    print_medians(present, accessed, times);
    println!(
        "{} levels, {:.0} runs for two scans",
        reader.levels(),
        median(cpu)
    );
}

/// Prints the numbers of pages, then the median of each kind of time (in `times`, microseconds for
/// the whole process) per GiB of present memory.
fn print_medians(present: u64, accessed: u64, times: [Vec<f64>; 4]) {
    let gib = present as f64 / 262_144.0;
    println!("{present} pages present, {accessed} accessed at the last scan");
    let names = ["read", "read and decoded", "the probe, decoded", "cleared"];
    for (name, times) in names.into_iter().zip(times) {
        if !times.is_empty() {
            println!("a GiB: {name} {:.0} us", median(times) / gib);
        }
    }
}
