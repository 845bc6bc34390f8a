//! The output of `recommend`: a table for people, or text for files that set limits.
//!
//! Invariant: names are not trusted. In a table they are printed as text; in a file for a program
//! they are quoted, or in a comment of one line. A part without a number gets no limits.

use std::fmt::Write;

use daemon::options::{Bytes, Millis};
use host::report::{Needed, Part, PressureOf, Price};
use serde::Serialize;

use crate::terminal::Style;

use super::memory::needed::{number, percent, setting};
use super::memory::words::waited;
use super::sheet::Sheet;
use super::text::{json_lines, plain};

/// The format of the output.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// A drop-in file for each unit
    Systemd,
    /// A resources stanza for each container: the request is the needed size, the limit the
    /// suggested one
    K8s,
    /// The limits of each service, for a compose file
    Compose,
    /// One JSON object with a list of parts
    Json,
}

/// All that `recommend` reports.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    /// The parts, largest first.
    pub(crate) parts: Vec<Part>,
    pub(crate) watched_ms: u64,
    pub(crate) price: Price,
    /// Share of the last 10 s in which at least one process waited for memory, in hundredths of a
    /// percent.
    pub(crate) pressure_some_avg10: Option<u32>,
    /// The processes whose waiting `pressure_some_avg10` measures.
    pub(crate) pressure_of: Option<PressureOf>,
    pub(crate) notes: Vec<String>,
}

/// Returns the text, with a newline at the end.
pub(crate) fn answer(answer: &Answer, format: Format, style: Style) -> String {
    match format {
        Format::Table => table(answer, style),
        Format::Systemd => each(answer, systemd),
        Format::K8s => each(answer, k8s),
        Format::Compose => compose(answer),
        Format::Json => json_lines(answer) + "\n",
    }
}

/// Width of all figures beside the name, in columns.
const FIGURES: usize = 58;

fn table(answer: &Answer, style: Style) -> String {
    let mut sheet = Sheet::new(style);
    let room = style.width.saturating_sub(FIGURES + 2).clamp(12, 60);
    sheet.dim(&format!(
        "{:<room$}{:>10}{:>10}{:>10}{:>8}{:>8}{:>6}{:>6}",
        "name", "now", "needs", "could go", "cost", "sure", "high", "max"
    ));
    for part in &answer.parts {
        let name = super::text::cut(
            &plain(&part.name, false),
            room.saturating_sub(1),
            style.unicode,
        );
        let now = Bytes(part.resident_bytes).to_string();
        let Some(needed) = &part.needed else {
            sheet.line(&format!("{name:<room$}{now:>10}{:>10}", "-"));
            continue;
        };
        let could_go = part.resident_bytes.saturating_sub(needed.bytes);
        let cost = percent(needed.cost_percent).replace("less than ", "<");
        sheet.line(&format!(
            "{name:<room$}{now:>10}{:>10}{:>10}{cost:>8}{:>8}{:>6}{:>6}",
            Bytes(needed.bytes).to_string(),
            Bytes(could_go).to_string(),
            needed.confidence.name(),
            setting(needed.suggest.memory_high_bytes),
            setting(needed.suggest.memory_max_bytes),
        ));
    }
    sheet.blank();
    if answer.parts.is_empty() {
        sheet.line("nothing has as much memory as that (--above)");
    }
    let text = format!(
        "high and max are for MemoryHigh and MemoryMax. Watched for {}; {}.",
        Millis(answer.watched_ms),
        answer.price.words(),
    );
    sheet.hanging("", &text);
    if let Some((hundredths, of)) = answer.pressure_some_avg10.zip(answer.pressure_of) {
        let text = waited(hundredths, of);
        sheet.hanging("", &format!("Pressure: {text}."));
    }
    for part in &answer.parts {
        if let Some(hundredths) = part.pressure_some_avg10.filter(|waited| *waited > 0) {
            let text = waited(hundredths, PressureOf::Group);
            sheet.hanging("  ", &format!("{}: {text}", plain(&part.name, false)));
        }
    }
    for part in answer.parts.iter().filter(|part| part.needed.is_some()) {
        let needed = part.needed.as_ref().filter(|needed| needed.why.len() > 1);
        if let Some(needed) = needed {
            let name = plain(&part.name, false);
            sheet.hanging("  ", &format!("{name}: {}", needed.why[1..].join(", ")));
        }
    }
    for note in &answer.notes {
        sheet.hanging("  ", note);
    }
    sheet.finish()
}

/// Returns the text of each part that has a number, with a blank line between two of them.
fn each(answer: &Answer, text_of: fn(&Part, &Needed) -> String) -> String {
    let parts = answer.parts.iter();
    let texts = parts.filter_map(|part| Some(text_of(part, part.needed.as_ref()?)));
    texts.collect::<Vec<String>>().join("\n")
}

/// Returns the number and its reasons, for a comment of one line.
fn from(needed: &Needed) -> String {
    format!(
        "needs {} of {} resident; {} confidence: {}",
        number(needed, ""),
        Bytes(needed.now_bytes),
        needed.confidence.name(),
        needed.why.join(", ")
    )
}

fn systemd(part: &Part, needed: &Needed) -> String {
    let name = plain(&part.name, false);
    let (section, unit) = match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("service") => ("Service", name.clone()),
        Some("scope") => ("Scope", name.clone()),
        Some("slice") => ("Slice", name.clone()),
        _ => ("Service", "UNIT.service".to_owned()),
    };
    format!(
        "# {name}: {}\n# /etc/systemd/system/{unit}.d/50-memory.conf\n[{section}]\nMemoryHigh={}\nMemoryMax={}\n",
        from(needed),
        setting(needed.suggest.memory_high_bytes),
        setting(needed.suggest.memory_max_bytes),
    )
}

/// Formats a size in the form that Kubernetes accepts: `48Mi`.
fn quantity(bytes: u64) -> String {
    format!("{}Mi", bytes.div_ceil(1 << 20).max(1))
}

fn k8s(part: &Part, needed: &Needed) -> String {
    let request = needed.bytes + needed.suggest.kernel_bytes + needed.suggest.shared_bytes;
    format!(
        "# {}: {}\nresources:\n  requests:\n    memory: {}\n  limits:\n    memory: {}\n",
        plain(&part.name, false),
        from(needed),
        quantity(request),
        quantity(needed.suggest.memory_max_bytes),
    )
}

fn compose(answer: &Answer) -> String {
    let mut text = "services:\n".to_owned();
    for part in &answer.parts {
        let Some(needed) = &part.needed else {
            continue;
        };
        let name = serde_json::to_string(&plain(&part.name, false)).unwrap_or_default();
        let _ = write!(
            text,
            "  # {}\n  {name}:\n    mem_reservation: {}m\n    mem_limit: {}m\n",
            from(needed),
            needed.suggest.memory_high_bytes.div_ceil(1 << 20),
            needed.suggest.memory_max_bytes.div_ceil(1 << 20),
        );
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use host::report::Confidence;

    use super::*;

    pub(crate) fn sample(name: &str) -> Answer {
        let needed = Needed {
            confidence: Confidence::High,
            ..super::super::memory::needed::sample()
        };
        let part = |name: &str, needed| Part {
            name: name.to_owned(),
            resident_bytes: 229 << 20,
            needed,
            pressure_some_avg10: Some(25),
            ..Part::default()
        };
        Answer {
            parts: vec![part(name, Some(needed)), part("young", None)],
            watched_ms: 300_000,
            price: Price::default(),
            pressure_some_avg10: Some(300),
            pressure_of: Some(PressureOf::Host),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_table_fits_and_has_each_part() {
        let text = answer(&sample("redis.service"), Format::Table, Style::PLAIN);
        let row = text.lines().find(|line| line.contains("redis.service"));
        let words: Vec<&str> = row.expect("a row").split_whitespace().collect();
        assert_eq!(
            words,
            [
                "redis.service",
                "229",
                "MiB",
                "34",
                "MiB",
                "195",
                "MiB",
                "0.02%",
                "high",
                "48M",
                "72M"
            ]
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("young"), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let reported = words.join(" ");
        assert!(
            reported.contains("processes of the whole host waited for memory in 3.00%"),
            "{reported}"
        );
    }

    #[test]
    fn files_have_what_programs_read() {
        let sample = sample("redis.service");
        let systemd = answer(&sample, Format::Systemd, Style::PLAIN);
        assert!(systemd.contains(
            "redis.service.d/50-memory.conf\n[Service]\nMemoryHigh=48M\nMemoryMax=72M\n"
        ));
        let k8s = answer(&sample, Format::K8s, Style::PLAIN);
        assert!(
            k8s.contains("requests:\n    memory: 35Mi\n  limits:\n    memory: 72Mi\n"),
            "{k8s}"
        );
        let compose = answer(&sample, Format::Compose, Style::PLAIN);
        assert!(
            compose
                .contains("  \"redis.service\":\n    mem_reservation: 48m\n    mem_limit: 72m\n")
        );
        let json: serde_json::Value =
            serde_json::from_str(&answer(&sample, Format::Json, Style::PLAIN)).expect("JSON");
        assert_eq!(json["parts"][0]["needed"]["confidence"], "high");
    }

    /// The user who starts a program chooses the program's name, so the name is not trusted.
    #[test]
    fn a_hostile_name_stays_one_line_of_text() {
        let sample = sample("a\nMemoryMax=1\u{1b}[2J: {x}\"");
        for format in [Format::Table, Format::Systemd, Format::K8s, Format::Compose] {
            let text = answer(&sample, format, Style::PLAIN);
            assert!(!text.contains('\u{1b}'), "{text}");
            assert!(
                !text.lines().any(|line| line.starts_with("MemoryMax=1")),
                "{text}"
            );
        }
    }
}
