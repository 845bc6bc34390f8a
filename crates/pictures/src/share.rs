//! Parts of a whole in words.
//!
//! Invariant: what is neither nothing nor all never looks like it.

/// A share of something in whole percent, rounded to the nearest: `<1%`, `62%`, `>99%`.
#[must_use]
pub fn per_cent(part: u64, whole: u64) -> String {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let Some(halves) = (part * 200).checked_div(whole) else {
        return "0%".to_owned();
    };
    match halves.div_ceil(2) {
        _ if part > 0 && part * 200 < whole => "<1%".to_owned(),
        100.. if part < whole => ">99%".to_owned(),
        // Figures that contradict each other: they are a look apart.
        percent => format!("{}%", percent.min(100)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_lie_about_nothing_and_all() {
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
