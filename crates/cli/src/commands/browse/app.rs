//! The state of the browser, and the effect of keys on it. This module uses no terminal and sends
//! no requests.
//!
//! Invariant: the selected row is one of the rows shown, if there are any; a reclaim needs a
//! confirmation.

use ratatui::crossterm::event::KeyCode;

use crate::view::top::{By, Row, Sort};

/// What the caller must do after a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Page out the memory that the tenant with this path did not use for 10 s.
    Reclaim(String),
}

/// A row on the screen. Its name is the part of its path below the current group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// The whole path, for a group or a tenant; `None` for a process.
    pub(super) path: Option<String>,
    pub(super) row: Row,
    /// Whether there are groups or tenants below this one.
    pub(super) has_below: bool,
}

/// What the keys do at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum Mode {
    #[default]
    Browse,
    /// Keys edit the filter.
    Filter,
    /// `y` confirms a reclaim from the tenant with this path; any other key cancels it.
    Confirm(String),
}

/// The state of the browser.
#[derive(Debug)]
pub(super) struct App {
    by: By,
    pub(super) sort: Sort,
    rows: Vec<Row>,
    /// Milliseconds for which the rows have been watched: longer ages are unknown.
    pub(super) wall_ms: u64,
    /// The current group's path, as names from the root down.
    pub(super) under: Vec<String>,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) selected: usize,
    pub(super) message: String,
}

impl App {
    pub(super) fn new(by: By, sort: Sort) -> App {
        App {
            by,
            sort,
            rows: Vec::new(),
            wall_ms: 0,
            under: Vec::new(),
            filter: String::new(),
            mode: Mode::default(),
            selected: 0,
            message: String::new(),
        }
    }

    pub(super) fn by(&self) -> By {
        self.by
    }

    /// Replaces the rows by newer ones. The selection stays on the same name, if there is still a
    /// row with that name.
    pub(super) fn set_rows(&mut self, rows: Vec<Row>, wall_ms: u64) {
        let before = self
            .lines()
            .get(self.selected)
            .map(|line| line.name.clone());
        (self.rows, self.wall_ms) = (rows, wall_ms);
        let lines = self.lines();
        let same = lines
            .iter()
            .position(|line| Some(&line.name) == before.as_ref());
        self.selected = same
            .unwrap_or(self.selected)
            .min(lines.len().saturating_sub(1));
    }

    /// Returns the rows on the screen, in order.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = match self.by {
            By::Process => self.processes(),
            By::Cgroup => self.below(true),
            By::Tenant => self.below(false),
        };
        let wanted = self.filter.to_lowercase();
        lines.retain(|line| line.name.to_lowercase().contains(&wanted));
        lines.sort_by_key(|line| {
            std::cmp::Reverse((self.sort.key(&line.row), line.row.resident_bytes))
        });
        lines
    }

    fn processes(&self) -> Vec<Line> {
        let line = |row: &Row| Line {
            name: format!(
                "{} {}",
                row.pid.unwrap_or(0),
                without_folder(row.command.as_deref().unwrap_or_default())
            ),
            path: None,
            row: row.clone(),
            has_below: false,
        };
        self.rows.iter().map(line).collect()
    }

    /// Returns the groups directly below the current one. `own`: each row contains the figures of
    /// the group's own processes only, so rows are summed here; otherwise rows contain the sums
    /// already.
    fn below(&self, own: bool) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for row in &self.rows {
            let path = row.cgroup.as_deref().unwrap_or_default();
            let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            let Some(rest) = strip(&parts, &self.under) else {
                continue;
            };
            let name = rest.first().copied().unwrap_or(".");
            let is_deeper = rest.len() > 1;
            if let Some(line) = lines.iter_mut().find(|line| line.name == name) {
                line.has_below |= is_deeper;
                // Without `own`, the group's own row came first and contains the sums of all groups
                // below it.
                if own {
                    line.row.add(row);
                }
                continue;
            }
            let mut path = self.under.clone();
            path.extend((name != ".").then(|| name.to_owned()));
            lines.push(Line {
                name: name.to_owned(),
                path: Some(format!("/{}", path.join("/"))),
                row: row.clone(),
                has_below: is_deeper,
            });
        }
        lines
    }

    /// Handles a key; returns what the caller must do.
    pub(super) fn key(&mut self, key: KeyCode) -> Action {
        match std::mem::take(&mut self.mode) {
            Mode::Filter => self.filter_key(key),
            Mode::Confirm(tenant) => {
                self.message.clear();
                if key == KeyCode::Char('y') {
                    return Action::Reclaim(tenant);
                }
            }
            Mode::Browse => return self.browse_key(key),
        }
        Action::Nothing
    }

    fn filter_key(&mut self, key: KeyCode) {
        self.mode = Mode::Filter;
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Browse;
            }
            KeyCode::Enter => self.mode = Mode::Browse,
            _ => {}
        }
        self.selected = 0;
    }

    fn browse_key(&mut self, key: KeyCode) -> Action {
        let lines = self.lines();
        let line = lines.get(self.selected);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Down | KeyCode::Char('j') => {
                self.selected = (self.selected + 1).min(lines.len().saturating_sub(1));
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = lines.len().saturating_sub(1),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => {
                if let Some(line) = line.filter(|line| line.has_below) {
                    self.under.push(line.name.clone());
                    self.filter.clear();
                    self.selected = 0;
                }
            }
            KeyCode::Backspace | KeyCode::Left | KeyCode::Char('h') => {
                self.under.pop();
                self.selected = 0;
            }
            KeyCode::Char('r') => self.ask(line.and_then(|line| line.path.clone())),
            _ => {}
        }
        Action::Nothing
    }

    fn ask(&mut self, path: Option<String>) {
        match path.filter(|_| self.by == By::Tenant) {
            Some(path) => {
                self.message = format!("reclaim what {path} did not use for 10 s? y for yes");
                self.mode = Mode::Confirm(path);
            }
            None => {
                "only tenants of `pagetide serve` are reclaimed here; else: pagetide reclaim PID --older-than 10s"
                    .clone_into(&mut self.message);
            }
        }
    }
}

/// Returns a command line without the directory of its program: a long directory would hide the
/// rest.
fn without_folder(command: &str) -> &str {
    let program = command.split(' ').next().unwrap_or_default();
    let folder = program.rfind('/').map_or(0, |at| at + 1);
    // The word ends with `/`, so the program's name would be empty.
    if folder == program.len() {
        command
    } else {
        &command[folder..]
    }
}

/// Returns the part of a path below the group `under`; `None` if the path is not below it.
fn strip<'a>(parts: &'a [&'a str], under: &[String]) -> Option<&'a [&'a str]> {
    let (first, rest) = parts.split_at_checked(under.len())?;
    (first.iter().zip(under).all(|(one, other)| one == other)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, resident: u64) -> Row {
        Row {
            cgroup: Some(path.to_owned()),
            resident_bytes: resident,
            processes: 1,
            ..Row::default()
        }
    }

    fn shown(app: &App) -> Vec<(String, u64, bool)> {
        let lines = app.lines().into_iter();
        lines
            .map(|line| (line.name, line.row.resident_bytes, line.has_below))
            .collect()
    }

    fn press(app: &mut App, keys: &[KeyCode]) -> Action {
        keys.iter().fold(Action::Nothing, |_, key| app.key(*key))
    }

    #[test]
    fn keys_descend_and_ascend_the_tree() {
        let line = |name: &str, resident, below| (name.to_owned(), resident, below);
        // Rows of tenants contain the sums of all tenants below them.
        let mut app = App::new(By::Tenant, Sort::Resident);
        app.set_rows(
            vec![
                row("/", 90),
                row("/a", 60),
                row("/a/b", 50),
                row("/a/b/c", 5),
                row("/d", 30),
            ],
            700_000,
        );
        assert_eq!(
            shown(&app),
            [
                line(".", 90, false),
                line("a", 60, true),
                line("d", 30, false)
            ]
        );
        press(&mut app, &[KeyCode::Down, KeyCode::Enter]);
        assert_eq!(shown(&app), [line(".", 60, false), line("b", 50, true)]);
        press(&mut app, &[KeyCode::Down, KeyCode::Enter]);
        assert_eq!(shown(&app), [line(".", 50, false), line("c", 5, false)]);
        // There is no group below the selected one.
        press(
            &mut app,
            &[KeyCode::Down, KeyCode::Enter, KeyCode::Left, KeyCode::Left],
        );
        assert_eq!(shown(&app).len(), 3);
        // Rows of control groups without `serve` contain the figures of their own processes only.
        let mut app = App::new(By::Cgroup, Sort::Resident);
        app.set_rows(vec![row("/", 7), row("/a/b", 50), row("/a/c", 5)], 700_000);
        assert_eq!(shown(&app), [line("a", 55, true), line(".", 7, false)]);
    }

    #[test]
    fn a_program_is_named_without_its_folder() {
        let of = [
            (
                "/usr/lib/postgresql/15/bin/postgres -D /var/lib",
                "postgres -D /var/lib",
            ),
            ("sleep 5", "sleep 5"),
            ("nginx: worker /etc", "nginx: worker /etc"),
            ("/opt/my app/run", "my app/run"),
            ("/", "/"),
            ("", ""),
        ];
        for (command, name) in of {
            assert_eq!(without_folder(command), name);
        }
    }

    #[test]
    fn a_reclaim_needs_a_confirmation() {
        let mut app = App::new(By::Tenant, Sort::Resident);
        app.set_rows(vec![row("/", 90), row("/a", 60)], 700_000);
        let keys = [KeyCode::Down, KeyCode::Char('r')];
        assert_eq!(press(&mut app, &keys), Action::Nothing);
        assert_eq!(app.key(KeyCode::Char('n')), Action::Nothing);
        assert_eq!(
            app.key(KeyCode::Char('y')),
            Action::Nothing,
            "it was not sure"
        );
        let keys = [KeyCode::Char('r'), KeyCode::Char('y')];
        assert_eq!(press(&mut app, &keys), Action::Reclaim("/a".to_owned()));
        let mut app = App::new(By::Process, Sort::Resident);
        app.set_rows(vec![row("/", 90)], 700_000);
        let keys = [KeyCode::Char('r'), KeyCode::Char('y')];
        assert_eq!(press(&mut app, &keys), Action::Nothing);
        assert!(app.message.contains("pagetide reclaim"));
    }

    #[test]
    fn a_filter_can_be_edited_and_cleared_and_the_selection_stays() {
        let mut app = App::new(By::Tenant, Sort::Resident);
        app.set_rows(
            vec![row("/web", 60), row("/db", 50), row("/Webmail", 5)],
            700_000,
        );
        press(
            &mut app,
            &[
                KeyCode::Char('/'),
                KeyCode::Char('w'),
                KeyCode::Char('q'),
                KeyCode::Backspace,
            ],
        );
        assert_eq!(shown(&app).len(), 2);
        press(&mut app, &[KeyCode::Enter, KeyCode::Down]);
        assert_eq!(app.selected, 1);
        // `/Webmail` is the largest row now.
        app.set_rows(vec![row("/web", 60), row("/Webmail", 500)], 700_000);
        assert_eq!(app.selected, 0);
        press(&mut app, &[KeyCode::Char('/'), KeyCode::Esc]);
        assert_eq!(app.filter, "");
        assert_eq!(app.key(KeyCode::Char('q')), Action::Quit);
        app.set_rows(Vec::new(), 700_000);
        press(
            &mut app,
            &[
                KeyCode::Down,
                KeyCode::End,
                KeyCode::Enter,
                KeyCode::Char('s'),
            ],
        );
        assert_eq!(app.selected, 0);
    }
}
