//! Independent tasks on as many threads as there are CPUs.
//!
//! Invariant: the results come in the order of the tasks, and a task knows nothing of the others, so
//! that one thread gives the same.

use crate::stats::number;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// The results of `work` on each of `tasks`; `progress` is told the part that is done, 0 to 1.
///
/// # Panics
/// When `work` does.
pub fn map<T: Sync, R: Send>(
    tasks: &[T],
    work: impl Fn(&T) -> R + Sync,
    progress: &mut dyn FnMut(f64),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<Option<R>> = tasks.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads.min(tasks.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { break };
                    if sender.send((at, work(task))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (done, (at, result)) in (1..).zip(receiver) {
            results[at] = Some(result);
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
}
