//! `pagetide top` on a terminal: rows that the user can view, sort, descend into, and reclaim from.
//!
//! Invariant: one thread fetches rows while another handles keys. However the command ends, the
//! terminal is restored.

mod app;

mod draw;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use daemon::control::{Ask, Response, TenantAsk};
use daemon::options::Pages;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::args::{Plan, Top};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::top::{By, Row, Table};
use crate::watching;

use super::reclaim::short;
use super::requests::{LONG_TIMEOUT, of_tenant, unexpected};
use super::stop::gentle_flag;
use super::tenant_rows::tenant_rows;
use app::{Action, App};

/// Longest wait for a key before newer rows are shown.
const PULSE: Duration = Duration::from_millis(100);
/// Age from which the key for reclaim pages memory out.
const COLD: Duration = Duration::from_secs(10);

/// A message from another thread to the one that handles keys.
enum News {
    /// Newer rows, and the milliseconds for which they have been watched.
    Rows(Vec<Row>, u64),
    Message(String),
    Ended(Failure),
}

/// Shows rows until `q`, ^C or a signal ends the browser.
///
/// # Errors
/// No process can be watched, or there is no terminal.
pub(super) fn browse(args: &Top, plan: &Plan) -> Result<u8, Failure> {
    let (sender, news) = channel();
    scan(args.clone(), plan.clone(), sender.clone())?;
    let mut app = App::new(args.by, args.sort);
    // The browser uses the terminal only when there are rows, so that an early failure is printed
    // on the unchanged terminal.
    match news.recv() {
        Ok(News::Rows(rows, wall_ms)) => app.set_rows(rows, wall_ms),
        Ok(News::Ended(failure)) => return Err(failure),
        _ => return Ok(0),
    }
    let stop = gentle_flag()?;
    let style = Style::of_stdout();
    let mut terminal = ratatui::try_init().map_err(no_terminal)?;
    let ended = run_until_end((args, &stop), &mut app, &news, &sender, |app| {
        terminal
            .draw(|frame| draw::draw(frame, app, style))
            .map(drop)
    });
    ratatui::restore();
    ended.map(|()| 0)
}

fn run_until_end(
    (args, stop): (&Top, &AtomicBool),
    app: &mut App,
    news: &Receiver<News>,
    sender: &Sender<News>,
    mut draw: impl FnMut(&App) -> std::io::Result<()>,
) -> Result<(), Failure> {
    while !stop.load(Ordering::Relaxed) {
        draw(app).map_err(no_terminal)?;
        loop {
            match news.try_recv() {
                Ok(News::Rows(rows, wall_ms)) => app.set_rows(rows, wall_ms),
                Ok(News::Message(text)) => app.message = text,
                Ok(News::Ended(failure)) => return Err(failure),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        if !event::poll(PULSE).map_err(no_terminal)? {
            continue;
        }
        let Event::Key(key) = event::read().map_err(no_terminal)? else {
            continue;
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let is_interrupt =
            key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        match app.key(key.code) {
            _ if is_interrupt => return Ok(()),
            Action::Quit => return Ok(()),
            Action::Nothing => {}
            Action::Reclaim(tenant) => {
                app.message = format!("reclaiming {tenant} ...");
                reclaim(args.clone(), tenant, sender.clone())?;
            }
        }
    }
    Ok(())
}

/// Starts a thread that scans and sends rows until the browser ends.
fn scan(args: Top, plan: Plan, sender: Sender<News>) -> Result<(), Failure> {
    started("rows", move || {
        let ended = if args.by == By::Tenant {
            each_tenant_row(&args, &sender)
        } else {
            each_row(&args, &plan, &sender)
        };
        if let Err(failure) = ended {
            let _ = sender.send(News::Ended(failure));
        }
    })
}

fn each_tenant_row(args: &Top, sender: &Sender<News>) -> Result<(), Failure> {
    loop {
        let (rows, watched) = tenant_rows(&args.tree)?;
        if sender.send(News::Rows(rows, watched.wall_ms)).is_err() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(args.every.0));
    }
}

fn each_row(args: &Top, plan: &Plan, sender: &Sender<News>) -> Result<(), Failure> {
    let mut watching = watching::open(&plan.settings)?;
    loop {
        let report = watching.next()?;
        let rows = Table::of(&report, args.by, args.sort).rows;
        if sender.send(News::Rows(rows, report.wall_ms)).is_err() {
            return Ok(());
        }
    }
}

/// Requests the reclaim of a tenant's cold memory in a new thread, which sends the result as a
/// message.
fn reclaim(args: Top, tenant: String, sender: Sender<News>) -> Result<(), Failure> {
    started("reclaim", move || {
        let ask = TenantAsk::Reclaim(Ask::OlderThan(COLD));
        let text = match of_tenant(&args.tree, &tenant, ask, LONG_TIMEOUT) {
            Ok(Response::Reclaimed(done)) => {
                let name = format!("tenant {tenant}");
                match short(&name, Ask::OlderThan(COLD), &done) {
                    Some(failure) => failure.to_string(),
                    None => format!("{tenant}: paged out {}", Pages(done.evicted_pages).bytes()),
                }
            }
            Ok(_) => unexpected().to_string(),
            Err(failure) => failure.to_string(),
        };
        let _ = sender.send(News::Message(text));
    })
}

fn started(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map(drop).map_err(|error| {
        let what = format!("cannot start a thread: {error}");
        Failure::new(what, "raise the limit of processes (ulimit -u)")
    })
}

fn no_terminal(error: std::io::Error) -> Failure {
    let what = format!("cannot use this terminal: {error}");
    Failure::new(what, "`pagetide top --once` shows one table anywhere")
}
