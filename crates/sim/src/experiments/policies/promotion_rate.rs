//! Tests the policy `promotion-rate`: does the rate of refaults stay at the configured share of the
//! pages in use, whatever the program does?
//!
//! The rate of a minute is the number of refaulted pages divided by the number of pages used in the
//! last two minutes; both are counted outside the policy. The policy has two rules, and both are
//! tested. With a percentile, each minute is compared with the configured share, and only few
//! minutes may be above it. With percentile 0, the average over the whole history must stay at the
//! share.

use super::super::Settings;
use super::programs::{self, Course, Named, Program, SPECTRUM, STORE};
use super::world::World;
use crate::outcome::{By, Cell, Claim, Kind as Drawn, Outcome, Picture, Series, Table};
use crate::stats::{least, mean, most, number};
use engine::Millis;
use engine::policy::{self, PromotionRateSettings};

/// Time between two scans, seconds.
const SCAN: u64 = 10;
/// Number of minutes before the figures count: the warm-up, and one history.
const BEFORE: u64 = 75;
/// Number of minutes from which the figures are taken.
const MINUTES: u64 = 60;
/// The configured rate: refaults per minute, in percent of the pages in use.
const RATE: f64 = 0.2;
/// Allowed difference from the configured rate, as a share of it.
const WITHIN: f64 = 0.2;

const fn doubles(frees: bool) -> Course {
    Course::Doubles {
        seconds: 900,
        frees,
    }
}

const PROGRAMS: [Named; 4] = [
    SPECTRUM,
    STORE,
    (
        "spectrum that doubles and halves each 15 min, giving back",
        SPECTRUM.1,
        doubles(true),
    ),
    (
        "spectrum that doubles and halves each 15 min, lying idle",
        SPECTRUM.1,
        doubles(false),
    ),
];

/// Percentiles that are tried; 0 means none.
const PERCENTILES: [u64; 3] = [0, 50, 98];
/// Lengths of the policy's history that are tried, minutes. (Tests run only [`CLAIMED`], which
/// takes half of the time.)
const HISTORIES: &[u64] = if cfg!(test) {
    &[CLAIMED]
} else {
    &[15, CLAIMED]
};
const SEEDS: u64 = 2;
/// Length of the history that the claims are about, minutes.
const CLAIMED: u64 = 60;
/// Allowed share of minutes above the rate with percentile 98, percent.
const ABOVE_RATE_MAX: f64 = 5.0;
/// Lengths of the policy's warm-up that are tried, minutes.
const WARM_UPS: [u64; 4] = [0, 2, 10, 30];

#[derive(Clone, Copy, Debug)]
struct Task {
    program: usize,
    percentile: u64,
    history: u64,
    warm_up: u64,
    /// Minutes before the figures count, and number of minutes from which they are taken.
    reported: (u64, u64),
    seed: u64,
}

/// The figures of one minute of one run. `rate` is in percent of the pages in use, `threshold` in
/// seconds; the others are in percent of all pages.
#[derive(Clone, Copy, Debug)]
struct Minute {
    rate: f64,
    threshold: f64,
    resident: f64,
    in_use: f64,
}

fn run_one(task: Task, scale: u64) -> Vec<Minute> {
    let (_, kind, course) = PROGRAMS[task.program];
    let pages = programs::pages(scale);
    let policy = PromotionRateSettings {
        percentile: task.percentile * 10_000,
        history: Millis(task.history * 60_000),
        warm_up: Millis(task.warm_up * 60_000),
        ..PromotionRateSettings::default()
    };
    let program = Program::new(kind, course, pages, task.seed);
    let mut world = World::new(program, policy::PolicySettings::PromotionRate(policy), 0);
    let mut minutes = Vec::new();
    let (first, count) = task.reported;
    for minute in 0..first + count {
        let before = world.refaults;
        for _ in 0..60 / SCAN {
            world.step(SCAN);
        }
        if minute < first {
            continue;
        }
        let threshold = world.policy_runner.policy().threshold().unwrap_or_default();
        minutes.push(Minute {
            rate: number(world.refaults - before) * 100.0 / number(world.in_use()),
            threshold: number(threshold.0) / 1000.0,
            resident: number(world.resident()) / number(pages.into()) * 100.0,
            in_use: number(world.in_use()) / number(pages.into()) * 100.0,
        });
    }
    world.check();
    minutes
}

/// Runs the experiment.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let steady = tasks(settings.seed);
    let begun = beginnings(settings.seed);
    let all: Vec<Task> = steady.iter().chain(&begun).copied().collect();
    let mut runs = crate::parallel::map(&all, |task| run_one(*task, settings.scale), progress);
    let beginnings = runs.split_off(steady.len());
    let seeds = usize::try_from(SEEDS).unwrap_or(1);
    let groups: Vec<Group<'_>> = steady
        .chunks(seeds)
        .zip(runs.chunks(seeds))
        .filter_map(|(tasks, runs)| Some((*tasks.first()?, runs)))
        .collect();
    let mut outcome = Outcome {
        tables: vec![table(&groups), warm_ups(&begun, &beginnings)],
        claims: claims(&groups),
        pictures: vec![picture(&groups)],
        ..Outcome::default()
    };
    outcome.notes = NOTES.iter().map(|&note| note.to_owned()).collect();
    outcome
}

/// A task, with the runs of all its seeds.
type Group<'a> = (Task, &'a [Vec<Minute>]);

const NOTES: [&str; 2] = [
    "A working set that halves and lies idle comes back at once when it doubles: no rule foresees that the first time. What was seen \
     within the history is known; a percentile keeps such pages, the average lets a part of them go and pays for it once a cycle.",
    "A percentile of minutes that differ by chance is above their mean, so on average less comes back than may: the less, the smaller \
     the program is.",
];

fn tasks(seed: u64) -> Vec<Task> {
    let mut tasks = Vec::new();
    for program in 0..PROGRAMS.len() {
        for &history in HISTORIES {
            for percentile in PERCENTILES {
                tasks.extend((0..SEEDS).map(|n| Task {
                    program,
                    percentile,
                    history,
                    warm_up: 10,
                    reported: (BEFORE, MINUTES),
                    seed: seed + n,
                }));
            }
        }
    }
    tasks
}

/// Returns the tasks whose figures are of the first hour, one task for each warm-up.
fn beginnings(seed: u64) -> Vec<Task> {
    let of = |program| {
        WARM_UPS.map(|warm_up| Task {
            program,
            percentile: 98,
            history: CLAIMED,
            warm_up,
            reported: (0, MINUTES),
            seed,
        })
    };
    [0, 1].map(of).into_iter().flatten().collect()
}

fn mean_of(runs: &[Vec<Minute>], figure: impl Fn(&Minute) -> f64) -> f64 {
    let all: Vec<f64> = runs.iter().flatten().map(figure).collect();
    mean(&all)
}

/// Returns the mean rate of each seed.
fn rates(runs: &[Vec<Minute>]) -> Vec<f64> {
    let of = |run: &Vec<Minute>| mean_of(std::slice::from_ref(run), |minute| minute.rate);
    runs.iter().map(of).collect()
}

/// Returns the share of minutes that exceed the rate by more than the tolerance, percent.
fn share_above_rate(runs: &[Vec<Minute>]) -> f64 {
    let is_above = |minute: &Minute| minute.rate > RATE * (1.0 + WITHIN);
    mean_of(runs, |minute| if is_above(minute) { 100.0 } else { 0.0 })
}

fn table(groups: &[Group<'_>]) -> Table {
    let mut table = Table::new(
        "What came back in an hour, of what was in use (% a minute)",
        &[
            "program",
            "history (min)",
            "percentile (%)",
            "mean",
            "mean of a seed, lowest",
            "highest",
            "minutes above 0.24 (%)",
            "threshold (s)",
            "resident (%)",
            "in use (%)",
        ],
    );
    for (task, runs) in groups {
        let rates = rates(runs);
        table.row(vec![
            Cell::Text(PROGRAMS[task.program].0.to_owned()),
            Cell::Count(task.history),
            Cell::Count(task.percentile),
            Cell::Figure(mean(&rates)),
            Cell::Figure(least(&rates)),
            Cell::Figure(most(&rates)),
            Cell::Figure(share_above_rate(runs)),
            Cell::Figure(mean_of(runs, |minute| minute.threshold)),
            Cell::Figure(mean_of(runs, |minute| minute.resident)),
            Cell::Figure(mean_of(runs, |minute| minute.in_use)),
        ]);
    }
    table
}

fn warm_ups(tasks: &[Task], runs: &[Vec<Minute>]) -> Table {
    let mut table = Table::new(
        "The first hour, with a percentile of 98, by warm-up (% a minute)",
        &[
            "program",
            "warm-up (min)",
            "mean",
            "worst minute",
            "resident (%)",
        ],
    );
    for (task, run) in tasks.iter().zip(runs) {
        let rates: Vec<f64> = run.iter().map(|minute| minute.rate).collect();
        table.row(vec![
            Cell::Text(PROGRAMS[task.program].0.to_owned()),
            Cell::Count(task.warm_up),
            Cell::Figure(mean(&rates)),
            Cell::Figure(most(&rates)),
            Cell::Figure(mean_of(std::slice::from_ref(run), |minute| minute.resident)),
        ]);
    }
    table
}

fn claims(groups: &[Group<'_>]) -> Vec<Claim> {
    let claimed = groups.iter().filter(|(task, _)| task.history == CLAIMED);
    let mut claims = Vec::new();
    for (task, runs) in claimed {
        let (name, rates) = (PROGRAMS[task.program].0, rates(runs));
        match task.percentile {
            0 => {
                let near = |rate: &f64| (rate / RATE - 1.0).abs() <= WITHIN;
                claims.push(Claim::ours(
                    format!("{name}: on average, 0.16 to 0.24% a minute with each seed"),
                    mean(&rates),
                    rates.iter().all(near),
                ));
            }
            98 => {
                claims.push(Claim::ours(
                    format!("{name}: percentile 98, no more than 0.24% a minute on average"),
                    most(&rates),
                    most(&rates) <= RATE * (1.0 + WITHIN),
                ));
                claims.push(Claim::ours(
                    format!(
                        "{name}: percentile 98, minutes with more than that (%), at most {ABOVE_RATE_MAX}"
                    ),
                    share_above_rate(runs),
                    share_above_rate(runs) <= ABOVE_RATE_MAX,
                ));
            }
            _ => {}
        }
    }
    claims
}

fn picture(groups: &[Group<'_>]) -> Picture {
    let of = |percentile: u64| {
        let own = groups
            .iter()
            .filter(move |(task, _)| task.history == CLAIMED && task.percentile == percentile);
        own.map(|(_, runs)| Some(mean(&rates(runs))))
    };
    let mut series: Vec<Series> = PERCENTILES
        .iter()
        .map(|&percentile| match percentile {
            0 => Series::bars("all minutes as one", of(0)),
            percentile => Series::bars(format!("percentile {percentile}"), of(percentile)),
        })
        .collect();
    let bound = PROGRAMS.iter().map(|_| Some(RATE));
    series.push(Series::bars("asked for", bound).by(By::Rule));
    let names = PROGRAMS.iter().map(|(name, _, _)| (*name).to_owned());
    Picture::new(
        "How much of what is in use comes back in a minute?",
        Drawn::Bars(names.collect()),
        ["program", "% of what is in use, a minute"],
        series,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_for_every_program() {
        // At a larger scale, 2,000 requests per second would leave no page of the store idle.
        let settings = Settings { seed: 1, scale: 16 };
        let outcome = run(&settings, &mut |_| {});
        assert_eq!(outcome.claims.len(), PROGRAMS.len() * 3);
        // Only about 20 of 16,000 pages may refault in a minute, so single minutes differ by
        // chance, but not their mean. So the claims about single minutes are not tested.
        let of_means = outcome
            .claims
            .iter()
            .filter(|claim| !claim.what.contains("minutes with"));
        for claim in of_means {
            assert!(claim.holds, "{claim:?}");
        }
    }
}
