//! Runs a command of pagetide on its own thread, for a Python program.
//!
//! Invariant: a Python thread that waits for a call does not hold the interpreter's lock. If a call
//! is dropped or stopped, its command ends when it next checks the stop flag.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::shared::{End, Output, Shared};

/// Maximum time of one wait, seconds. The end of a longer wait could be too late for the clock's
/// type.
const LONGEST: f64 = 86_400.0;

/// A running call of the command `report`, `mrc` or `sim`.
#[pyclass(frozen)]
pub(crate) struct Call {
    shared: Arc<Shared>,
    /// Set when the command must stop.
    stop: Arc<AtomicBool>,
}

/// The result of [`Call::wait`]: new output; name of the current activity; completed share of that
/// activity, 0 to 1; how the call ended. The name is `None` if no activity was reported since the
/// last wait, the share is `None` if it is not known, the end is `None` while the call runs.
type Progress<'py> = (
    Bound<'py, PyBytes>,
    Option<String>,
    Option<f64>,
    Option<End>,
);

#[pymethods]
impl Call {
    /// Starts the command with the command line `words`.
    #[new]
    fn new(words: Vec<OsString>) -> PyResult<Call> {
        let (shared, stop) = (Arc::<Shared>::default(), Arc::<AtomicBool>::default());
        let (reported, stopped) = (Arc::clone(&shared), Arc::clone(&stop));
        let begun = thread::Builder::new()
            .name("pagetide".to_owned())
            .spawn(move || {
                let end = catch_unwind(AssertUnwindSafe(|| perform(&words, &stopped, &reported)));
                reported.end(end.unwrap_or_else(|_| unwound(&stopped)));
            });
        match begun {
            Ok(_) => Ok(Call { shared, stop }),
            Err(error) => Err(PyRuntimeError::new_err(format!(
                "cannot start a thread: {error}; raise the limit of processes (ulimit -u)"
            ))),
        }
    }

    /// Waits for output or for the end of the call, at most `seconds`.
    fn wait<'py>(&self, py: Python<'py>, seconds: f64) -> Progress<'py> {
        // NaN means no wait.
        let seconds = if seconds.is_nan() { 0.0 } else { seconds };
        let time = Duration::from_secs_f64(seconds.clamp(0.0, LONGEST));
        let news = py.detach(|| self.shared.wait(time));
        let (what, share) = news.progress.unzip();
        let output = PyBytes::new(py, &news.output);
        (output, what, share.flatten(), news.end)
    }

    /// Stops the call. A report ends with the figures that it has so far; `mrc` and `sim` end
    /// without a result.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs the command; returns how it ended.
fn perform(words: &[OsString], stop: &Arc<AtomicBool>, shared: &Shared) -> End {
    let reported = &mut |what: &str, share| shared.progress(what, share);
    match cli::call::call(words, stop, reported, Output { shared, stop }) {
        Ok(()) => (0, String::new(), String::new()),
        Err(failure) => (
            failure.exit(),
            failure.what().to_owned(),
            failure.hint().to_owned(),
        ),
    }
}

/// Returns the end of a call whose thread unwound: either the call was stopped, or the command
/// panicked.
fn unwound(stop: &AtomicBool) -> End {
    match stop.load(Ordering::Relaxed) {
        true => (1, "stopped".to_owned(), "call it again".to_owned()),
        false => (
            1,
            "ended without a reason: a bug of pagetide".to_owned(),
            "standard error has what happened; please report it".to_owned(),
        ),
    }
}
