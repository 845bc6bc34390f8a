//! Tests the policy `fit`: is the limit that the policy sets the memory that the program needs?
//!
//! The needed memory is computed independently of the policy: the LRU stack (Mattson) of all
//! accesses in the last hour shows the number of refaults for every size. A program whose loop
//! halves and doubles needs the larger loop.

use super::super::Settings;
use super::programs::{self, Course, Kind, Named, Program, SPECTRUM, STORE};
use super::world::World;
use crate::mrc::Stack;
use crate::outcome::{By, Cell, Claim, Kind as Drawn, Outcome, Picture, Series, Table};
use crate::stats::{mean, number};
use engine::policy::{self, FitSettings};

/// Time between two scans, seconds.
const SCAN: u64 = 10;
/// Number of minutes before the figures count, then number of minutes that count.
const BEFORE: u64 = 75;
const MINUTES: u64 = 60;
/// Allowed difference between the limit and the needed memory, percent.
const WITHIN: f64 = 10.0;

const PROGRAMS: [Named; 4] = [
    SPECTRUM,
    (
        "cliff: four in ten in a loop of 60 s, ten of the others a second",
        Kind::Loop {
            part: 0.4,
            seconds: 60.0,
            others: 10.0,
        },
        Course::Steady,
    ),
    STORE,
    (
        "loop that doubles and halves each 15 min",
        Kind::Loop {
            part: 0.8,
            seconds: 60.0,
            others: 0.0,
        },
        Course::Doubles {
            seconds: 900,
            frees: true,
        },
    ),
];
/// Values of the policy's percentile that are tried; the claims are about the last one.
const PERCENTILES: [u64; 2] = [50, 98];
const SEEDS: u64 = 2;

#[derive(Clone, Copy, Debug)]
struct Task {
    program: usize,
    percentile: u64,
    seed: u64,
}

/// The result of one run, as means over the last hour. Sizes are in percent of the loaded memory;
/// `rate` is the refaulted pages per minute in percent of the limit.
#[derive(Clone, Copy, Debug)]
struct Run {
    limit: f64,
    resident: f64,
    rate: f64,
    needed: f64,
}

fn run_one(task: Task, scale: u64) -> Run {
    let (_, kind, course) = PROGRAMS[task.program];
    let pages = programs::pages(scale);
    let policy = FitSettings {
        percentile: task.percentile * 10_000,
        ..FitSettings::default()
    };
    let program = Program::new(kind, course, pages, task.seed);
    let mut world = World::new(program.clone(), policy::PolicySettings::Fit(policy), 0);
    let (mut limits, mut residents, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for minute in 0..BEFORE + MINUTES {
        let before = world.refaults;
        for _ in 0..60 / SCAN {
            world.step(SCAN);
        }
        if minute >= BEFORE {
            let limit = world.policy_runner.policy().limit().unwrap_or_default();
            limits.push(number(limit.pages().0) / number(pages.into()) * 100.0);
            residents.push(number(world.resident()) / number(pages.into()) * 100.0);
            rates.push(number(world.refaults - before) * 100.0 / number(limit.pages().0));
        }
    }
    world.check();
    let needed = needed(program, policy.rate.0);
    Run {
        limit: mean(&limits),
        resident: mean(&residents),
        rate: mean(&rates),
        needed: number(needed) / number(pages.into()) * 100.0,
    }
}

/// Returns the smallest memory, in pages, in which LRU replacement keeps refaults below `rate`
/// (parts per million of that memory, per minute). It is computed from all accesses in the hour
/// that counts.
fn needed(mut program: Program, rate: u64) -> u64 {
    let mut stack = Stack::default();
    program.loads().for_each(|page| {
        stack.access(page);
    });
    let mut misses = vec![0u64; program.pages() as usize + 2];
    for minute in 0..BEFORE + MINUTES {
        for step in 0..60 / SCAN {
            let second = minute * 60 + step * SCAN;
            program.uses(second, number(SCAN), &mut |page| {
                if let Some(distance) = stack.access(page)
                    && minute >= BEFORE
                {
                    misses[distance as usize] += 1;
                }
            });
        }
    }
    // In a memory of n pages, each access with a stack distance above n is a refault.
    let (mut deeper, mut size) = (0, misses.len() as u64 - 1);
    while size > 0 {
        deeper += misses[usize::try_from(size).unwrap_or(0)];
        if deeper * 1_000_000 > (size - 1) * rate * MINUTES {
            break;
        }
        size -= 1;
    }
    size
}

/// Runs the experiment.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let mut tasks = Vec::new();
    for program in 0..PROGRAMS.len() {
        for percentile in PERCENTILES {
            tasks.extend((0..SEEDS).map(|n| Task {
                program,
                percentile,
                seed: settings.seed + n,
            }));
        }
    }
    let runs = crate::parallel::map(&tasks, |task| run_one(*task, settings.scale), progress);
    let mut table = Table::new(
        "An hour, in % of all that is loaded",
        &[
            "program",
            "percentile (%)",
            "seed",
            "limit",
            "resident",
            "needed",
            "limit by need (%)",
            "came back (% of the limit a minute)",
        ],
    );
    let mut claims = Vec::new();
    for (task, run) in tasks.iter().zip(&runs) {
        let name = PROGRAMS[task.program].0;
        let share = run.limit / run.needed * 100.0;
        table.row(vec![
            Cell::Text(name.to_owned()),
            Cell::Count(task.percentile),
            Cell::Count(task.seed),
            Cell::Figure(run.limit),
            Cell::Figure(run.resident),
            Cell::Figure(run.needed),
            Cell::Figure(share),
            Cell::Figure(run.rate),
        ]);
        if task.percentile != PERCENTILES[1] {
            continue;
        }
        let of = format!("{name}, seed {}", task.seed);
        claims.push(Claim::ours(
            format!("{of}: the limit is within {WITHIN}% of what is needed (%)"),
            share,
            (share - 100.0).abs() <= WITHIN,
        ));
        claims.push(Claim::ours(
            format!("{of}: no more than 1% of it comes back a minute"),
            run.rate,
            run.rate <= 1.0,
        ));
    }
    Outcome {
        tables: vec![table],
        claims,
        pictures: vec![picture(&tasks, &runs)],
        ..Outcome::default()
    }
}

fn picture(tasks: &[Task], runs: &[Run]) -> Picture {
    let claimed = || {
        let first = tasks.first().map_or(0, |task| task.seed);
        let all = tasks.iter().zip(runs);
        all.filter(move |(task, _)| task.percentile == PERCENTILES[1] && task.seed == first)
    };
    let of = |figure: fn(&Run) -> f64| claimed().map(move |(_, run)| Some(figure(run)));
    let names = PROGRAMS.iter().map(|(name, _, _)| (*name).to_owned());
    Picture::new(
        "Is the limit what the program needs?",
        Drawn::Bars(names.collect()),
        ["program", "% of what is loaded"],
        vec![
            Series::bars("limit", of(|run| run.limit)),
            Series::bars("needed", of(|run| run.needed)).by(By::Rule),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_needed_size() {
        let settings = Settings { seed: 1, scale: 32 };
        let outcome = run(&settings, &mut |_| {});
        assert_eq!(outcome.claims.len(), PROGRAMS.len() * 4);
        for claim in outcome.claims {
            assert!(claim.holds, "{claim:?}");
        }
    }
}
