//! The table of `top`: all processes, or all control groups.
//!
//! Invariant: a group's figures are the sums over its processes; the totals are those of all rows,
//! shown or not; no line is wider than the terminal. An age that nobody can know yet is `-`.

mod draw;
mod rows;

pub(crate) use draw::human;
pub(crate) use rows::{By, Row, Sort, Table, Watched};

#[cfg(test)]
mod tests;
