//! Draws the screen of the browser.
//!
//! Invariant: a bar's length is its row's size relative to the largest row, and its parts are the
//! ages of the row's pages. Without colours the parts are drawn as different characters. However
//! narrow the terminal is, each row shows its name.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style as Ink};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};

use crate::terminal::Style;
use crate::view::share;
use crate::view::text::{cut, short_size};
use crate::view::top::{By, Row, Sort};

use super::app::{App, Line, Mode};

/// Width of a bar in columns, if the screen is wide enough.
const BAR: u16 = 30;
/// Minimum width of a name beside a bar; on a narrower screen the bar is shortened.
const NAME: u16 = 24;
/// Minimum width of a name without a bar; on a narrower screen figures are left out.
const NAME_MIN: u16 = 12;
/// Widths in columns of the figures between name and bar, the most important figure first.
const FIGURES: [u16; 4] = [9, 6, 8, 6];
/// Parts of a bar: text in the legend, character without colours, colour.
const PARTS: [(&str, char, Color); 5] = [
    ("used within 10s", '#', Color::Red),
    ("10s-1m", '+', Color::Yellow),
    ("1m-10m", '-', Color::Cyan),
    ("over 10m", '.', Color::Blue),
    ("not known", '?', Color::DarkGray),
];

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, style: Style) {
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
        Paragraph::new(at).style(Ink::new().add_modifier(Modifier::BOLD)),
        title,
    );
    frame.render_widget(Paragraph::new(key_of_colors(style)), legend);
    table(frame, body, app, style);
    frame.render_widget(
        Paragraph::new(below(app, style.unicode)).style(Ink::new().add_modifier(Modifier::DIM)),
        foot,
    );
}

/// Returns the character with which a part of a bar is drawn, by the part's index.
fn mark(part: usize, style: Style) -> char {
    match style.color && style.unicode {
        true => '█',
        false => PARTS[part].1,
    }
}

fn paint(part: usize, has_color: bool) -> Ink {
    match has_color {
        true => Ink::new().fg(PARTS[part].2),
        false => Ink::new(),
    }
}

fn key_of_colors(style: Style) -> Text<'static> {
    let parts = PARTS.iter().enumerate();
    let spans = parts.flat_map(|(number, (name, _, _))| {
        let mark = mark(number, style);
        [
            Span::styled(format!(" {mark} "), paint(number, style.color)),
            Span::raw(*name),
        ]
    });
    Text::from(spans.collect::<Vec<_>>())
}

/// Returns the screen's last line: the meaning of keys, or the last message.
fn below(app: &App, unicode: bool) -> String {
    match &app.mode {
        Mode::Filter => format!(
            " filter: {}_  (Enter keeps it, Esc takes it back)",
            app.filter
        ),
        _ if !app.message.is_empty() => format!(" {}", app.message),
        _ => {
            let (select, up) = if unicode {
                ("↑↓", "←")
            } else {
                ("arrows", "Left")
            };
            let keys = "s sort  / filter  r reclaim";
            format!(" q quit  {select} select  Enter descend  {up} up  {keys}")
        }
    }
}

fn table(frame: &mut Frame<'_>, area: Rect, app: &App, style: Style) {
    let lines = app.lines();
    let largest = lines
        .iter()
        .map(|line| line.row.resident_bytes)
        .max()
        .unwrap_or(0);
    // There is a gap of one column before each figure and before the bar.
    let columns_of = |count: usize| FIGURES[..count].iter().map(|one| one + 1).sum::<u16>() + 1;
    // A figure that is cut off would be wrong. So the name is shortened first, then whole figures
    // are left out.
    let has_room = |count: &usize| columns_of(*count) + NAME_MIN <= area.width;
    let shown = (1..=FIGURES.len()).rev().find(has_room).unwrap_or(0);
    let figures = columns_of(shown);
    let bar = BAR.min(area.width.saturating_sub(figures + NAME));
    let name = area.width.saturating_sub(figures + bar);
    let columns = Columns {
        name: usize::from(name),
        bar: usize::from(bar),
        shown,
        largest,
        wall_ms: app.wall_ms,
    };
    let rows = lines.iter().map(|line| table_row(line, &columns, style));
    let arrow = if style.unicode { "↓" } else { "v" };
    let mark = |sort: Sort, name: &str| match app.sort == sort {
        true => format!("{name}{arrow}"),
        false => name.to_owned(),
    };
    let heads = [
        mark(Sort::Resident, "resident"),
        mark(Sort::Cold, ">10s"),
        mark(Sort::Swapped, "swapped"),
        "procs".to_owned(),
    ];
    let head = std::iter::once("name".to_owned()).chain(heads.into_iter().take(shown));
    let head = TableRow::new(head.chain(std::iter::once("age of pages".to_owned())));
    let widths = std::iter::once(Constraint::Length(name))
        .chain(FIGURES[..shown].iter().copied().map(Constraint::Min))
        .chain(std::iter::once(Constraint::Length(bar)));
    let table = Table::new(rows, widths)
        .header(head.style(Ink::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Ink::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected((!lines.is_empty()).then_some(app.selected));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Layout and scale that all rows share.
struct Columns {
    /// Widths in columns: of a name, then of a bar.
    name: usize,
    bar: usize,
    /// Number of figures that fit.
    shown: usize,
    /// Resident bytes of the row with the longest bar.
    largest: u64,
    /// Milliseconds for which all rows have been watched.
    wall_ms: u64,
}

fn table_row(line: &Line, columns: &Columns, style: Style) -> TableRow<'static> {
    let row = &line.row;
    let below = if line.has_below { "/" } else { "" };
    let room = columns.name.saturating_sub(below.len());
    let name = cut(&line.name, room, style.unicode) + below;
    // No age can be longer than the time watched.
    let old = match row.older_than_10s_bytes {
        0 if columns.wall_ms < 10_000 => "-".to_owned(),
        bytes => short_size(bytes),
    };
    let figures = [
        short_size(row.resident_bytes),
        old,
        short_size(row.swapped_bytes),
        row.processes.to_string(),
    ];
    let shown = figures.into_iter().take(columns.shown).map(Cell::from);
    let cells = std::iter::once(Cell::from(name)).chain(shown);
    TableRow::new(cells.chain(std::iter::once(Cell::from(bar(row, columns, style)))))
}

/// Returns the resident bytes in each part of a row's bar, in the order of [`PARTS`].
fn parts(row: &Row, wall_ms: u64) -> [u64; PARTS.len()] {
    if wall_ms < 10_000 {
        // Pages not accessed since the last scan may have been accessed just before watching began.
        let young = row.young_bytes.min(row.resident_bytes);
        return [young, 0, 0, 0, row.resident_bytes - young];
    }
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

fn bar(row: &Row, columns: &Columns, style: Style) -> Text<'static> {
    let (mut sum, mut drawn) = (0, 0);
    let mut spans = Vec::new();
    for (number, bytes) in parts(row, columns.wall_ms).into_iter().enumerate() {
        sum += bytes;
        let until = crate::view::bar_steps(share(sum, columns.largest), columns.bar);
        let mark = mark(number, style);
        let text: String = std::iter::repeat_n(mark, until.saturating_sub(drawn)).collect();
        drawn = drawn.max(until);
        spans.push(Span::styled(text, paint(number, style.color)));
    }
    Text::from(spans)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn app(wall_ms: u64) -> App {
        let mut app = App::new(By::Tenant, Sort::Resident);
        let row = |name: &str, resident: u64, cold: u64| Row {
            cgroup: Some(name.to_owned()),
            processes: 3,
            resident_bytes: resident << 20,
            young_bytes: 1 << 20,
            older_than_10s_bytes: cold << 20,
            older_than_1m_bytes: cold << 19,
            swapped_bytes: 5 << 20,
            ..Row::default()
        };
        let rows = vec![
            row("/web", 90, 30),
            row("/web/a", 1, 0),
            row("/db\u{1b}[2J", 30, 30),
        ];
        app.set_rows(rows, wall_ms);
        app
    }

    fn screen(app: &App, width: u16, style: Style) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 7)).expect("no terminal");
        terminal
            .draw(|frame| draw(frame, app, style))
            .expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn a_screen_of_two_tenants() {
        let screen = screen(&app(700_000), 100, Style::PLAIN);
        for part in ["tenants below /", "web/", "90M", "30M", "5M", "r reclaim"] {
            assert!(screen.contains(part), "{part}:\n{screen}");
        }
        // The longest bar: two thirds in use, a sixth for each of two ages. The second bar is a
        // third as long.
        assert!(
            screen.contains(&("#".repeat(20) + &"+".repeat(5) + &"-".repeat(5))),
            "{screen}"
        );
        assert!(
            screen.contains(&("+".repeat(5) + &"-".repeat(5) + " ")),
            "{screen}"
        );
        assert!(!screen.contains('\u{1b}'), "{screen}");
        assert!(screen.is_ascii(), "{screen}");
    }

    /// Regression: on a screen of 66 columns or less, rows showed figures but no names.
    #[test]
    fn a_narrow_screen_has_names() {
        for width in [30, 40, 60, 66, 80] {
            let screen = screen(&app(700_000), width, Style::PLAIN);
            assert!(screen.contains("web/"), "{width}:\n{screen}");
            // Regression: on a screen of 40 columns, 90 MiB were shown as "90".
            let figures = screen.lines().filter(|line| line.contains("web/"));
            let words: Vec<&str> = figures.flat_map(str::split_whitespace).collect();
            assert!(words.contains(&"90M"), "{width}:\n{screen}");
            let is_cut = |word: &&str| ["9", "90", "30", "5"].contains(word);
            assert!(!words.iter().any(is_cut), "{width}:\n{screen}");
        }
    }

    /// Regression: in the first seconds all memory of a host was drawn as in use.
    #[test]
    fn ages_longer_than_the_watch_are_drawn_as_unknown() {
        let mut young = app(1_000);
        let mut rows = vec![Row {
            cgroup: Some("/web".to_owned()),
            resident_bytes: 90 << 20,
            young_bytes: 3 << 20,
            ..Row::default()
        }];
        young.set_rows(std::mem::take(&mut rows), 1_000);
        let screen = screen(&young, 100, Style::PLAIN);
        assert!(
            screen.contains(&("#".to_owned() + &"?".repeat(29))),
            "{screen}"
        );
        assert!(screen.contains(" - "), "{screen}");
    }
}
