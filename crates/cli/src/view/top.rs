//! The table of `top`: all processes, all control groups, or all tenants.
//!
//! Invariant: a group's figures are the sums over its processes. The totals include all rows, shown
//! or not. No line is wider than the terminal. An age that cannot be known yet is shown as `-`.

mod draw;
mod rows;

pub(crate) use draw::human;
pub(crate) use rows::{By, Row, Sort, Table, Watched};

#[cfg(test)]
mod tests;
