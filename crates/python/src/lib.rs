//! `pagetide._native`: runs pagetide's commands for the Python package in `python/pagetide`. That
//! package defines all that users see.
//!
//! Invariant: no command runs on Python's thread or with the interpreter's lock. Each call has a
//! thread of its own. Python waits for that thread for a short time, handles signals, and waits
//! again.
#![forbid(unsafe_code)]

use pyo3::prelude::*;

mod shared;

mod call;

/// The Python module.
#[pymodule]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<call::Call>()
}
