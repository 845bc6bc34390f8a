//! Parses and formats the texts of the files of working-set reports.
//! spec: workingset-report.md 2, 2.1.
//!
//! Invariants: a printed value is parsed to the same value; a parser returns a complete value or an
//! error, so a refused text changes nothing; no text makes a parser panic.

mod number;

pub use number::{kstrtouint, kstrtoull};

use super::{Bins, MAX_NR_BINS};
use crate::units::Millis;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// Why a text written to a file was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// EINVAL: the text does not have the file's form, its edges do not increase, or its node does
    /// not exist.
    Invalid = 22,
    /// ERANGE: a number of more than 32 bits, or 32 or more intervals.
    Range = 34,
}

impl FileError {
    /// Returns the error number with which the write fails.
    #[must_use]
    pub const fn errno(self) -> i32 {
        self as i32
    }
}

/// Returns the text without the blanks around it, as the kernel's strim() does.
fn stripped(text: &str) -> &str {
    // The kernel's isspace() includes the vertical tab.
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// Parses a text written to `page_age_intervals`: increasing milliseconds, separated by commas;
/// blanks only before the first and after the last. Each number is parsed by [`kstrtouint`]. An
/// empty text removes the configuration. Edges are rounded up to ticks of a clock of `hz` ticks a
/// second, and must increase also after that. A comma at the end is refused, because an empty
/// number follows it.
///
/// # Errors
/// [`FileError`]; the caller keeps the old configuration.
pub fn parse_intervals(text: &str, hz: u32) -> Result<Bins, FileError> {
    let hz = u64::from(hz.clamp(1, 1000));
    let text = stripped(text);
    let tokens = (!text.is_empty()).then(|| text.split(','));
    let mut edges: Vec<Millis> = Vec::new();
    for token in tokens.into_iter().flatten() {
        let ticks = (u64::from(kstrtouint(token)?) * hz).div_ceil(1000);
        let edge = ticks * 1000 / hz;
        if edges.len() + 1 >= MAX_NR_BINS || edge > u64::from(u32::MAX) {
            return Err(FileError::Range);
        }
        edges.push(Millis(edge));
    }
    Bins::new(&edges).map_err(|_| FileError::Invalid)
}

/// Formats the content of `page_age_intervals` for readers.
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

/// Parses a text written to a node's `refresh_interval` or `report_threshold`: milliseconds, 0 for
/// none. Blanks before and after the number are ignored.
///
/// # Errors
/// [`FileError`] if the text is not a number, or has more than 32 bits.
pub fn parse_millis(text: &str) -> Result<Millis, FileError> {
    kstrtouint(stripped(text)).map(|ms| Millis(u64::from(ms)))
}

/// Formats the content of a node's `refresh_interval` or `report_threshold` for readers.
#[must_use]
pub fn print_millis(value: Millis) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", value.0);
    text
}

/// Parses a text written to a memcg's `refresh_interval` or `report_threshold`: `N<nid>=<ms>`.
/// Returns the index of that node in `nodes`, and its new value.
///
/// # Errors
/// [`FileError`] if the text does not have that form, or the node is not in `nodes`.
pub fn parse_node_millis(text: &str, nodes: &[u32]) -> Result<(usize, Millis), FileError> {
    // A text that was read from the file ends with a blank, and may be written back unchanged.
    let (node, value) = text
        .trim_ascii()
        .split_once('=')
        .ok_or(FileError::Invalid)?;
    let node = node.strip_prefix('N').ok_or(FileError::Invalid)?;
    let node = kstrtouint(node).map_err(|_| FileError::Invalid)?;
    let value = u64::from(kstrtouint(value)?);
    let index = nodes.iter().position(|known| *known == node);
    Ok((index.ok_or(FileError::Invalid)?, Millis(value)))
}

/// Formats the content of a memcg's `refresh_interval` or `report_threshold` for readers:
/// `N<nid>=<ms>` and a blank for each node.
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
