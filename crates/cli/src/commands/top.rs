//! `pagetide top`.
//!
//! Invariant: a terminal shows one table that changes; elsewhere tables follow each other.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::report::Report;

use crate::args::{Plan, Top};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::text::json_line;
use crate::view::top::{By, Table, human};
use crate::watching;

use super::browse::browse;
use super::looks::{User, follow};
use super::screen::Screen;
use super::stop::{pause, stop_flag};
use super::tenant_rows::tenant_rows;
use super::users::users;

pub(super) fn top(args: &Top) -> Result<u8, Failure> {
    let plan = args.plan()?;
    // What is redrawn without an end is for somebody who looks on, and has keys.
    let is_watched = io::stdin().is_terminal() && Style::of_stdout().live;
    if is_watched && plan.each.is_some() && plan.time.is_none() && !args.json && args.rows.is_none()
    {
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

/// Shows tenants as tables, as often as is asked for.
fn tenants(args: &Top, plan: &Plan, stop: &AtomicBool) -> Result<u8, Failure> {
    let mut tables = Tables::new(args, plan, Style::of_stdout, io::stdout().lock());
    let begin = Instant::now();
    if let (None, Some(time)) = (plan.each, plan.time.filter(|_| args.time.is_some())) {
        // Nobody may serve.
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
