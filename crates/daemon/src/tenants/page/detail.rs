//! The dashboard's part about one tenant: its figures now and over time, and the actions on it.

use std::fmt::Write;

use engine::Bytes;
use host::manage::tenants::figures::TenantFigures;
use host::report::Saving;
use pictures::{Hints, Moment, Track, area, escaped, heat, refaults, waited};

use super::super::history::cut;
use super::super::snapshot::name_of;
use super::View;
use super::numbers::{count, percent, share, time};
use crate::curves::Cost;

/// Most actions that are shown for a tenant.
const ACTIONS_MAX: usize = 100;

/// Returns the HTML of the whole part.
pub(super) fn detail(view: &View) -> String {
    let name = &view.query.tenant;
    let track = view.history.track(view.query.range, name, view.now_ms);
    let figures = view
        .snapshot
        .figures
        .tenants
        .iter()
        .find(|one| name_of(&one.path) == *name);
    let mut text = format!(
        "<section class=\"detail\" aria-label=\"one tenant\" data-track=\"{}\">\n<h2>{}</h2>\n",
        data(&track),
        escaped(name)
    );
    match figures {
        Some(figures) => text += &cards(view, figures),
        None if view.history.has(name) => {
            text += "<p class=\"note\">This tenant no longer exists.</p>\n";
        }
        None => text += "<p class=\"note\">There is no such tenant.</p>\n",
    }
    text += "<p class=\"readout\" aria-live=\"polite\"></p>\n";
    if track.last().is_some() {
        text += &heat(&track, Hints::None);
        text += &area(&track);
        text += &refaults(&track);
        text += &waited(&track);
    }
    if let Some(figures) = figures {
        text += &cost(view, figures);
    }
    text + &actions(view) + "</section>\n"
}

/// Returns the HTML about what less memory would cost the tenant.
fn cost(view: &View, figures: &TenantFigures) -> String {
    let heading = "<h3>What less memory would cost</h3>\n";
    let Some(curve) = view.curve else {
        let name = escaped(&shell_word(&view.query.tenant));
        return format!(
            "{heading}<p class=\"note\">Not known yet: it takes some scans. <code>pagetide report --curve {name}</code> \
             requests it from <code>pagetide serve</code>.</p>\n"
        );
    };
    let moment = ages_of(figures);
    let cost = Cost {
        curve,
        resident_bytes: moment.resident(),
        unknown_age_bytes: moment.unknown,
    };
    heading.to_owned() + &cost.html()
}

/// Quotes a name for a shell: the user may copy the command and run it as root.
fn shell_word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._@:-".contains(c);
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

/// Returns a tenant's resident memory by age, summed over all nodes.
pub(super) fn ages_of(figures: &TenantFigures) -> Moment {
    let mut moment = Moment {
        swapped: figures.swapped,
        ..Moment::default()
    };
    for node in &figures.nodes {
        for ty in 0..2 {
            let bins = moment.ages.iter_mut().zip(node.ages[ty]);
            bins.for_each(|(sum, bytes)| *sum += bytes);
            moment.unknown += node.unknown[ty];
        }
    }
    moment
}

fn cards(view: &View, figures: &TenantFigures) -> String {
    let moment = ages_of(figures);
    let resident = moment.resident();
    let recent = view.history.recent(view.now_ms);
    let recent = recent
        .get(cut(&view.query.tenant).as_str())
        .copied()
        .unwrap_or_default();
    let charged = figures.charged.map_or(String::new(), |bytes| {
        format!("{} charged by the kernel", Bytes(bytes))
    });
    let older =
        |ms: u64, name: &str| format!("{} for {name}", percent(moment.older_than(ms), resident));
    let back = match recent.back {
        None => String::new(),
        Some(0) => "no refaults".to_owned(),
        back => format!("{} refaults a minute", count(back)),
    };
    let unknown = match moment.unknown {
        0 => String::new(),
        bytes => format!("{} of unknown age", Bytes(bytes)),
    };
    let waits = match share(recent.waited).as_str() {
        "" => ("-".to_owned(), "not reported by this kernel".to_owned()),
        "-" => ("0%".to_owned(), "of the time, lately".to_owned()),
        share => (share.to_owned(), "of the time, lately".to_owned()),
    };
    let saving = Saving::of(figures.swapped, view.snapshot.swap, None);
    let saved = saving.net().unwrap_or_else(|| "-".to_owned());
    let taken = match saving.compressed_bytes {
        Some(0) => String::new(),
        Some(bytes) => format!("net of {} compressed, shared out by pages", Bytes(bytes)),
        None => "what swap takes in memory is not known".to_owned(),
    };
    let cards = [
        ("in memory", Bytes(resident).to_string(), charged),
        (
            "not touched for 1m",
            percent(moment.older_than(60_000), resident),
            format!("{}, {}", older(10_000, "10s"), older(600_000, "10m")),
        ),
        ("in swap", Bytes(figures.swapped).to_string(), back),
        ("saved by that", saved, taken),
        ("a process waited for memory", waits.0, waits.1),
    ];
    let mut text = "<div class=\"cards\">\n".to_owned();
    for (name, figure, below) in cards {
        let _ = writeln!(
            text,
            "<div><b>{figure}</b><span>{name}</span><small>{below}</small></div>"
        );
    }
    if !unknown.is_empty() {
        let _ = writeln!(
            text,
            "<div><b>{}</b><span>unknown</span><small>{unknown}</small></div>",
            percent(moment.unknown, resident)
        );
    }
    text + "</div>\n"
}

/// Encodes the figures of the pictures for the script: KiB, pages a minute, hundredths of a
/// percent.
fn data(track: &Track) -> String {
    let mut text = format!("[{},{}", track.from_ms, track.step_ms);
    for moment in &track.columns {
        let Some(moment) = moment else {
            text += ",0";
            continue;
        };
        let number =
            |number: Option<u64>| number.map_or("-1".to_owned(), |number| number.to_string());
        let _ = write!(
            text,
            ",[{},{},{},{}",
            moment.unknown / 1024,
            moment.swapped / 1024,
            number(moment.back),
            number(moment.waited.map(u64::from))
        );
        // The ages end with the oldest class that has pages.
        let last = moment
            .ages
            .iter()
            .rposition(|bytes| *bytes > 0)
            .map_or(0, |last| last + 1);
        for bytes in &moment.ages[..last] {
            let _ = write!(text, ",{}", bytes / 1024);
        }
        text.push(']');
    }
    text + "]"
}

/// Returns the HTML of the actions on the tenant and their reasons, the newest first.
fn actions(view: &View) -> String {
    let name = &view.query.tenant;
    let of_this = view
        .history
        .actions()
        .rev()
        .filter(|action| concerns(&action.text, name));
    let mut text = "<h3>What was done, and why</h3>\n".to_owned();
    let mut rows = String::new();
    for action in of_this.take(ACTIONS_MAX) {
        let _ = writeln!(
            rows,
            "<li>{} {}</li>",
            time(action.at_ms, view.now_ms),
            escaped(&action.text)
        );
    }
    if rows.is_empty() {
        return text + "<p class=\"note\">Nothing yet.</p>\n";
    }
    let _ = write!(text, "<ol class=\"actions\">\n{rows}</ol>\n");
    text
}

/// Whether an action's text names the tenant `name`, or a tenant below it, as in ` of /web: `.
fn concerns(text: &str, name: &str) -> bool {
    if name == "/" || text.contains("all tenants") {
        return true;
    }
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        before.is_none_or(|c| c == ' ')
            && after.is_none_or(|c| matches!(c, ':' | ',' | ';' | ' ' | '/' | '.'))
    })
}

#[cfg(test)]
mod tests {
    use super::{concerns, shell_word};

    #[test]
    fn a_command_can_be_copied() {
        assert_eq!(shell_word("/a-b.slice/c@1"), "/a-b.slice/c@1");
        assert_eq!(shell_word("/a\\x2db"), "'/a\\x2db'");
        assert_eq!(shell_word("/it's; rm"), "'/it'\\''s; rm'");
    }

    #[test]
    fn actions_name_their_tenants() {
        let text = "paged out 7 pages of /web/a: over memory.high";
        for (name, is) in [
            ("/", true),
            ("/web", true),
            ("/web/a", true),
            ("/web/ab", false),
            ("/a", false),
            ("/we", false),
        ] {
            assert_eq!(concerns(text, name), is, "{name}");
        }
        assert!(concerns(
            "paged out 7 pages of all tenants: the host has 5 MiB available",
            "/x"
        ));
    }
}
