//! Arguments of `mrc`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use daemon::options::{Bytes, UnitError, bytes};
use sim::mrc::{CurvePolicy, Job, Size};
use sim::trace::{Column, CsvOptions, Format, Header, Ids, TraceOptions};

const TRACE: &str = "Trace";
const OUTPUT: &str = "Output";

/// A trace, and what to compute from it.
#[derive(clap::Args, Debug)]
pub(crate) struct Mrc {
    /// The trace, plain or compressed with zstd
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Memory sizes: pages (1000), bytes (64M) or shares of the footprint (10%); every 5% by
    /// default
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    sizes: Vec<SizeArg>,
    /// Which policies; with `all`, the result also shows the difference of the multi-gen LRU to
    /// each
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "lru"
    )]
    #[arg(value_parser = policy())]
    policy: Vec<&'static [CurvePolicy]>,
    /// Use this share of the pages only, 0 to 1: faster, and nearly right (docs/traces.md)
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    sampled: Option<f64>,
    /// Most memory that the computation may use; 2G by default, and 1G more for each policy except
    /// lru
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    memory_max: Option<Bytes>,

    /// The trace's format, if its name and content do not show it
    #[arg(long, value_name = "FORMAT", value_parser = format(), help_heading = TRACE)]
    format: Option<Format>,
    /// Delimiter between the columns of a CSV: one character, or `tab`
    #[arg(long, value_name = "CHAR", default_value = ",", help_heading = TRACE)]
    #[arg(value_parser = delimiter)]
    delimiter: u8,
    /// Which columns of a CSV contain id, time and op, by number or name: id=1,time=2,op=3
    #[arg(long, value_name = "LIST", default_value = "id=1", help_heading = TRACE)]
    columns: Columns,
    /// Whether a CSV's first line names the columns
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = TRACE)]
    #[arg(value_parser = header())]
    header: Header,
    /// Ids in a CSV are text, not numbers
    #[arg(long, help_heading = TRACE)]
    text_ids: bool,
    /// Read a trace that was cut off up to the point where it ends
    #[arg(long, help_heading = TRACE)]
    cut_off: bool,

    /// Print a JSON object
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) json: bool,
    /// Print comma-separated values, one line for each size
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    pub(crate) csv: bool,
    /// Also write an HTML page with the plot to this file; the page loads nothing else
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) html: Option<PathBuf>,
}

impl Mrc {
    /// Returns what to compute.
    pub(crate) fn job(&self) -> Job {
        let mut policies = Vec::new();
        for &policy in self.policy.iter().copied().flatten() {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        Job {
            policies,
            sizes: self.sizes.iter().map(|size| size.0).collect(),
            sampled: self.sampled,
        }
    }

    /// Returns the most memory that the computation may use, in bytes.
    pub(crate) fn memory_max(&self) -> u64 {
        const FIRST: u64 = 2 << 30;
        const OTHER: u64 = 1 << 30;
        let policies = self.job().policies;
        let others = policies.iter().filter(|one| **one != CurvePolicy::Lru);
        let default = FIRST + OTHER * others.count() as u64;
        self.memory_max.map_or(default, |size| size.0)
    }

    /// Returns how to read the trace.
    pub(crate) fn trace(&self) -> TraceOptions {
        let columns = self.columns.clone();
        TraceOptions {
            format: self.format,
            csv: CsvOptions {
                delimiter: self.delimiter,
                header: self.header,
                id: columns.id,
                time: columns.time,
                op: columns.op,
                ids: if self.text_ids {
                    Ids::Text
                } else {
                    Ids::Numbers
                },
            },
            cut_off: self.cut_off,
        }
    }
}

/// A memory size: `1000`, `64M`, `10%`.
#[derive(Clone, Copy, Debug)]
struct SizeArg(Size);

const SIZE_HINT: &str = "sizes are pages, bytes or shares of the footprint: --sizes 1000,64M,10%";

impl FromStr for SizeArg {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<SizeArg, UnitError> {
        let bad = |why: &str| UnitError {
            why: format!("`{text}` {why}"),
            hint: SIZE_HINT,
        };
        let size = if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent
                .trim()
                .parse()
                .map_err(|_| bad("is no percentage"))?;
            if !(percent > 0.0 && percent <= 100.0) {
                return Err(bad("is not above 0% and up to 100%"));
            }
            Size::Percent(percent)
        } else if let Ok(pages) = text.trim().parse() {
            Size::Pages(pages)
        } else {
            let bytes = bytes(text).map_err(|_| bad("is no size"))?;
            Size::Pages(bytes.pages().0)
        };
        match size {
            Size::Pages(0) => Err(bad("is less than a page of 4 KiB")),
            size => Ok(SizeArg(size)),
        }
    }
}

/// Columns of a CSV: `id=1,time=when,op=3`.
#[derive(Clone, Debug)]
struct Columns {
    id: Column,
    time: Option<Column>,
    op: Option<Column>,
}

impl FromStr for Columns {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Columns, UnitError> {
        let bad = |why: String| UnitError {
            why,
            hint: "say which column is what, counted from 1 or by name: --columns id=5,time=2",
        };
        let (mut id, mut time, mut op) = (None, None, None);
        for part in text.split(',') {
            let Some((what, column)) = part.split_once('=') else {
                return Err(bad(format!("`{part}` has no `=`")));
            };
            let column = match column.parse() {
                Ok(0) => return Err(bad("columns are counted from 1".to_owned())),
                Ok(number) => Column::Number(number),
                Err(_) if column.is_empty() => return Err(bad(format!("`{part}` names none"))),
                Err(_) => Column::Name(column.to_owned()),
            };
            let place = match what {
                "id" => &mut id,
                "time" => &mut time,
                "op" => &mut op,
                _ => return Err(bad(format!("`{what}` is not id, time or op"))),
            };
            if place.replace(column).is_some() {
                return Err(bad(format!("`{what}` is there twice")));
            }
        }
        let id = id.ok_or_else(|| bad("the id is missing".to_owned()))?;
        Ok(Columns { id, time, op })
    }
}

fn share(text: &str) -> Result<f64, UnitError> {
    let share = text
        .parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| UnitError {
        why: format!("`{text}` is not above 0 and up to 1"),
        hint: "give the share of the pages to sample: --sampled 0.1",
    })
}

fn delimiter(text: &str) -> Result<u8, UnitError> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'"' | b'\n' | b'\r' | 0) => Ok(*byte),
        _ => Err(UnitError {
            why: format!("`{}` is no delimiter", text.escape_debug()),
            hint: "give one character, or `tab`",
        }),
    }
}

/// Parses a policy by its name, or `all`.
fn policy() -> impl TypedValueParser<Value = &'static [CurvePolicy]> {
    const EVERY: &str = "all";
    let names = CurvePolicy::ALL.iter().map(|policy| policy.name());
    PossibleValuesParser::new(names.chain([EVERY])).map(|text| {
        let found = CurvePolicy::ALL.iter().find(|policy| policy.name() == text);
        // The parser accepts only known names and `all`, so a word that is no known name is `all`.
        found.map_or(&CurvePolicy::ALL[..], std::slice::from_ref)
    })
}

fn format() -> impl TypedValueParser<Value = Format> {
    named(&Format::ALL, Format::name)
}

fn header() -> impl TypedValueParser<Value = Header> {
    const ALL: [(Header, &str); 3] = [
        (Header::Auto, "auto"),
        (Header::Yes, "yes"),
        (Header::No, "no"),
    ];
    let parser = PossibleValuesParser::new(ALL.map(|(_, name)| name));
    parser.map(|name| {
        let found = ALL.iter().find(|(_, known)| *known == name);
        found.map_or(Header::Auto, |(header, _)| *header)
    })
}

/// Returns a parser that accepts the names of the values in `all`.
fn named<T: Copy + Send + Sync>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names: Vec<&'static str> = all.iter().map(|&value| name(value)).collect();
    PossibleValuesParser::new(names).map(move |text| {
        let found = all.iter().find(|&&value| name(value) == text);
        // The parser accepts only known names, so the name is always found.
        *found.unwrap_or(&all[0])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_their_units() {
        let size = |text: &str| text.parse::<SizeArg>().map(|size| size.0);
        assert_eq!(size("1000").expect("pages"), Size::Pages(1000));
        assert_eq!(size("64M").expect("bytes"), Size::Pages(16_384));
        assert_eq!(size("2.5%").expect("a share"), Size::Percent(2.5));
        for bad in ["0", "0%", "101%", "x", "-1", "4095B", "", "%", "nan%", "1Q"] {
            let error = size(bad).expect_err(bad);
            assert!(error.why.starts_with(&format!("`{bad}`")), "{}", error.why);
        }
    }

    #[test]
    fn columns_by_number_and_name() {
        let columns: Columns = "time=2,id=object".parse().expect("sound");
        assert_eq!(columns.id, Column::Name("object".into()));
        assert_eq!((columns.time, columns.op), (Some(Column::Number(2)), None));
        for bad in ["", "time=2", "id", "id=", "id=0", "id=1,id=2", "id=1,x=2"] {
            assert!(bad.parse::<Columns>().is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_and_delimiters() {
        assert!(share("0.1").is_ok_and(|s| (s - 0.1).abs() < 1e-12));
        assert!(
            ["0", "1.1", "-1", "nan", "x"]
                .iter()
                .all(|s| share(s).is_err())
        );
        assert_eq!(
            (delimiter("tab").ok(), delimiter(";").ok()),
            (Some(9), Some(b';'))
        );
        assert!(["", ",,", "\"", "\n"].iter().all(|d| delimiter(d).is_err()));
    }
}
