//! Tests the readers with valid, broken, cut-off and hostile input.

use super::*;
use proptest::prelude::*;
use std::io::Cursor;

mod builders;
mod fuzz;
mod hostile;
mod recordings;
mod sound;

use builders::*;

/// Reads all of `bytes` as a file of this name.
fn read(name: &str, bytes: &[u8], options: &TraceOptions) -> Result<Vec<Reference>, TraceError> {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let mut trace = Trace::from_reader(Path::new(name), stream, options)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch)? {
        assert!(batch.len() <= BATCH);
        all.extend_from_slice(&batch);
    }
    Ok(all)
}

fn plain(name: &str, bytes: &[u8]) -> Result<Vec<Reference>, TraceError> {
    read(name, bytes, &TraceOptions::default())
}

/// Reads a broken file; returns the error, which must have a reason and a remedy.
fn error(name: &str, bytes: &[u8]) -> TraceError {
    let error = plain(name, bytes).expect_err("broken");
    assert!(!error.what.is_empty() && !error.remedy.is_empty());
    assert!(error.to_string().starts_with(name), "{error}");
    error
}
