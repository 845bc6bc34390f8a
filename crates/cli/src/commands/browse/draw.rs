//! The browser as it looks.
//!
//! Invariant: a bar is as long as its row's share of the largest, and its parts are the ages of its pages; without colours
//! parts are told by their letters.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};

use crate::view::share;
use crate::view::text::{plain, short_size};
use crate::view::top::{By, Row, Sort};

use super::app::{App, Line, Mode};

/// Of a bar.
const BAR: u16 = 30;
/// Parts of a bar: what they are, their letter without colours, and their colour.
const PARTS: [(&str, char, Color); 5] = [
    ("used within 10s", '#', Color::Red),
    ("10s-1m", '+', Color::Yellow),
    ("1m-10m", '-', Color::Cyan),
    ("over 10m", '.', Color::Blue),
    ("not known", '?', Color::DarkGray),
];

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, has_color: bool) {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [title, legend, body, foot] = areas.areas(frame.area());
    let what = match app.by() {
        By::Process => "processes",
        By::Cgroup => "control groups",
        By::Tenant => "tenants",
    };
    let at = format!(" pagetide top: {what} below /{}", app.under.join("/"));
    frame.render_widget(
        Paragraph::new(at).style(Style::new().add_modifier(Modifier::BOLD)),
        title,
    );
    frame.render_widget(Paragraph::new(key_of_colors(has_color)), legend);
    table(frame, body, app, has_color);
    frame.render_widget(
        Paragraph::new(below(app)).style(Style::new().add_modifier(Modifier::DIM)),
        foot,
    );
}

fn paint(part: usize, has_color: bool) -> Style {
    match has_color {
        true => Style::new().fg(PARTS[part].2),
        false => Style::new(),
    }
}

fn key_of_colors(has_color: bool) -> Text<'static> {
    let parts = PARTS.iter().enumerate();
    let spans = parts.flat_map(|(number, (name, letter, _))| {
        let mark = if has_color { '█' } else { *letter };
        [
            Span::styled(format!(" {mark} "), paint(number, has_color)),
            Span::raw(*name),
        ]
    });
    Text::from(spans.collect::<Vec<_>>())
}

/// What keys do, or what was said.
fn below(app: &App) -> String {
    match &app.mode {
        Mode::Filter => format!(
            " filter: {}_  (Enter keeps it, Esc takes it back)",
            app.filter
        ),
        _ if !app.said.is_empty() => format!(" {}", app.said),
        _ => " q quit  ↑↓ select  Enter descend  ← up  s sort  / filter  r reclaim".to_owned(),
    }
}

fn table(frame: &mut Frame<'_>, area: Rect, app: &App, has_color: bool) {
    let lines = app.lines();
    let largest = lines
        .iter()
        .map(|line| line.row.resident_bytes)
        .max()
        .unwrap_or(0);
    let rows = lines.iter().map(|line| table_row(line, largest, has_color));
    let mark = |sort: Sort, name: &str| match app.sort == sort {
        true => format!("{name}↓"),
        false => name.to_owned(),
    };
    let head = TableRow::new([
        "name".to_owned(),
        "procs".to_owned(),
        mark(Sort::Resident, "resident"),
        mark(Sort::Cold, ">10s"),
        mark(Sort::Swapped, "swapped"),
        "age of pages".to_owned(),
    ]);
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(BAR),
    ];
    let table = Table::new(rows, widths)
        .header(head.style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected((!lines.is_empty()).then_some(app.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

fn table_row(line: &Line, largest: u64, has_color: bool) -> TableRow<'static> {
    let row = &line.row;
    let below = if line.has_below { "/" } else { "" };
    let name = plain(&line.name, true) + below;
    TableRow::new([
        Cell::from(name),
        Cell::from(row.processes.to_string()),
        Cell::from(short_size(row.resident_bytes)),
        Cell::from(short_size(row.older_than_10s_bytes)),
        Cell::from(short_size(row.swapped_bytes)),
        Cell::from(bar(row, largest, has_color)),
    ])
}

/// Bytes of each part.
fn parts(row: &Row) -> [u64; PARTS.len()] {
    let [ten, minute, long] = [
        row.older_than_10s_bytes,
        row.older_than_1m_bytes,
        row.older_than_10m_bytes,
    ];
    let known = row.resident_bytes.saturating_sub(row.unknown_age_bytes);
    [
        known.saturating_sub(ten),
        ten.saturating_sub(minute),
        minute.saturating_sub(long),
        long,
        row.unknown_age_bytes,
    ]
}

fn bar(row: &Row, largest: u64, has_color: bool) -> Text<'static> {
    let (mut sum, mut drawn) = (0, 0);
    let mut spans = Vec::new();
    for (number, bytes) in parts(row).into_iter().enumerate() {
        sum += bytes;
        let until = crate::view::bar_steps(share(sum, largest), usize::from(BAR));
        let mark = if has_color { '█' } else { PARTS[number].1 };
        let text: String = std::iter::repeat_n(mark, until.saturating_sub(drawn)).collect();
        drawn = drawn.max(until);
        spans.push(Span::styled(text, paint(number, has_color)));
    }
    Text::from(spans)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_screen_of_two_tenants() {
        let mut app = App::new(By::Tenant, Sort::Resident);
        let row = |name: &str, resident: u64, cold: u64| Row {
            cgroup: Some(name.to_owned()),
            processes: 3,
            resident_bytes: resident << 20,
            older_than_10s_bytes: cold << 20,
            older_than_1m_bytes: cold << 19,
            swapped_bytes: 5 << 20,
            ..Row::default()
        };
        app.take(vec![
            row("/web", 90, 30),
            row("/web/a", 1, 0),
            row("/db\u{1b}[2J", 30, 30),
        ]);
        let mut terminal = Terminal::new(TestBackend::new(100, 7)).expect("no terminal");
        terminal
            .draw(|frame| draw(frame, &app, false))
            .expect("drawn");
        let screen = terminal.backend().to_string();
        for part in ["tenants below /", "web/", "90M", "30M", "5M", "r reclaim"] {
            assert!(screen.contains(part), "{part}:\n{screen}");
        }
        // Two thirds in use, a sixth each of two ages; the other a third as long.
        assert!(
            screen.contains(&("#".repeat(20) + &"+".repeat(5) + &"-".repeat(5))),
            "{screen}"
        );
        assert!(
            screen.contains(&("+".repeat(5) + &"-".repeat(5) + " ")),
            "{screen}"
        );
        assert!(!screen.contains('\u{1b}'), "{screen}");
    }
}
