//! The demo's result: one line for each claim, with its figure, and whether the claim holds.
//!
//! Invariant: whether a claim holds is decided by the kernel's figures and the program's own. A
//! timing that may be noise, or is only slightly low, is reported as unclear, and is no failure.

use std::io::{self, Write};

use daemon::options::{Bytes, Pages};
use serde::Serialize;

use super::pairs::Ratio;
use super::workload::{BLOCK, BLOCKS, is_hot};
use crate::failure::Failure;
use crate::terminal::Style;
use crate::view::count;
use crate::view::sheet::{Ink, Sheet};
use crate::view::text::json_lines;

/// Relative speed below which the managed program is too slow, even on a busy machine. (The speed
/// is relative to the program alone.)
const SPEED_MIN: f64 = 0.8;
/// Relative speed from which the two programs count as equally fast.
const SPEED_EQUAL_MIN: f64 = 0.97;

/// The result of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Holds,
    /// The measurement does not decide; this is not a failure.
    Unclear,
    Fails,
}

/// One claim of the result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Claim {
    claim: &'static str,
    figure: String,
    state: State,
}

/// The kernel's figures for the program, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct Sizes {
    /// VmRSS: resident bytes.
    pub(super) resident: u64,
    /// VmSwap: swapped-out bytes.
    pub(super) swapped: u64,
}

/// All that was measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(super) struct Measured {
    /// Pages checked a second by the program alone, before anything was managed.
    pub(super) alone_pages_per_s: u64,
    /// Memory older than 2 s, according to pagetide's report.
    pub(super) found_cold_bytes: u64,
    /// Memory of unknown age, according to pagetide's report.
    pub(super) unknown_bytes: u64,
    /// Number of paged-out pages, according to pagetide's report.
    pub(super) evicted_pages: u64,
    pub(super) before: Sizes,
    pub(super) after: Sizes,
    /// Compression ratio of zram: original bytes divided by compressed bytes; `None` if unknown.
    pub(super) compression: Option<f64>,
    /// Speed relative to the program alone, while the managed program had a manager.
    pub(super) speed: Option<Ratio>,
    /// Speed relative to the program alone after the manager was killed.
    pub(super) speed_after_kill: Option<Ratio>,
    pub(super) manager: u32,
    pub(super) manager_is_gone: bool,
    /// Checksums of the program alone, then of the managed one.
    pub(super) checksums: [String; 2],
    pub(super) exits: [Option<i32>; 2],
    /// The zram device that the demo made and removes.
    pub(super) zram: Option<String>,
}

/// Returns the bytes that the program never accesses after it has filled them.
pub(super) fn truly_cold() -> u64 {
    let hot = (0..BLOCKS).filter(|block| is_hot(*block)).count();
    ((BLOCKS - hot) * BLOCK) as u64
}

/// The result, which is printed as text or as JSON.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Verdict {
    ok: bool,
    truly_cold_bytes: u64,
    claims: Vec<Claim>,
    measured: Measured,
}

fn claim(claim: &'static str, figure: String, holds: bool) -> Claim {
    let state = match holds {
        true => State::Holds,
        false => State::Fails,
    };
    Claim {
        claim,
        figure,
        state,
    }
}

/// Returns whether a figure is within 1% of the true value.
fn is_near(figure: u64, truth: u64) -> bool {
    figure.abs_diff(truth) <= truth / 100
}

impl Measured {
    /// Returns whether the cold memory was found, to within 1%.
    pub(super) fn has_found(&self) -> bool {
        is_near(self.found_cold_bytes, truly_cold())
    }

    fn found(&self) -> Claim {
        let (found, truth) = (self.found_cold_bytes, truly_cold());
        let mut figure = format!(
            "{} by pagetide's count, {} in truth; the kernel knows sizes alone: VmRSS {}, VmSwap {}",
            Bytes(found),
            Bytes(truth),
            Bytes(self.before.resident),
            Bytes(self.before.swapped)
        );
        if !self.has_found() {
            figure += &format!("; {} of unknown age", Bytes(self.unknown_bytes));
        }
        claim("cold memory found", figure, self.has_found())
    }

    fn taken(&self) -> Claim {
        let newly_swapped = self.after.swapped.saturating_sub(self.before.swapped);
        let fell = self.before.resident.saturating_sub(self.after.resident);
        let ratio = self
            .compression
            .map(|ratio| format!(", kept in 1/{ratio:.1} of that"));
        let figure = format!(
            "VmRSS {} -> {}, VmSwap {} -> {}; {} by pagetide's count{}",
            Bytes(self.before.resident),
            Bytes(self.after.resident),
            Bytes(self.before.swapped),
            Bytes(self.after.swapped),
            Pages(self.evicted_pages).bytes(),
            ratio.unwrap_or_default()
        );
        let holds = is_near(newly_swapped, truly_cold()) && fell >= truly_cold() / 100 * 99;
        claim("taken back", figure, holds)
    }

    fn speed(&self) -> Claim {
        let Some(ratio) = self.speed else {
            return claim("as fast as alone", "too few pairs".to_owned(), false);
        };
        let figure = format!(
            "{} of alone ({} pairs; between {} and {}, 95% sure)",
            percent(ratio.median),
            ratio.pairs,
            percent(ratio.low),
            percent(ratio.high)
        );
        let mut reported = claim("as fast as alone", figure, ratio.median >= SPEED_MIN);
        let is_same = ratio.high >= 1.0 || ratio.median >= SPEED_EQUAL_MIN;
        if reported.state == State::Holds && !is_same {
            reported.state = State::Unclear;
            reported.figure += "; the machine may be busy";
        }
        reported
    }

    fn killed(&self) -> Claim {
        let after = self.speed_after_kill.as_ref();
        let speed = after.map(|ratio| format!(", at {} of alone", percent(ratio.median)));
        let goes_on = speed.is_some();
        let figure = match (self.manager_is_gone, speed) {
            (false, _) => format!("manager {} could not be killed", self.manager),
            (true, speed) => format!(
                "kill -9 of manager {}: the program went on{}",
                self.manager,
                speed.unwrap_or_default()
            ),
        };
        claim("manager killed", figure, self.manager_is_gone && goes_on)
    }

    fn answer(&self) -> Claim {
        let [alone, managed] = &self.checksums;
        let is_same = alone == managed && !alone.is_empty() && self.exits == [Some(0); 2];
        let figure = match is_same {
            true => format!(
                "checksum {alone} of all {}, exit status 0",
                Bytes((BLOCKS * BLOCK) as u64)
            ),
            false => format!(
                "checksums {alone} alone, {managed} managed; exit statuses {:?}",
                self.exits
            ),
        };
        claim("same answer", figure, is_same)
    }

    /// Decides which claims hold.
    pub(super) fn verdict(self) -> Verdict {
        let claims = vec![
            self.found(),
            self.taken(),
            self.speed(),
            self.killed(),
            self.answer(),
        ];
        Verdict {
            ok: claims.iter().all(|claim| claim.state != State::Fails),
            truly_cold_bytes: truly_cold(),
            claims,
            measured: self,
        }
    }
}

impl Verdict {
    pub(super) fn print(&self, json: bool, style: Style) -> io::Result<()> {
        let text = match json {
            true => json_lines(self) + "\n",
            false => self.text(style),
        };
        io::stdout().lock().write_all(text.as_bytes())
    }

    fn text(&self, style: Style) -> String {
        let mut sheet = Sheet::new(style);
        sheet.blank();
        for claim in &self.claims {
            let state: (Ink, &str) = match claim.state {
                State::Holds => (Style::green, "ok     "),
                State::Unclear => (Style::yellow, "unclear"),
                State::Fails => (Style::red, "NOT OK "),
            };
            let is_narrow = style.width < 60;
            match is_narrow {
                false => sheet.marked(state, &format!("  {:17}  ", claim.claim), &claim.figure),
                true => {
                    sheet.marked(state, "  ", claim.claim);
                    sheet.hanging("   ", &claim.figure);
                }
            }
        }
        sheet.blank();
        sheet.hanging(
            "Next: ",
            "pagetide report PID, or --all: what your own programs really need",
        );
        sheet.hanging(
            "      ",
            "pagetide swap on, then: pagetide run --evict-older-than 1m -- CMD",
        );
        sheet.finish()
    }

    /// Returns the failure for the first claim that does not hold; `None` if all claims hold.
    pub(super) fn first_failure(&self) -> Option<Failure> {
        let is_bad = |claim: &&Claim| claim.state == State::Fails;
        let bad = self.claims.iter().find(is_bad)?;
        Some(Failure::new(
            format!(
                "the demo did not show what it should: {}: {}",
                bad.claim, bad.figure
            ),
            "if the machine was not short of memory, please report it with `pagetide demo --json` and `pagetide doctor --json`",
        ))
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Formats a rate as `1,234 pages a second`.
pub(super) fn pages_per_s(pages: u64) -> String {
    format!("{} pages a second", count(pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(median: f64) -> Option<Ratio> {
        let (low, high, pairs) = (median - 0.01, median + 0.01, 50);
        Some(Ratio {
            median,
            low,
            high,
            pairs,
        })
    }

    fn good() -> Measured {
        let cold = truly_cold();
        Measured {
            found_cold_bytes: cold + (100 << 10),
            evicted_pages: cold / 4096,
            before: Sizes {
                resident: cold + (24 << 20),
                swapped: 0,
            },
            after: Sizes {
                resident: 24 << 20,
                swapped: cold,
            },
            speed: ratio(1.0),
            speed_after_kill: ratio(1.0),
            manager: 7,
            manager_is_gone: true,
            checksums: ["ab".to_owned(), "ab".to_owned()],
            exits: [Some(0); 2],
            ..Measured::default()
        }
    }

    /// Regression: the fields of `measured` were documented on no page.
    #[test]
    fn every_json_field_is_documented() {
        let pages = [
            include_str!("../../../../../docs/usage.md"),
            include_str!("../../../../../docs/demo.md"),
        ];
        let reported = serde_json::to_value(good().verdict()).expect("it is JSON");
        let mut all = crate::view::tests::names(&reported);
        all.retain(|name| !pages.iter().any(|page| page.contains(&format!("`{name}`"))));
        assert!(all.is_empty(), "no page has {all:?}");
    }

    #[test]
    fn each_claim_can_fail() {
        assert!(good().verdict().ok && good().verdict().first_failure().is_none());
        let fails: [fn(&mut Measured); 6] = [
            |m| m.found_cold_bytes /= 2,
            |m| m.after.swapped /= 2,
            |m| m.speed = ratio(0.5),
            |m| m.manager_is_gone = false,
            |m| m.checksums[1] = "cd".to_owned(),
            |m| m.exits[1] = None,
        ];
        for fail in fails {
            let mut measured = good();
            fail(&mut measured);
            let verdict = measured.verdict();
            assert!(
                !verdict.ok && verdict.first_failure().is_some(),
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn a_busy_machine_is_no_failure() {
        let mut measured = good();
        measured.speed = ratio(0.9);
        let verdict = measured.verdict();
        assert!(verdict.ok);
        assert!(
            verdict
                .text(Style::PLAIN)
                .contains("unclear  as fast as alone"),
            "{verdict:?}"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40, 80] {
            let style = Style {
                width,
                ..Style::PLAIN
            };
            let text = good().verdict().text(style);
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{text}"
            );
        }
    }
}
