//! Experiments that users write: a TOML file with tenants, their work and limits, and sweeps.
//!
//! `plan` reads a file and refuses one that is wrong; [`world`] simulates it; [`oracle`] checks the
//! simulation from outside; [`report`] makes the tables. The runs of a sweep are made in parallel.
//! Each run depends only on its plan, and the results are in the order of the file, so they are the
//! same as those of a serial run.

mod assign;
pub mod balloon;
mod error;
pub mod recorded;
pub mod space;
pub mod values;

pub mod policy;
pub mod spaces;

pub mod file;

pub mod baseline;
pub mod hierarchy;
pub mod pattern;

mod plan;

pub mod world;

pub mod oracle;
pub mod report;

pub use error::ScenarioError;
pub use plan::{Plan, Plans, TEXT_MAX, parse, parse_within};

use crate::outcome::Outcome;
use report::Course;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Runs all plans on up to `threads` threads, or on the calling thread if no other can be started.
/// `progress` gets the completed share, 0 to 1.
#[must_use]
pub fn run(plans: &Plans, threads: usize, progress: &mut dyn FnMut(f64)) -> Outcome {
    let runs = plans.runs.len();
    let mut courses: Vec<Option<Course>> = Vec::new();
    courses.resize_with(runs, || None);
    let next = AtomicUsize::new(0);
    let (sender, reported) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut begun = 0;
        for _ in 0..threads.min(runs) {
            let (sender, next) = (sender.clone(), &next);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.runs.get(n) else { break };
                    let course = Course::run(plan, runs == 1, &mut |done| {
                        // If the receiver is gone, the caller was unwound and wants no result, so
                        // this thread stops.
                        if sender.send((n, done, None)).is_err() {
                            std::panic::resume_unwind(Box::new("unwanted"));
                        }
                    });
                    let _ = sender.send((n, 1.0, Some(course)));
                }
            });
            // A limit on the number of processes (ulimit -u, or of the control group) may forbid
            // more threads.
            if thread.is_err() {
                break;
            }
            begun += 1;
        }
        drop(sender);
        if begun == 0 {
            courses = run_here(plans, progress);
        }
        let mut parts = vec![0.0; runs];
        for (n, done, course) in reported {
            parts[n] = done;
            progress(crate::stats::mean(&parts));
            if course.is_some() {
                courses[n] = course;
            }
        }
    });
    let courses: Vec<Course> = courses.into_iter().flatten().collect();
    report::outcome(plans, &courses)
}

/// Runs all plans on the calling thread.
fn run_here(plans: &Plans, progress: &mut dyn FnMut(f64)) -> Vec<Option<Course>> {
    let mut parts = vec![0.0; plans.runs.len()];
    let run = |(n, plan)| {
        let course = Course::run(plan, plans.runs.len() == 1, &mut |done| {
            parts[n] = done;
            progress(crate::stats::mean(&parts));
        });
        parts[n] = 1.0;
        progress(crate::stats::mean(&parts));
        Some(course)
    };
    plans.runs.iter().enumerate().map(run).collect()
}

#[cfg(test)]
mod tests;
