//! `pagetide attach`: stays in the foreground until the process ends, a time has passed, or ^C.
//!
//! Invariant: on the first ^C or SIGTERM, pagetide detaches from the process in an orderly way; a
//! second one ends pagetide at once. Either way the process continues unchanged.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use daemon::options::Limits;
use daemon::record::{self, About};
use daemon::serve::{RunningManager, Watcher};
use host::report::Report;

use crate::args::Attach;
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view;
use crate::view::memory;
use crate::view::text::{json_lines, plain};

use super::live::Live;
use super::requests;

/// Time between two status lines if the output is not a terminal.
const PLAIN_PACE: Duration = Duration::from_secs(10);
/// Time between two status lines on a terminal.
const LIVE_PACE: Duration = Duration::from_secs(1);

pub(super) fn attach(args: &Attach) -> Result<u8, Failure> {
    let options = args.knobs.options()?;
    let chosen = requests::chosen(&args.whose)?;
    let name = chosen.tenant.to_string();
    let record = args.record.record.as_deref();
    let record = record.map(record::create).transpose()?;
    let mut served = RunningManager::begin(chosen, options.clone(), false)?;
    if let Some(file) = record {
        let about = About::command(&[OsString::from(&name)], args.record.record_max.0);
        served.record(about.begin(file));
    }
    let style = Style::of_stdout();
    let mut front = Front {
        live: (!args.json).then(|| Live::new(style, PLAIN_PACE)),
        style,
        limits: options.limits,
        end: args
            .time
            .map(|time| Instant::now() + Duration::from_millis(time.0)),
        pace: if style.live { LIVE_PACE } else { PLAIN_PACE },
        last: None,
    };
    front.say(&format!(
        "managing {}; ^C stops managing it",
        plain(&name, style.unicode)
    ));
    for note in served.notes() {
        front.say(&format!("continues with less: {note}"));
    }
    let (report, ended) = served.stay(&mut front);
    if let Some(live) = front.live {
        live.close();
    }
    let text = match args.json {
        true => json_lines(&report) + "\n",
        false => memory::human(&report, style),
    };
    let written = std::io::Write::write_all(&mut std::io::stdout().lock(), text.as_bytes());
    // A failure of the manager is reported even if the report could not be written.
    ended?;
    written?;
    Ok(0)
}

/// What the user sees while the manager runs, on a terminal or in a log.
struct Front {
    live: Option<Live>,
    style: Style,
    limits: Limits,
    end: Option<Instant>,
    pace: Duration,
    last: Option<Instant>,
}

impl Front {
    fn say(&mut self, line: &str) {
        if let Some(live) = &mut self.live {
            live.say(line);
        }
    }

    fn is_late(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

impl Watcher for Front {
    fn is_due(&self) -> bool {
        let shows = self.live.is_some() && self.last.is_none_or(|last| last.elapsed() >= self.pace);
        shows || self.is_late()
    }

    fn pace(&self) -> Option<Duration> {
        let until_end = self
            .end
            .map(|end| end.saturating_duration_since(Instant::now()));
        Some(until_end.unwrap_or(self.pace).min(self.pace))
    }

    fn actions(&mut self, lines: &[String]) {
        for line in lines {
            self.say(&plain(line, self.style.unicode));
        }
    }

    fn report(&mut self, report: &Report) -> bool {
        self.last = Some(Instant::now());
        let line = view::status(report, self.limits, self.style);
        if let Some(live) = &mut self.live {
            live.update(&line);
        }
        !self.is_late()
    }
}
