//! Horizontal bars, and the ages of the rows that they stand for.
//!
//! Invariant: a bar is exactly as wide as requested. A share above 0 is never drawn as an empty
//! bar, and one below 1 never as a full bar.

use daemon::options::Millis;

/// Draws a bar that fills `fraction` (0 to 1; more counts as 1) of `width` columns: in eighths of a
/// column with Unicode, in whole columns with ASCII.
pub(crate) fn bar(fraction: f64, width: usize, unicode: bool) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let steps = if unicode { width * 8 } else { width };
    let filled = filled_steps(fraction, steps);
    if !unicode {
        return "#".repeat(filled) + &"-".repeat(width - filled);
    }
    let mut text = "█".repeat(filled / 8);
    if !filled.is_multiple_of(8) {
        text.push(EIGHTHS[filled % 8]);
    }
    let used = filled.div_ceil(8);
    text + &" ".repeat(width - used)
}

/// Returns how many of `steps` a fraction fills; for a fraction between 0 and 1, neither none nor
/// all.
pub(crate) fn filled_steps(fraction: f64, steps: usize) -> usize {
    if steps == 0 || fraction.is_nan() || fraction <= 0.0 {
        return 0;
    }
    if fraction >= 1.0 {
        return steps;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction below 1 of a terminal's width"
    )]
    let filled = (fraction * steps as f64).round() as usize;
    filled.clamp(1, steps.saturating_sub(1).max(1))
}

/// Lower edges of the rows of ages, in seconds. They are fixed, so that rows keep their places
/// during a watch. Each is an edge of the report's bins, as memory would otherwise be shown in a
/// wrong row.
pub(super) const ROWS_S: [u64; 13] = [0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];

/// Formats a range of ages: `up to 1s`, `10s - 20s`, `over 1h`.
pub(super) fn age(from: u64, to: Option<u64>) -> String {
    match to {
        Some(to) if from == 0 => format!("up to {}", Millis(to)),
        Some(to) => format!("{} - {}", Millis(from), Millis(to)),
        None => format!("over {}", Millis(from)),
    }
}
