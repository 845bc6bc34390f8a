//! Finds the format of a trace: as the user says, or otherwise from its content or its name.

use super::csv::CsvOptions;
use super::error::{Fault, TraceError};
use super::input::Input;

/// The formats of docs/formats.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// libCacheSim's binary format.
    OracleGeneral,
    /// Text in columns.
    Csv,
    /// The block traces of the ARC paper, `.lis`.
    Arc,
    /// Page touches in windows of time.
    PageWindows,
    /// pagetide's own recording of a real program.
    Recording,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::OracleGeneral,
        Self::Csv,
        Self::Arc,
        Self::PageWindows,
        Self::Recording,
    ];

    /// Returns the format's name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OracleGeneral => "oracle-general",
            Self::Csv => "csv",
            Self::Arc => "arc",
            Self::PageWindows => "page-windows",
            Self::Recording => "recording",
        }
    }

    /// Returns the format that a file name implies: `X.lis`, `X.csv`, `X.oracleGeneral[.bin]`,
    /// `X.w10000`, each also with `.zst` or `.zstd` at the end. `None` for other names.
    fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        let name = name.strip_suffix(".zstd").unwrap_or(name);
        let window = name.rsplit_once(".w").map(|(_, digits)| digits);
        let is_window = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
        if name.ends_with(".lis") {
            Some(Self::Arc)
        } else if name.ends_with(".csv") {
            Some(Self::Csv)
        } else if name.contains("oraclegeneral") {
            Some(Self::OracleGeneral)
        } else if window.is_some_and(is_window) {
            Some(Self::PageWindows)
        } else {
            None
        }
    }
}

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// Format of the trace; `None` to find it out.
    pub format: Option<Format>,
    /// How a CSV file is read.
    pub csv: CsvOptions,
    /// Whether a binary or compressed trace that ends in the middle of a record is accepted: then
    /// it is read up to its last complete record.
    pub cut_off: bool,
}

impl TraceOptions {
    pub(super) fn format_of(&self, input: &mut Input) -> Result<Format, TraceError> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        if input
            .peek(event_log::MAGIC.len())?
            .starts_with(&event_log::MAGIC)
        {
            return Ok(Format::Recording);
        }
        let name = input.file().file_name().unwrap_or_default();
        Format::of_name(&name.to_string_lossy()).ok_or_else(|| {
            let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            let remedy = format!("say it: --format {}", names.join("|"));
            input.whole(Fault::new("its name does not tell its format", remedy))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_imply_formats() {
        for (name, format) in [
            ("OLTP.lis.zst", Some(Format::Arc)),
            ("a.CSV", Some(Format::Csv)),
            ("w1.oracleGeneral.bin.zst", Some(Format::OracleGeneral)),
            (
                "cloudPhysicsIO.oracleGeneral.bin",
                Some(Format::OracleGeneral),
            ),
            ("sqlite-pages.w10000.zst", Some(Format::PageWindows)),
            ("a.w", None),
            ("a.w1x", None),
            ("a.zst", None),
            ("", None),
        ] {
            assert_eq!(Format::of_name(name), format, "{name}");
        }
    }
}
