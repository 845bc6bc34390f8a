//! A command at work on a thread of its own.
//!
//! Invariant: who waits for it holds no lock of the interpreter. A call that is dropped or stopped ends by itself, when its
//! work next looks.

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

/// No wait is longer, in seconds: what is longer than a day is forever, which a clock may not have.
const LONGEST: f64 = 86_400.0;

/// `report`, `mrc` or `sim` with these words, begun.
#[pyclass(frozen)]
pub(crate) struct Call {
    shared: Arc<Shared>,
    stop: Arc<AtomicBool>,
}

/// Output, what is being done, how much of it is done, and how it ended.
type Told<'py> = (
    Bound<'py, PyBytes>,
    Option<String>,
    Option<f64>,
    Option<End>,
);

#[pymethods]
impl Call {
    #[new]
    fn new(words: Vec<OsString>) -> PyResult<Call> {
        let (shared, stop) = (Arc::<Shared>::default(), Arc::<AtomicBool>::default());
        let (told, stopped) = (Arc::clone(&shared), Arc::clone(&stop));
        let begun = thread::Builder::new()
            .name("pagetide".to_owned())
            .spawn(move || {
                let end = catch_unwind(AssertUnwindSafe(|| perform(&words, &stopped, &told)));
                told.end(end.unwrap_or_else(|_| unwound(&stopped)));
            });
        match begun {
            Ok(_) => Ok(Call { shared, stop }),
            Err(error) => Err(PyRuntimeError::new_err(format!(
                "cannot start a thread: {error}; raise the limit of processes (ulimit -u)"
            ))),
        }
    }

    /// Waits for output or the end, `seconds` at most.
    fn wait<'py>(&self, py: Python<'py>, seconds: f64) -> Told<'py> {
        // What is no number is no time.
        let seconds = if seconds.is_nan() { 0.0 } else { seconds };
        let time = Duration::from_secs_f64(seconds.clamp(0.0, LONGEST));
        let news = py.detach(|| self.shared.wait(time));
        let (what, share) = news.progress.unzip();
        let output = PyBytes::new(py, &news.output);
        (output, what, share.flatten(), news.end)
    }

    /// Ends a report with what was seen until now; of the others no result is wanted any more.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.stop();
    }
}

fn perform(words: &[OsString], stop: &Arc<AtomicBool>, shared: &Shared) -> End {
    let told = &mut |what: &str, share| shared.progress(what, share);
    match cli::call::call(words, stop, told, Output { shared, stop }) {
        Ok(()) => (0, String::new(), String::new()),
        Err(failure) => (
            failure.exit(),
            failure.what().to_owned(),
            failure.hint().to_owned(),
        ),
    }
}

/// Of a call that did not come back.
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
