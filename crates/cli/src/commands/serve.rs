//! `pagetide serve`: stays in the foreground until a signal ends it.
//!
//! Invariant: `serve` prints a line for each action, with the reason. ^C and SIGTERM end `serve` in
//! an orderly way, and tenants stay as they are.

use std::path::Path;
use std::time::Duration;

use daemon::tenants::{self, Log, ServeOptions, config};

use crate::args::{Global, Serve};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::text::plain;

use super::live::Live;

/// A pace that [`Live::new`] requires; it has no effect, as `serve` never shows a progress line.
const PACE: Duration = Duration::from_secs(10);

pub(super) fn serve(args: &Serve) -> Result<u8, Failure> {
    let times = [
        ("age-every", args.age_every),
        ("write-back-older-than", args.write_back_older_than),
        ("recompress-older-than", args.recompress_older_than),
    ];
    for (name, time) in times {
        if time.is_some_and(|time| time.0 == 0) {
            let what = format!("--{name} 0: a period must be longer than nothing");
            return Err(Failure::usage(what, format!("write e.g. `--{name} 10s`")));
        }
    }
    let global = args.global.map(|how| match how {
        Global::MemcgLru => config::Global::MemcgLru,
        Global::Iterator => config::Global::Iterator,
        Global::HeatLevel => config::Global::HeatLevel,
    });
    let given = ServeOptions {
        config: args.config.clone(),
        mount: args.mount.clone(),
        mount_socket: args.mount_socket.clone(),
        root: args.root.clone(),
        memory_max: args.memory_max,
        age_every: args.age_every,
        look_budget: args.look_budget,
        own_memory: args.own_memory,
        evict_by: args.evict_by,
        write_back_older_than: args.write_back_older_than,
        write_back_max: args.write_back_max,
        write_back_from: args.write_back_from.clone(),
        recompress_older_than: args.recompress_older_than,
        dry_run: args.dry_run,
        global,
        host: args.host.clone(),
        manage_host: args.manage_host,
        listen: args.listen.clone(),
        token_file: args.token_file.clone(),
        history: args.history.clone(),
    };
    let style = Style::of_stdout();
    let mut front = Front {
        live: Live::new(style, PACE),
        style,
    };
    tenants::serve(&given, &mut front)?;
    Ok(0)
}

/// What the user sees of `serve`, on a terminal or in a log.
struct Front {
    live: Live,
    style: Style,
}

impl Log for Front {
    fn ready(&mut self, mount: Option<&Path>, listens: &[String], notes: &[String]) {
        for note in notes.iter().chain(listens) {
            self.live.say(&plain(note, self.style.unicode));
        }
        let at = mount.map(|at| format!(" at {}", at.display()));
        self.live
            .say(&format!("serving{}; ^C ends it", at.unwrap_or_default()));
    }

    fn actions(&mut self, lines: &[String]) {
        for line in lines {
            self.live.say(&plain(line, self.style.unicode));
        }
    }
}
