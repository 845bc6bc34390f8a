//! Tests the policy `pressure`: does the limit become stable, and do tasks wait for refaults as
//! long as allowed, whatever a refault costs?
//!
//! The resident memory is *stable* from the time on when it stays within 5% of its mean over the
//! last hour. A *swing* is how far it rose in the last hour above an earlier minimum. If the limit
//! oscillates, there is a swing; if it only falls, there is none.

use super::super::Settings;
use super::programs::{self, Course, Kind, Named, Program, SPECTRUM, STORE};
use super::world::World;
use crate::outcome::{Cell, Claim, Kind as Drawn, Outcome, Picture, Series, Table};
use crate::stats::{least, mean, most, number};
use engine::Bytes;
use engine::policy::{self, PressureSettings};

/// Time between two decisions of the policy, seconds.
const PERIOD: u64 = 6;
/// Number of periods before the figures count, then number of periods that count: an hour each.
const BEFORE: u64 = 600;
const PERIODS: u64 = 600;
/// Allowed mean time per period for which tasks wait for refaults, milliseconds.
const MAY_WAIT: f64 = 10.0;
/// Allowed swing, percent of the resident memory.
const SWING: f64 = 5.0;
/// Time by which the limit must be stable, minutes: the first hour.
const CONVERGED_BY: f64 = 60.0;
/// Maximum share of the loaded memory that may stay resident, percent. Each program hardly uses a
/// third of its memory; without a policy all of it would stay resident.
const STAYS: f64 = 90.0;
const SEEDS: u64 = 2;
/// Costs of a refault that are tried, microseconds: those of zram, a good disk and a slow disk.
const COSTS: [u64; 3] = [20, 100, 1000];

const PROGRAMS: [Named; 3] = [
    SPECTRUM,
    (
        "cliff: four in ten in a loop of 60 s, the rest never",
        Kind::Loop {
            part: 0.4,
            seconds: 60.0,
            others: 0.0,
        },
        Course::Steady,
    ),
    STORE,
];

#[derive(Clone, Copy, Debug)]
struct Task {
    program: usize,
    cost: u64,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Period {
    resident: f64,
    limit: f64,
    waited: f64,
}

fn run_one(task: Task, scale: u64) -> Vec<Period> {
    let (_, kind, course) = PROGRAMS[task.program];
    let pages = programs::pages(scale);
    let policy = PressureSettings {
        floor: Bytes(0),
        ..PressureSettings::default()
    };
    let program = Program::new(kind, course, pages, task.seed);
    let mut world = World::new(program, policy::PolicySettings::Pressure(policy), task.cost);
    let mut periods = Vec::new();
    for _ in 0..BEFORE + PERIODS {
        let before = world.policy_runner.stalled_us();
        world.step(PERIOD);
        let limit = world.policy_runner.policy().limit().unwrap_or_default();
        periods.push(Period {
            resident: number(world.resident()) / number(pages.into()) * 100.0,
            limit: number(limit.pages().0) / number(pages.into()) * 100.0,
            waited: number(world.policy_runner.stalled_us() - before) / 1000.0,
        });
    }
    world.check();
    periods
}

/// The result of one run. Its fields are figures of the last hour, in the units of the table in
/// [`run`].
#[derive(Clone, Copy, Debug)]
struct Summary {
    rest_minutes: f64,
    resident: f64,
    swing: f64,
    limit: [f64; 2],
    waited: f64,
    worst: f64,
}

fn summary_of(run: &[Period]) -> Summary {
    let last = &run[run.len() - usize::try_from(PERIODS).unwrap_or(0)..];
    let of = |figure: fn(&Period) -> f64| last.iter().map(figure).collect::<Vec<f64>>();
    let (resident, limit, waited) = (
        of(|period| period.resident),
        of(|period| period.limit),
        of(|period| period.waited),
    );
    let at = mean(&resident);
    let is_away = |period: &Period| (period.resident / at - 1.0).abs() > 0.05;
    let moving = run.iter().rposition(is_away).map_or(0, |last| last + 1);
    let mut lowest = f64::MAX;
    let rises = resident.iter().map(|now| {
        lowest = lowest.min(*now);
        now - lowest
    });
    Summary {
        rest_minutes: number(moving as u64 * PERIOD) / 60.0,
        resident: at,
        swing: most(&rises.collect::<Vec<f64>>()) / at * 100.0,
        limit: [least(&limit), most(&limit)],
        waited: mean(&waited),
        worst: most(&waited),
    }
}

/// Returns the claims about one run.
fn claims_of(of: &str, summary: &Summary) -> [Claim; 4] {
    let at_most = |what: &str, figure: f64, most: f64| {
        Claim::ours(
            format!("{of}: {what}, at most {most}"),
            figure,
            figure <= most,
        )
    };
    let waits = "tasks wait as long as they may on average (ms a period)";
    [
        at_most("swing (%)", summary.swing, SWING),
        at_most("at rest after (min)", summary.rest_minutes, CONVERGED_BY),
        at_most("resident (% of all)", summary.resident, STAYS),
        at_most(waits, summary.waited, MAY_WAIT),
    ]
}

/// Runs the experiment.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(f64)) -> Outcome {
    let mut tasks = Vec::new();
    for program in 0..PROGRAMS.len() {
        for cost in COSTS {
            tasks.extend((0..SEEDS).map(|n| Task {
                program,
                cost,
                seed: settings.seed + n,
            }));
        }
    }
    let runs = crate::parallel::map(&tasks, |task| run_one(*task, settings.scale), progress);
    let mut table = Table::new(
        "The second hour of two: resident memory and the limit in % of all that is loaded",
        &[
            "program",
            "a page costs (us)",
            "seed",
            "at rest after (min)",
            "resident",
            "swing (% of it)",
            "limit, lowest",
            "highest",
            "waited (ms a period)",
            "worst period (ms)",
        ],
    );
    let mut claims = Vec::new();
    for (task, run) in tasks.iter().zip(&runs) {
        let (name, summary) = (PROGRAMS[task.program].0, summary_of(run));
        table.row(vec![
            Cell::Text(name.to_owned()),
            Cell::Count(task.cost),
            Cell::Count(task.seed),
            Cell::Figure(summary.rest_minutes),
            Cell::Figure(summary.resident),
            Cell::Figure(summary.swing),
            Cell::Figure(summary.limit[0]),
            Cell::Figure(summary.limit[1]),
            Cell::Figure(summary.waited),
            Cell::Figure(summary.worst),
        ]);
        let of = format!("{name}, {} us, seed {}", task.cost, task.seed);
        claims.extend(claims_of(&of, &summary));
    }
    Outcome {
        tables: vec![table],
        claims,
        pictures: vec![picture(&tasks, &runs)],
        notes: vec![NOTE.to_owned()],
        ..Outcome::default()
    }
}

const NOTE: &str = "Below a cliff one step costs many times what tasks may wait, and the limit is raised by up to all of what is used; from \
    there it comes down for some minutes before it bites again. What is resident does not follow it up: the program has what it uses. The \
    dearer a page, the nearer to the cliff it stays.";

/// Returns a picture of the resident memory over time, for the first seed.
fn picture(tasks: &[Task], runs: &[Vec<Period>]) -> Picture {
    let mut series = Vec::new();
    let first = tasks.first().map_or(0, |task| task.seed);
    for (task, run) in tasks
        .iter()
        .zip(runs)
        .filter(|(task, _)| task.seed == first)
    {
        let minutes = (1u64..).map(|n| number(n * PERIOD) / 60.0);
        let points = minutes
            .zip(run.iter().map(|period| period.resident))
            .step_by(5);
        let name = PROGRAMS[task.program]
            .0
            .split(':')
            .next()
            .unwrap_or_default();
        series.push(Series::new(format!("{name}, {} us", task.cost), points));
    }
    Picture::new(
        "Does it come to rest?",
        Drawn::Curve,
        ["time (min)", "resident (% of what is loaded)"],
        series,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_comes_to_rest_where_tasks_wait_as_long_as_they_may() {
        // In a smaller program the allowed waiting time would be that of very few refaults, so each
        // step of the limit would be some percent of the program.
        let settings = Settings { seed: 1, scale: 8 };
        let outcome = run(&settings, &mut |_| {});
        assert_eq!(outcome.claims.len(), PROGRAMS.len() * COSTS.len() * 8);
        for claim in outcome.claims {
            assert!(claim.holds, "{claim:?}");
        }
    }

    /// If the resident memory rises and falls by a fifth, it has a swing and is never stable; if it
    /// only falls, it has no swing.
    #[test]
    fn a_swing_is_distinguished_from_a_fall() {
        let of = |resident: fn(usize) -> f64| {
            let periods = (0..1200).map(|n| Period {
                resident: resident(n),
                limit: 50.0,
                waited: 1.0,
            });
            summary_of(&periods.collect::<Vec<Period>>())
        };
        assert!(of(|n| 100.0 - n as f64 / 100.0).swing < 1e-9);
        let saw = of(|n| 50.0 + (n % 20) as f64 / 2.0);
        assert!(saw.swing > 17.0 && saw.rest_minutes > 110.0, "{saw:?}");
    }
}
