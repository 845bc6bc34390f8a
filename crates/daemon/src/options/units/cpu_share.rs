//! A share of one processor, as users write it: `10%`, `0.5%`.
//!
//! Invariant: the share is at least 0.01% and at most 100%.

use std::fmt;
use std::str::FromStr;

use super::UnitError;
use super::size::{Percent, Size};

const HINT: &str = "write a share of one processor from 0.01% to 100%, e.g. 10%";

/// A share of one processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuShare(Percent);

impl CpuShare {
    /// Returns the share in hundredths of a percent, 1 to 10,000.
    #[must_use]
    pub const fn hundredths(self) -> u16 {
        self.0.hundredths()
    }
}

impl FromStr for CpuShare {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<CpuShare, UnitError> {
        match text.parse() {
            Ok(Size::Share(share)) if share.hundredths() > 0 => Ok(CpuShare(share)),
            Ok(_) => {
                let why = format!("`{}` is no share of a processor", text.trim());
                Err(UnitError::new(why, HINT))
            }
            Err(error) => Err(UnitError::new(error.why, HINT)),
        }
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_more_than_nothing_and_at_most_all() {
        for (text, hundredths) in [
            ("10%", 1000),
            (" 0.01% ", 1),
            ("2.5%", 250),
            ("100%", 10_000),
        ] {
            let share: CpuShare = text.parse().expect(text);
            assert_eq!(share.hundredths(), hundredths, "{text}");
            assert_eq!(share.to_string(), text.trim());
        }
        for text in [
            "", "0%", "0.001%", "100.01%", "-1%", "10", "512M", "max", "much%", "%",
        ] {
            let error = text.parse::<CpuShare>().expect_err(text).to_string();
            assert!(error.contains("0.01% to 100%"), "{text}: {error}");
        }
    }
}
