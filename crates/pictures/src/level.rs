//! Draws one number over time as columns: refaults, or the share of time in which processes waited
//! for memory.
//!
//! Invariant: a column is as high as its number. A time without a number, or with 0, has no column.

use std::fmt::Write;

use crate::axis::{Mark, WHOLE, counts, place, times};
use crate::figure::Figure;
use crate::track::{Moment, Track};

/// Draws the refaults per minute, in pages. Returns an empty text if they are unknown at all times.
#[must_use]
pub fn refaults(track: &Track) -> String {
    let name = |pages: u64| match pages {
        0..10_000 => pages.to_string(),
        10_000..10_000_000 => format!("{}k", pages / 1_000),
        pages => format!("{}M", pages / 1_000_000),
    };
    draw(
        track,
        ("Pages that came back, a minute", "back"),
        |moment| moment.back,
        10,
        name,
    )
}

/// Draws the share of time in which some process waited for memory. Returns an empty text if the
/// share is unknown at all times.
#[must_use]
pub fn waited(track: &Track) -> String {
    let name = |hundredths: u64| match hundredths % 100 {
        0 => format!("{}%", hundredths / 100),
        rest => format!("{}.{rest:02}%", hundredths / 100),
    };
    let of = |moment: &Moment| moment.waited.map(u64::from);
    draw(
        track,
        (
            "Share of the time in which a process waited for memory",
            "waited",
        ),
        of,
        100,
        name,
    )
}

/// Draws the numbers that `of` returns as columns; `name` formats a number. The axis reaches at
/// least up to `least`, so that very small numbers do not appear large.
fn draw(
    track: &Track,
    (title, class): (&str, &str),
    of: impl Fn(&Moment) -> Option<u64>,
    least: u64,
    name: impl Fn(u64) -> String,
) -> String {
    let Some(highest) = track.moments().filter_map(&of).max() else {
        return String::new();
    };
    let most = highest.max(least);
    let ys: Vec<Mark> = counts(most, &name);
    let mut path = String::new();
    for (column, moment) in track.columns.iter().enumerate() {
        let level = moment.as_ref().and_then(&of).filter(|level| *level > 0);
        if let Some(level) = level {
            // A number above 0 is always visible: at least a tenth of a percent of the height.
            let high = place(level, most).max(1);
            let _ = write!(path, "M{column} {WHOLE}v-{high}h1v{high}z");
        }
    }
    let content = format!("<path class=\"{class}\" d=\"{path}\"/>\n");
    let says = format!("at most {}", name(highest));
    let figure = Figure {
        class: "level",
        title,
        says: &says,
        ys: &ys,
        xs: &times(track),
        is_timed: true,
        field: (track.width(), WHOLE, &content),
        legend: "",
    };
    figure.html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::Clock;

    fn track(back: &[Option<u64>]) -> Track {
        let moment = |back: &Option<u64>| {
            Some(Moment {
                back: *back,
                waited: back.and_then(|back| u32::try_from(back).ok()),
                ..Moment::default()
            })
        };
        Track {
            from_ms: 0,
            step_ms: 1000,
            columns: back.iter().map(moment).collect(),
            clock: Clock::Ago,
        }
    }

    #[test]
    fn columns_are_as_high_as_their_numbers() {
        let html = refaults(&track(&[Some(0), None, Some(20), Some(40), Some(1)]));
        let path = "d=\"M2 1000v-500h1v500zM3 1000v-1000h1v1000zM4 1000v-25h1v25z\"";
        assert!(html.contains(path) && html.contains("at most 40"), "{html}");
        assert_eq!(refaults(&track(&[None])), "");
        let little = refaults(&track(&[Some(1)]));
        assert!(
            little.contains("v-100h1"),
            "one page is a tenth of the picture: {little}"
        );
        let shares = waited(&track(&[Some(1), Some(250)]));
        assert!(
            shares.contains("at most 2.50%") && shares.contains("v-4h1"),
            "{shares}"
        );
        assert!(refaults(&track(&[Some(u64::MAX), Some(1)])).contains("v-1h1"));
    }
}
