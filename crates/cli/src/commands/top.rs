//! `pagetide top`: a table of processes, control groups or tenants that is updated.
//!
//! Invariant: on a terminal, one table is redrawn; elsewhere, one table is printed after the other.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::report::Report;

use crate::args::{Plan, Top};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::text::json_line;
use crate::view::top::{By, Table, human};
use crate::watching;

#[cfg(feature = "dashboard")]
use super::browse::browse;
use super::scans::{ReportSink, follow};
use super::screen::Screen;
use super::stop::{pause, stop_flag};
use super::tenant_rows::tenant_rows;
use super::users::users;

pub(super) fn top(args: &Top) -> Result<u8, Failure> {
    let plan = args.plan()?;
    #[cfg(feature = "dashboard")]
    if wants_browser(args, &plan) {
        return browse(args, &plan);
    }
    let stop = stop_flag()?;
    if args.by == By::Tenant {
        return tenants(args, &plan, &stop);
    }
    let mut tables = Tables::new(args, &plan, Style::of_stdout, io::stdout().lock());
    follow(&plan, watching::open, &stop, &mut tables)?;
    tables.end()?;
    Ok(0)
}

/// Returns whether to show the browser: to a user at a terminal who has set neither an end nor a
/// number of rows.
#[cfg(feature = "dashboard")]
fn wants_browser(args: &Top, plan: &Plan) -> bool {
    let is_watched = io::IsTerminal::is_terminal(&io::stdin()) && Style::of_stdout().live;
    is_watched && plan.each.is_some() && plan.time.is_none() && !args.json && args.rows.is_none()
}

/// Shows tenants as tables, at the requested interval.
fn tenants(args: &Top, plan: &Plan, stop: &AtomicBool) -> Result<u8, Failure> {
    let mut tables = Tables::new(args, plan, Style::of_stdout, io::stdout().lock());
    let begin = Instant::now();
    if let (None, Some(time)) = (plan.each, plan.time.filter(|_| args.time.is_some())) {
        // If no `serve` runs, this fails at once.
        tenant_rows(&args.tree)?;
        pause(stop, time);
    }
    while !stop.load(Ordering::Relaxed) {
        let (rows, watched) = tenant_rows(&args.tree)?;
        tables.draw(Table::of_tenants(rows, args.sort, watched))?;
        let is_over = plan.time.is_some_and(|time| begin.elapsed() >= time);
        if plan.each.is_none() || is_over {
            break;
        }
        pause(stop, Duration::from_millis(args.every.0));
    }
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
        self.draw(Table::of(report, self.args.by, self.args.sort))
    }

    fn draw(&mut self, mut table: Table) -> Result<(), Failure> {
        let args = self.args;
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
            // There is space for all rows in output that scrolls.
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

    /// Prints the table, if only a single one was requested.
    fn end(mut self) -> Result<(), Failure> {
        if let Some(report) = self.newest.take() {
            self.show(&report)?;
        }
        self.screen.leave(&mut self.out)?;
        Ok(())
    }
}

impl<W: Write> ReportSink for Tables<'_, W> {
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
