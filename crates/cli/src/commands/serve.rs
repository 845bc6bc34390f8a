//! `pagetide serve`: stays in front until a signal ends it.
//!
//! Invariant: what it does is told line by line, with the reason; ^C and SIGTERM end it in order, and tenants stay as
//! they are.

use std::time::Duration;

use daemon::options::Size;
use daemon::tenants::{self, Log};

use crate::args::{Global, Serve};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::text::plain;

use super::live::Live;

/// Lines are all that it draws.
const PACE: Duration = Duration::from_secs(10);

pub(super) fn serve(args: &Serve) -> Result<u8, Failure> {
    if args.age_every.0 == 0 {
        let hint = "write e.g. `--age-every 10s`";
        return Err(Failure::usage(
            "--age-every 0: a period must be longer than nothing",
            hint,
        ));
    }
    let max = args.memory_max.map(of_host).transpose()?;
    let asked = tenants::Serve {
        root: args.root.clone(),
        mount: args.mount.clone(),
        interval: Duration::from_millis(args.age_every.0),
        max,
        by_iterator: args.global == Global::Iterator,
    };
    let style = Style::of_stdout();
    let place = args.mount.as_ref().map(|at| at.display().to_string());
    let mut front = Front {
        live: Live::new(style, PACE),
        style,
        place,
    };
    tenants::serve(&asked, &mut front)?;
    Ok(0)
}

/// A share is one of this host's memory.
fn of_host(size: Size) -> Result<daemon::options::Limit, Failure> {
    let total = host::system::Proc::system().and_then(|proc| proc.memory());
    let total = total.map_err(daemon::Error::from)?.total;
    Ok(size.of(daemon::options::Bytes(total)))
}

/// Who looks on from a terminal or a log.
struct Front {
    live: Live,
    style: Style,
    place: Option<String>,
}

impl Log for Front {
    fn ready(&mut self, notes: &[String]) {
        for note in notes {
            self.live.say(&plain(note, self.style.unicode));
        }
        let at = self.place.as_ref().map(|place| format!(" at {place}"));
        self.live
            .say(&format!("serving{}; ^C ends it", at.unwrap_or_default()));
    }

    fn actions(&mut self, lines: &[String]) {
        for line in lines {
            self.live.say(&plain(line, self.style.unicode));
        }
    }
}
