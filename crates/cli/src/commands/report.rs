//! `pagetide report`: watches a target and prints its memory by page age.
//!
//! Invariant: only reports are written to standard output; progress goes to standard error, and
//! only to a terminal. ^C ends watching normally: what was seen until then is the result.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use daemon::options::{Bytes, Millis};
use host::report::{Budget, COST_PERCENT, Confidence, Needed, Price, REFAULTS_PER_MILLE, Report};
use host::system::Proc;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::args::{self, Form, Plan};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::memory::{self, History};
use crate::view::text::{json_line, json_lines, plain};
use crate::watching;

use super::page::Page;
use super::scans::{Open, ReportSink, due, follow};
use super::screen::Screen;
use super::stop::stop_flag;

/// Checks that the requested NUMA node exists.
fn check_node(node: u32) -> Result<(), Failure> {
    let nodes = Proc::system().and_then(|proc| proc.nodes());
    // If the kernel has no NUMA support, all memory is of node 0.
    let known = nodes.map_or_else(|_| vec![0], |nodes| nodes.all().to_vec());
    if known.contains(&node) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    Err(Failure::usage(
        format!("cannot report on node {node}: this host has no such NUMA node"),
        format!("give one of these: {}", known.join(", ")),
    ))
}

pub(super) fn report(args: &args::Report) -> Result<u8, Failure> {
    let plan = args.plan()?;
    let stop = stop_flag()?;
    let bar = progress_bar(&plan);
    let target = bar.message();
    let progress = &mut |passed: Option<Duration>, so_far: &str| match passed {
        Some(passed) => {
            bar.set_position(Millis::from(passed).0);
            if !so_far.is_empty() {
                bar.set_message(format!("{target}: {so_far} so far"));
            }
        }
        None => bar.finish_and_clear(),
    };
    let output = (args.form(), Style::of_stdout as fn() -> Style);
    let how = (watching::open as Open, &stop);
    write_to(args, &plan, how, output, progress, io::stdout().lock())?;
    Ok(0)
}

/// Receives progress: how long the command has watched (`None` when watching is over, before the
/// last report is written), and the needed size so far; the text is empty if that is unknown.
pub(crate) type Progress<'a> = dyn FnMut(Option<Duration>, &str) + 'a;

/// Runs the command, with `out` as its standard output. `open` opens the target; setting `stop`
/// also ends the command.
///
/// # Errors
/// Nothing can be read of the target, or `out` or a requested page cannot be written.
pub(crate) fn write_to(
    args: &args::Report,
    plan: &Plan,
    (open, stop): (Open, &Arc<AtomicBool>),
    (form, style): (Form, fn() -> Style),
    progress: &mut Progress<'_>,
    out: impl Write,
) -> Result<(), Failure> {
    args.node.map(check_node).transpose()?;
    // Opened before the work, so that a path that cannot be written fails at once.
    let page = args.html.as_deref().map(Page::open).transpose()?;
    let mut writer = Writer::new(plan, form, style, page, out);
    writer.wants_curve = args.curve;
    writer.budget = args.budget();
    writer.quantile = args.quantile.map(|percent| (percent, args.node));
    writer.progress = Some(progress);
    follow(plan, open, stop, &mut writer)?;
    writer.end()
}

/// Writes reports at the requested interval, in the requested format, and to the HTML page if there
/// is one.
struct Writer<'a, W: Write> {
    plan: &'a Plan,
    form: Form,
    /// Called for each frame, as the terminal's size may change.
    style: fn() -> Style,
    page: Option<Page>,
    wants_curve: bool,
    /// The budget for refaults at the needed size: how many pages may refault, or how long refaults
    /// may take.
    budget: Budget,
    /// The share of the memory whose age is requested, in percent, and the NUMA node if not all
    /// nodes.
    quantile: Option<(f64, Option<u32>)>,
    /// Price of a refault; measured before the first report that needs it, `None` until then.
    price: Option<Price>,
    out: W,
    screen: Screen,
    progress: Option<&'a mut Progress<'a>>,
    started: Instant,
    history: History,
    /// Whether any report was written.
    has_written: bool,
    /// When the last report was written, by the reports' clock; `None` if that clock has started
    /// again since.
    written: Option<Duration>,
    /// The newest report, and whether it was written.
    newest: Option<(Report, bool)>,
    /// The newest report that has processes.
    alive: Option<Report>,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(plan: &'a Plan, form: Form, style: fn() -> Style, page: Option<Page>, out: W) -> Self {
        Writer {
            plan,
            form,
            style,
            page,
            wants_curve: false,
            budget: Budget::Cost(COST_PERCENT),
            quantile: None,
            price: None,
            out,
            screen: Screen::default(),
            progress: None,
            started: Instant::now(),
            history: History::default(),
            has_written: false,
            written: None,
            newest: None,
            alive: None,
        }
    }

    /// Returns whether each report is drawn over the previous one.
    fn redraws(&self) -> bool {
        self.plan.each.is_some() && self.form == Form::Human && (self.style)().live
    }

    fn write(&mut self, report: &Report) -> Result<(), Failure> {
        let style = (self.style)();
        match self.form {
            Form::Human if self.redraws() => {
                let text = memory::human(report, style);
                self.screen.draw(&mut self.out, &text, style.height)?;
            }
            Form::Human => {
                if self.has_written {
                    writeln!(self.out)?;
                }
                write!(self.out, "{}", memory::human(report, style))?;
            }
            Form::Json if self.plan.each.is_some() => writeln!(self.out, "{}", json_line(report))?,
            Form::Json => writeln!(self.out, "{}", json_lines(report))?,
            Form::Csv => {
                if !self.has_written {
                    writeln!(self.out, "{}", memory::csv::header())?;
                }
                writeln!(self.out, "{}", memory::csv::row(report))?;
            }
        }
        self.out.flush()?;
        (self.has_written, self.written) = (true, Some(Duration::from_millis(report.wall_ms)));
        if let Some(page) = &self.page {
            page.write(&memory::html(report, &self.history))?;
        }
        Ok(())
    }

    /// Writes the report that is not yet written when watching is over.
    fn end(mut self) -> Result<(), Failure> {
        if let Some(progress) = &mut self.progress {
            progress(None, "");
        }
        let Some((mut report, written)) = self.newest.take() else {
            return Err(Failure::new(
                format!(
                    "cannot report on {}: stopped before the first scan",
                    self.plan.settings.target
                ),
                "let it run for a moment",
            ));
        };
        if let Some(alive) = self.alive.take()
            && report.processes.is_empty()
            && (self.plan.each.is_none() || self.redraws())
        {
            report = last_alive(alive, report);
        }
        if self.redraws() {
            // The last frame may have been cut at the terminal's height.
            self.screen.clear(&mut self.out)?;
            write!(self.out, "{}", memory::human(&report, (self.style)()))?;
            self.out.flush()?;
        } else if !written {
            self.write(&report)?;
        }
        Ok(())
    }
}

impl<W: Write> ReportSink for Writer<'_, W> {
    fn report(&mut self, mut report: Report) -> Result<(), Failure> {
        if report.curve.is_some() {
            let price = self.price.get_or_insert_with(measured_price);
            report.set_needed(self.budget, price);
        }
        let per_mille = match self.budget {
            Budget::Refaults(per_mille) => per_mille,
            Budget::Cost(_) => REFAULTS_PER_MILLE,
        };
        let curve = report.curve.take().filter(|_| self.wants_curve);
        report.curve = curve.map(|curve| curve.recommend(per_mille));
        if let Some((percent, node)) = self.quantile {
            report.set_quantile(percent, node);
        }
        let newest = self.newest.as_ref();
        // The target's manager was replaced. The new manager's clock starts at 0, so everything
        // starts again.
        if newest.is_some_and(|(newest, _)| report.wall_ms < newest.wall_ms) {
            (self.written, self.history) = (None, History::default());
        }
        self.history.push(&report);
        let now = self.plan.each.is_some_and(|each| {
            let last = self.written;
            last.is_none_or(|last| due(report.wall_ms, last, each, self.plan))
        });
        if now {
            self.write(&report)?;
        }
        if !report.processes.is_empty() {
            self.alive = Some(report.clone());
        }
        self.newest = Some((report, now));
        Ok(())
    }

    fn is_enough(&self) -> bool {
        let newest = self.newest.as_ref().filter(|_| self.plan.until_sure);
        let needed = newest.and_then(|(report, _)| report.needed.as_ref());
        needed.is_some_and(|needed| needed.confidence == Confidence::High)
    }

    fn idle(&mut self) {
        let passed = self.started.elapsed();
        if let Some(progress) = &mut self.progress {
            let newest = self.newest.as_ref();
            let needed = newest.and_then(|(report, _)| report.needed.as_ref());
            progress(Some(passed), &needed.map_or(String::new(), so_far));
        }
    }
}

/// Formats the needed size so far: `needs 34 MiB (low)`.
fn so_far(needed: &Needed) -> String {
    let bytes = Bytes(needed.bytes);
    format!("needs {bytes} ({})", needed.confidence.name())
}

fn measured_price() -> Price {
    Proc::system().map_or_else(|_| Price::default(), |proc| host::price::price(&proc))
}

/// Returns the result for a target whose processes have all ended: what the last scan saw of them
/// (`alive`), and how they ended (`gone`). A report without processes would be of no use.
fn last_alive(alive: Report, gone: Report) -> Report {
    let mut notes = gone.notes;
    notes.push("all processes have ended; sizes and ages are of the last scan before".to_owned());
    Report {
        exit: gone.exit,
        ended: gone.ended,
        resident_peak_bytes: gone.resident_peak_bytes.max(alive.resident_peak_bytes),
        notes,
        ..alive
    }
}

fn progress_bar(plan: &Plan) -> ProgressBar {
    let target = plain(&plan.settings.target.to_string(), false);
    let bar = watch_bar(plan, "{msg} {wide_bar} {elapsed} (left: {eta})");
    bar.with_message(format!("watching {target}"))
}

/// Returns the progress bar of a watch. It is visible only on a terminal on which nothing else is
/// drawn.
pub(super) fn watch_bar(plan: &Plan, template: &str) -> ProgressBar {
    let draw_target = match plan.each.is_none() && io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let length = plan.time.map(|time| Millis::from(time).0);
    let style = ProgressStyle::with_template(template);
    let mut style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    if !Style::of_stdout().unicode {
        style = style.progress_chars("##-");
    }
    // However watching ends, the bar is removed.
    ProgressBar::with_draw_target(length, draw_target)
        .with_finish(ProgressFinish::AndClear)
        .with_style(style)
}

#[cfg(test)]
mod tests;
