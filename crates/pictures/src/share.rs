//! Formats shares in percent.
//!
//! Invariant: `0%` is shown only if the part is 0, and `100%` only if it is the whole.

/// Formats `part` of `whole` in whole percent, rounded to the nearest: `62%`. A share that would
/// wrongly round to 0% or 100% is `<1%` or `>99%`.
#[must_use]
pub fn per_cent(part: u64, whole: u64) -> String {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let Some(halves) = (part * 200).checked_div(whole) else {
        return "0%".to_owned();
    };
    match halves.div_ceil(2) {
        _ if part > 0 && part * 200 < whole => "<1%".to_owned(),
        100.. if part < whole => ">99%".to_owned(),
        // `part` may exceed `whole` if the two come from different scans.
        percent => format!("{}%", percent.min(100)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_shares_are_shown_as_0_or_100_percent() {
        for (part, whole, want) in [
            (0, 0, "0%"),
            (0, 9, "0%"),
            (1, 0, "0%"),
            (1, 1000, "<1%"),
            (5, 1000, "1%"),
            (999, 1000, ">99%"),
            (1000, 1000, "100%"),
            (2000, 1000, "100%"),
            (62, 100, "62%"),
            (u64::MAX - 1, u64::MAX, ">99%"),
        ] {
            assert_eq!(per_cent(part, whole), want, "{part} of {whole}");
        }
    }
}
