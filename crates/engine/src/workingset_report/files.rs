//! The texts of the working-set report's files. spec: workingset-report.md 2, 2.1.
//!
//! Invariants: what is printed is parsed to the same value; a text that is refused changes nothing,
//! because a whole new value is returned or none; no text makes a parser panic.

mod page_age;

pub use page_age::{AgeLine, NodeAges, parse_page_age, print_page_age, print_page_ages};

use super::{Bins, MAX_NR_BINS};
use crate::units::Millis;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// Why a written text was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// EINVAL: not of the file's form, edges that do not increase, or a node that is not there.
    Invalid = 22,
    /// ERANGE: a number beyond 32 bits, or 32 intervals and more.
    Range = 34,
}

impl FileError {
    /// The number that the write fails with.
    #[must_use]
    pub const fn errno(self) -> i32 {
        self as i32
    }
}

/// An unsigned number of milliseconds, digits alone.
fn millis(text: &str) -> Result<u64, FileError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FileError::Invalid);
    }
    let number: u32 = text.parse().map_err(|_| FileError::Range)?;
    Ok(u64::from(number))
}

/// One line break at the end belongs to the write, not to the value.
fn line(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

/// `page_age_intervals` as written: milliseconds between commas, increasing; an empty text removes
/// the configuration. Edges are rounded up to ticks of a clock of `hz` a second, and must increase
/// after that too. A comma at the end is refused, as an empty number.
///
/// # Errors
/// [`FileError`], and the old configuration should stay.
pub fn parse_intervals(text: &str, hz: u32) -> Result<Bins, FileError> {
    let hz = u64::from(hz.clamp(1, 1000));
    let text = line(text);
    let tokens = (!text.is_empty()).then(|| text.split(','));
    let mut edges: Vec<Millis> = Vec::new();
    for token in tokens.into_iter().flatten() {
        let ticks = (millis(token)? * hz).div_ceil(1000);
        let edge = ticks * 1000 / hz;
        if edges.len() + 1 >= MAX_NR_BINS || edge > u64::from(u32::MAX) {
            return Err(FileError::Range);
        }
        edges.push(Millis(edge));
    }
    Bins::new(&edges).map_err(|_| FileError::Invalid)
}

/// `page_age_intervals` as read.
#[must_use]
pub fn print_intervals(bins: &Bins) -> String {
    let mut text = String::new();
    for (n, edge) in bins.edges().iter().enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{}", edge.0);
    }
    text.push('\n');
    text
}

/// A node's `refresh_interval` or `report_threshold` as written: milliseconds, 0 for none.
///
/// # Errors
/// [`FileError`].
pub fn parse_millis(text: &str) -> Result<Millis, FileError> {
    millis(line(text)).map(Millis)
}

/// A node's `refresh_interval` or `report_threshold` as read.
#[must_use]
pub fn print_millis(value: Millis) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", value.0);
    text
}

/// A memcg's `refresh_interval` or `report_threshold` as written: `N<nid>=<ms>`. Returns the place of the node
/// among these numbers, and its new value.
///
/// # Errors
/// [`FileError`]: invalid, too, for a node that is not among them.
pub fn parse_node_millis(text: &str, nodes: &[u32]) -> Result<(usize, Millis), FileError> {
    // What is read ends with a blank, and may be written back as it is.
    let (node, value) = text
        .trim_ascii()
        .split_once('=')
        .ok_or(FileError::Invalid)?;
    let node = node.strip_prefix('N').ok_or(FileError::Invalid)?;
    let node = u32::try_from(millis(node)?).map_err(|_| FileError::Invalid)?;
    let value = millis(value)?;
    let place = nodes.iter().position(|known| *known == node);
    Ok((place.ok_or(FileError::Invalid)?, Millis(value)))
}

/// A memcg's `refresh_interval` or `report_threshold` as read: each node's number and its value, with a
/// blank behind it.
#[must_use]
pub fn print_node_millis(values: impl IntoIterator<Item = (u32, Millis)>) -> String {
    let mut text = String::new();
    for (node, value) in values {
        let _ = write!(text, "N{node}={} ", value.0);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
