//! `page_age`: the page-age histogram as lines of text.
//! spec: workingset-report.md 2.
//!
//! Invariants: edges increase from line to line; the last line, and no other, has none, which is
//! written as the largest number there is.

use super::FileError;
use crate::units::{Bytes, Millis};
use crate::workingset_report::{Bins, PageAge};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// First field of the last line, which has no edge.
const INTERVAL_MAX: u64 = u64::MAX;
/// First field of the last line, as older versions of the kernel series print it.
const OLDER_INTERVAL_MAX: u64 = i64::MAX.unsigned_abs();

/// One line: bytes that were idle for longer than the edge of the previous line, and at most as
/// long as this line's edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeLine {
    /// The upper edge of the line; `None` for the last line.
    pub edge: Option<Millis>,
    /// Bytes of anon pages.
    pub anon: Bytes,
    /// Bytes of file pages.
    pub file: Bytes,
}

/// The lines of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAges {
    /// The number of the `N<nid>` line; `None` for a node's own file, which has no such line.
    pub node: Option<u32>,
    /// The node's histogram, youngest pages first.
    pub lines: Vec<AgeLine>,
}

/// Formats a node's `page_age` as read; empty while reporting is disabled.
#[must_use]
pub fn print_page_age(report: Option<&PageAge>) -> String {
    let mut text = String::new();
    for bin in report.map_or(&[][..], PageAge::bins) {
        let edge = bin.edge.map_or(INTERVAL_MAX, |edge| edge.0);
        let [anon, file] = bin.pages.map(|pages| pages.bytes().0);
        let _ = writeln!(text, "{edge} anon={anon} file={file}");
    }
    text
}

/// Formats a memcg's `page_age` as read: the number and the lines of each node that has a report.
#[must_use]
pub fn print_page_ages(reports: &[Option<&PageAge>]) -> String {
    let mut text = String::new();
    for (node, report) in reports.iter().enumerate() {
        if report.is_some() {
            let _ = writeln!(text, "N{node}");
            text.push_str(&print_page_age(*report));
        }
    }
    text
}

/// Parses `page_age` of a node or of a memcg. Bytes need not be multiples of a page. The last line
/// may have the edge of current or of older versions of the series.
///
/// # Errors
/// [`FileError`], when no kernel prints such a text.
pub fn parse_page_age(text: &str) -> Result<Vec<NodeAges>, FileError> {
    let mut nodes: Vec<NodeAges> = Vec::new();
    for line in text.lines() {
        let numbered = line.strip_prefix('N');
        if nodes.last().is_none_or(NodeAges::is_complete) {
            // A node's own file has only one node; in a memcg's file the next node begins.
            let own = nodes.is_empty() && numbered.is_none();
            if !own && (numbered.is_none() || nodes.last().is_some_and(|n| n.node.is_none())) {
                return Err(FileError::Invalid);
            }
            let node = numbered.map(node_number).transpose()?;
            let lines = Vec::new();
            nodes.push(NodeAges { node, lines });
        } else if numbered.is_some() {
            return Err(FileError::Invalid);
        }
        if let (None, Some(node)) = (numbered, nodes.last_mut()) {
            node.push(age_line(line)?)?;
        }
    }
    if nodes.iter().all(NodeAges::is_complete) {
        Ok(nodes)
    } else {
        Err(FileError::Invalid)
    }
}

impl NodeAges {
    fn is_complete(&self) -> bool {
        self.lines.last().is_some_and(|line| line.edge.is_none())
    }

    fn push(&mut self, line: AgeLine) -> Result<(), FileError> {
        let last = self.lines.last().and_then(|line| line.edge);
        if line.edge.is_some_and(|edge| last >= Some(edge)) {
            return Err(FileError::Invalid);
        }
        self.lines.push(line);
        Ok(())
    }

    /// Returns the edges of the lines as bins.
    ///
    /// # Errors
    /// [`FileError::Range`] if there are more lines than a report may have.
    pub fn bins(&self) -> Result<Bins, FileError> {
        let edges: Vec<Millis> = self.lines.iter().filter_map(|line| line.edge).collect();
        Bins::new(&edges).map_err(|_| FileError::Range)
    }
}

fn node_number(text: &str) -> Result<u32, FileError> {
    u32::try_from(number_of(text)?).map_err(|_| FileError::Range)
}

fn number_of(text: &str) -> Result<u64, FileError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FileError::Invalid);
    }
    text.parse().map_err(|_| FileError::Range)
}

fn age_line(line: &str) -> Result<AgeLine, FileError> {
    let mut fields = line.split(' ');
    let edge = number_of(fields.next().unwrap_or_default())?;
    let mut bytes = |name: &str| {
        let value = fields.next().and_then(|field| field.strip_prefix(name));
        value.ok_or(FileError::Invalid).and_then(number_of)
    };
    let (anon, file) = (Bytes(bytes("anon=")?), Bytes(bytes("file=")?));
    if fields.next().is_some() {
        return Err(FileError::Invalid);
    }
    let edge = (edge != INTERVAL_MAX && edge != OLDER_INTERVAL_MAX).then_some(Millis(edge));
    Ok(AgeLine { edge, anon, file })
}
