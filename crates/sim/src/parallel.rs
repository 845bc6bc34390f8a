//! Runs independent tasks on as many threads as there are CPUs.
//!
//! Invariant: the results are in the order of the tasks, and no task depends on another, so the
//! number of threads does not change the results. If no thread can be started, the calling thread
//! does the work.

use crate::stats::number;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Returns the results of `work` on each of `tasks`. `progress` gets the completed share, 0 to 1.
///
/// # Panics
/// If `work` panics.
pub fn map<T: Sync, R: Send>(
    tasks: &[T],
    work: impl Fn(&T) -> R + Sync,
    progress: &mut dyn FnMut(f64),
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    map_on(threads, tasks, work, progress)
}

/// Runs [`map`] on this number of threads; with 0, on the calling thread.
fn map_on<T: Sync, R: Send>(
    threads: usize,
    tasks: &[T],
    work: impl Fn(&T) -> R + Sync,
    progress: &mut dyn FnMut(f64),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let mut results: Vec<Option<R>> = tasks.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut begun = 0;
        for _ in 0..threads.min(tasks.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(index) else { break };
                    if sender.send((index, work(task))).is_err() {
                        break;
                    }
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
            for (done, (task, result)) in (1..).zip(tasks.iter().zip(&mut results)) {
                *result = Some(work(task));
                progress(number(done) / number(tasks.len() as u64));
            }
        }
        for (done, (index, result)) in (1..).zip(receiver) {
            results[index] = Some(result);
            progress(number(done) / number(tasks.len() as u64));
        }
    });
    results
        .into_iter()
        .map(|result| result.expect("every task was done"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_in_the_order_of_tasks() {
        let tasks: Vec<u64> = (0..100).collect();
        let mut last = 0.0;
        let squares = map(&tasks, |n| n * n, &mut |done| {
            assert!(done > last);
            last = done;
        });
        assert_eq!(squares, tasks.iter().map(|n| n * n).collect::<Vec<_>>());
        assert!((last - 1.0).abs() < 1e-9);
        assert!(map(&[], |n: &u64| *n, &mut |_| {}).is_empty());
    }
    /// Regression: if no thread could be started (ulimit -u), a simulation panicked, or waited for
    /// ever.
    #[test]
    fn without_threads_the_caller_does_the_work() {
        let (tasks, mut parts): (Vec<u64>, Vec<f64>) = ((0..4).collect(), Vec::new());
        let doubled = map_on(0, &tasks, |n| n * 2, &mut |done| parts.push(done));
        assert_eq!(doubled, [0, 2, 4, 6]);
        assert_eq!(parts, [0.25, 0.5, 0.75, 1.0]);
    }
}
