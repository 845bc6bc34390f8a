//! `pagetide._native`: commands as calls, for the Python package in `python/pagetide`, which has all that a user sees.
//!
//! Invariant: no work is done here and none while the interpreter's lock is held: a call runs on a thread of its own, and
//! Python waits for it in slices, between which it handles its signals.
#![forbid(unsafe_code)]

use pyo3::prelude::*;

mod call;
mod shared;

/// The module.
#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<call::Call>()
}
