//! Results as text for people and scripts. Nothing in these modules prints.

mod bars;
mod status;
pub(crate) mod text;

#[cfg(feature = "simulator")]
pub(crate) mod curves;
pub(crate) mod sheet;

pub(crate) mod findings;
pub(crate) mod memory;

pub(crate) mod recommend;
pub(crate) mod swap;
pub(crate) mod top;

pub(crate) use bars::bar;
#[cfg(feature = "dashboard")]
pub(crate) use bars::filled_steps as bar_steps;
pub(crate) use status::status;

/// Formats a number with separators: `12,345`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats milliseconds as a duration: `0.4s`, `12s`, `3m 05s`, `2h 07m`, `3d 04h`.
pub(crate) fn clock(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..10 => format!("{}.{}s", s, ms % 1000 / 100),
        10..60 => format!("{s}s"),
        60..3_600 => format!("{}m {:02}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h {:02}m", s / 3_600, s / 60 % 60),
        _ => format!("{}d {:02}h", s / 86_400, s / 3_600 % 24),
    }
}

/// Returns `part / whole` as a share of 0 to 1; 0 if `whole` is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share that is drawn or rounded"
    )]
    let share = part as f64 / whole as f64;
    share
}

#[cfg(test)]
pub(crate) mod tests;
