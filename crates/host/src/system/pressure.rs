//! Pressure stall information: how long tasks waited for memory (Documentation/accounting/psi.rst).
//!
//! Invariant: shares of time are hundredths of a percent, as exact as the kernel writes them. The
//! result is `None` if the kernel does not measure pressure, or measuring is disabled (`psi=0`).

use std::fmt;

use rustix::io::Errno;

use super::cgroup::{Group, Groups, Version};
use super::error::Error;
use super::proc::{Proc, read_path};
use super::text::{lines, number, number32, words};

/// For which part of the time some (or all) non-idle tasks waited for memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stall {
    /// Share of the last 10 s, in hundredths of a percent.
    pub avg10: u32,
    /// Share of the last 60 s, in hundredths of a percent.
    pub avg60: u32,
    /// Share of the last 300 s, in hundredths of a percent.
    pub avg300: u32,
    /// Total waiting time since boot, or since the group was made, microseconds.
    pub total_us: u64,
}

/// Memory pressure of the machine or of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pressure {
    /// Time in which at least one task waited.
    pub some: Stall,
    /// Time in which all tasks waited; `None` if the kernel does not report it.
    pub full: Option<Stall>,
}

/// Writes the pressure in the kernel's format.
impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [("some", Some(self.some)), ("full", self.full)];
        for (name, stall) in lines {
            let Some(stall) = stall else { continue };
            write!(f, "{name}")?;
            let shares = [stall.avg10, stall.avg60, stall.avg300];
            for (window, share) in [10, 60, 300].into_iter().zip(shares) {
                write!(f, " avg{window}={}.{:02}", share / 100, share % 100)?;
            }
            writeln!(f, " total={}", stall.total_us)?;
        }
        Ok(())
    }
}

/// Parses lines such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, which begin with `some`
/// or `full`.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Pressure> {
    let (mut some, mut full) = (None, None);
    for line in lines(text) {
        if let Some(rest) = line.strip_prefix(b"some ") {
            some = Some(stall(rest)?);
        } else if let Some(rest) = line.strip_prefix(b"full ") {
            full = Some(stall(rest)?);
        }
    }
    some.map(|some| Pressure { some, full })
}

/// Parses the part of a line after `some` or `full`.
fn stall(line: &[u8]) -> Option<Stall> {
    let mut stall = Stall::default();
    for word in words(line) {
        let equals = word.iter().position(|&b| b == b'=')?;
        let (name, value) = (&word[..equals], &word[equals + 1..]);
        match name {
            b"avg10" => stall.avg10 = hundredths(value)?,
            b"avg60" => stall.avg60 = hundredths(value)?,
            b"avg300" => stall.avg300 = hundredths(value)?,
            b"total" => stall.total_us = number(value)?,
            _ => {}
        }
    }
    Some(stall)
}

/// Parses `12.34` as 1234.
fn hundredths(value: &[u8]) -> Option<u32> {
    let point = value.iter().position(|&b| b == b'.')?;
    let (whole, rest) = (number32(&value[..point])?, &value[point + 1..]);
    let rest = if rest.len() == 2 {
        number32(rest)?
    } else {
        return None;
    };
    whole.checked_mul(100)?.checked_add(rest)
}

impl Proc {
    /// Returns the memory pressure of the machine (`/proc/pressure/memory`).
    ///
    /// # Errors
    /// The file exists but may not be read.
    pub fn pressure(&self) -> Result<Option<Pressure>, Error> {
        Ok(self.read_own("pressure/memory")?.as_deref().and_then(parse))
    }
}

impl Groups {
    /// Returns the memory pressure of a group (`memory.pressure`); `None` in version 1, which does
    /// not measure it.
    ///
    /// # Errors
    /// The file exists but may not be read.
    pub fn pressure(&self, group: &Group) -> Result<Option<Pressure>, Error> {
        if self.version == Version::V1 {
            return Ok(None);
        }
        let file = group.dir.join("memory.pressure");
        match read_path(&file) {
            Ok(text) => Ok(text.as_deref().and_then(parse)),
            Err(Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(Error::reading(&file, errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Directory;
    use proptest::prelude::*;

    #[test]
    fn a_text() {
        let text = b"some avg10=12.34 avg60=0.05 avg300=100.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n";
        let pressure = parse(text).unwrap();
        let some = Stall {
            avg10: 1234,
            avg60: 5,
            avg300: 10_000,
            total_us: 77,
        };
        assert_eq!(pressure.some, some);
        assert_eq!(pressure.full.unwrap().total_us, 3);
        assert_eq!(pressure.to_string().as_bytes(), text);
        assert_eq!(parse(b"full avg10=0.00 total=3\n"), None);
    }

    #[test]
    fn none_is_none() {
        let directory = Directory::new("pressure");
        assert_eq!(Proc::at(&directory.0).unwrap().pressure().unwrap(), None);
        // On this machine the kernel may measure pressure or not.
        let proc = Proc::system().unwrap();
        proc.pressure().unwrap();
        let groups = Groups::find(&proc).unwrap();
        groups.pressure(&groups.root()).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), text in "(some|full) (avg10|total)=[0-9.]{0,6}( avg60=[0-9.]{0,12})?") {
            let _ = (parse(&bytes), parse(text.as_bytes()));
        }

        #[test]
        fn shares_come_back(share in 0u32..=10_000, total_us in any::<u64>()) {
            let text = format!("some avg10={}.{:02} avg60=0.00 avg300=0.00 total={total_us}\n", share / 100, share % 100);
            let some = parse(text.as_bytes()).expect("a pressure").some;
            prop_assert_eq!((some.avg10, some.total_us), (share, total_us));
        }
    }
}
