//! `pagetide top`.
//!
//! Invariant: a terminal shows one table that changes; elsewhere tables follow each other.

use std::collections::BTreeMap;
use std::io::{self, Write};

use host::report::Report;

use crate::args::{Plan, Top};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::text::json_line;
use crate::view::top::{Table, human};
use crate::watching;

use super::looks::{User, follow};
use super::screen::Screen;
use super::stop::stop_flag;
use super::users::users;

pub(super) fn top(args: &Top) -> Result<u8, Failure> {
    let plan = args.plan()?;
    let stop = stop_flag()?;
    let mut tables = Tables::new(args, &plan, Style::of_stdout, io::stdout().lock());
    follow(&plan, watching::open, &stop, &mut tables)?;
    tables.end()?;
    Ok(0)
}

/// Shows each report as a table.
struct Tables<'a, W: Write> {
    args: &'a Top,
    plan: &'a Plan,
    style: fn() -> Style,
    users: BTreeMap<u32, String>,
    out: W,
    screen: Screen,
    shown: bool,
    newest: Option<Report>,
}

impl<'a, W: Write> Tables<'a, W> {
    fn new(args: &'a Top, plan: &'a Plan, style: fn() -> Style, out: W) -> Self {
        Tables {
            args,
            plan,
            style,
            users: users(),
            out,
            screen: Screen::default(),
            shown: false,
            newest: None,
        }
    }

    fn show(&mut self, report: &Report) -> Result<(), Failure> {
        let args = self.args;
        let mut table = Table::of(report, args.by, args.sort);
        if args.json {
            table.rows.truncate(args.rows.unwrap_or(usize::MAX));
            writeln!(self.out, "{}", json_line(&table))?;
            self.out.flush()?;
            return Ok(());
        }
        let style = (self.style)();
        let redraws = style.live && self.plan.each.is_some();
        let fit = match redraws {
            true => style,
            // It scrolls: all rows have room.
            false => Style {
                height: usize::MAX,
                ..style
            },
        };
        let text = human(&table, args.by, args.rows, &self.users, fit);
        if redraws {
            self.screen.draw(&mut self.out, &text, style.height)?;
            return Ok(());
        }
        let gap = if self.shown { "\n" } else { "" };
        self.shown = true;
        write!(self.out, "{gap}{text}")?;
        self.out.flush()?;
        Ok(())
    }

    /// The one table, if there was to be one only.
    fn end(mut self) -> Result<(), Failure> {
        if let Some(report) = self.newest.take() {
            self.show(&report)?;
        }
        self.screen.leave(&mut self.out)?;
        Ok(())
    }
}

impl<W: Write> User for Tables<'_, W> {
    fn report(&mut self, report: Report) -> Result<(), Failure> {
        if self.plan.each.is_some() {
            return self.show(&report);
        }
        self.newest = Some(report);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
