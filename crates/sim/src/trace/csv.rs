//! Reads text in columns, with one reference in each line.
//!
//! A field in double quotes may contain the delimiter, and `""` for a quote; it must end on the
//! same line. Empty lines are skipped. The first line counts as a heading if it begins with `#`, or
//! if its time, or its id in numbers, begins with a letter.

use super::error::{Fault, TraceError, shown};
use super::input::Input;
use super::{Kind, Reference, Source};
use std::borrow::Cow;
use std::hash::Hasher;

/// How the user names a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By its number, from 1.
    Number(usize),
    /// By its name in the heading.
    Name(String),
}

/// Whether the first line names the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// Yes, if the first line looks like a heading.
    #[default]
    Auto,
    /// Yes.
    Yes,
    /// No.
    No,
}

/// How the ids of pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ids {
    /// Numbers below 2^64, decimal or `0x` hexadecimal.
    #[default]
    Numbers,
    /// Any text. Its 64-bit hash is used as the page number, so about one in 10^19 pairs of
    /// different texts gets the same number.
    Text,
}

/// How a CSV file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// Character between two fields.
    pub delimiter: u8,
    /// Whether the first line is a heading.
    pub header: Header,
    /// Column of the page (object, block).
    pub id: Column,
    /// Column of the time, if there is one: an unsigned number, of which only the whole part is
    /// used.
    pub time: Option<Column>,
    /// Column of the operation, if there is one. `read`, `get` and `r` mean a read; `write`, `set`,
    /// `put` and `w` a write; any other text means [`Kind::Access`].
    pub op: Option<Column>,
    /// How ids are written.
    pub ids: Ids,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: b',',
            header: Header::Auto,
            id: Column::Number(1),
            time: None,
            op: None,
            ids: Ids::Numbers,
        }
    }
}

/// Indices of the columns, from 0.
struct Columns {
    id: usize,
    time: Option<usize>,
    op: Option<usize>,
}

pub(super) struct Csv {
    input: Input,
    delimiter: u8,
    ids: Ids,
    columns: Columns,
    /// The reference in the first line; `None` if that line is a heading, or was returned already.
    first: Option<Reference>,
}

impl Csv {
    /// Opens a CSV trace and reads its first line.
    pub(super) fn new(mut input: Input, options: &CsvOptions) -> Result<Self, TraceError> {
        // Skips empty lines, and the byte order mark that some editors write at the beginning of
        // UTF-8 text.
        let mut first = Vec::new();
        while first.is_empty() {
            let Some(line) = input.line()? else { break };
            let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            first = trimmed(line).to_vec();
        }
        let made = Self::start(&first, options);
        let (columns, is_heading) = made.map_err(|fault| input.at_line(fault))?;
        let mut csv = Self {
            input,
            delimiter: options.delimiter,
            ids: options.ids,
            columns,
            first: None,
        };
        if !is_heading && !first.is_empty() {
            let parsed = csv.parse(&first);
            csv.first = Some(parsed.map_err(|fault| csv.input.at_line(fault))?);
        }
        Ok(csv)
    }

    /// Returns the columns, and whether the first line is a heading.
    fn start(first: &[u8], options: &CsvOptions) -> Result<(Columns, bool), Fault> {
        let wanted = [
            Some(&options.id),
            options.time.as_ref(),
            options.op.as_ref(),
        ];
        let by_name = wanted
            .iter()
            .flatten()
            .any(|c| matches!(c, Column::Name(_)));
        let index = |column: Option<&Column>| match column {
            Some(column) => find(column, first, options.delimiter).map(Some),
            None => Ok(None),
        };
        let columns = Columns {
            id: find(&options.id, first, options.delimiter)?,
            time: index(options.time.as_ref())?,
            op: index(options.op.as_ref())?,
        };
        let is_heading = match options.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => by_name || is_like_heading(first, &columns, options),
        };
        Ok((columns, is_heading))
    }

    fn parse(&self, line: &[u8]) -> Result<Reference, Fault> {
        let mut reference = Reference::default();
        let mut seen = 0;
        for (at, field) in Fields::of(line, self.delimiter).enumerate() {
            let field = field?;
            seen = at + 1;
            if at == self.columns.id {
                reference.page = match self.ids {
                    Ids::Numbers => number(&field)?,
                    Ids::Text => hash(&field),
                };
            }
            if Some(at) == self.columns.time {
                reference.time = whole_part(&field)?;
            }
            if Some(at) == self.columns.op {
                reference.kind = kind(&field);
            }
        }
        let last = [Some(self.columns.id), self.columns.time, self.columns.op];
        let last = last.into_iter().flatten().max().unwrap_or(0);
        if last >= seen {
            let what = format!("{seen} fields, but column {} is wanted", last + 1);
            return Err(Fault::new(what, COLUMNS));
        }
        Ok(reference)
    }
}

/// Returns whether a first line looks like a heading: it begins with `#`, or its time or its
/// numeric id begins as a name does.
fn is_like_heading(line: &[u8], columns: &Columns, options: &CsvOptions) -> bool {
    let is_name = |column: usize| {
        let field = Fields::of(line, options.delimiter).nth(column);
        let field = field.and_then(Result::ok).unwrap_or_default();
        let begin = field.first().copied().unwrap_or(b'0');
        begin.is_ascii_alphabetic() || matches!(begin, b'_' | b'#')
    };
    let has_numbers = options.ids == Ids::Numbers;
    line.starts_with(b"#")
        || columns.time.is_some_and(is_name)
        || (has_numbers && is_name(columns.id))
}

const COLUMNS: &str = "see --columns and --delimiter";

/// Returns the index of a column.
fn find(column: &Column, heading: &[u8], delimiter: u8) -> Result<usize, Fault> {
    match column {
        Column::Number(0) => Err(Fault::new("columns are counted from 1", COLUMNS)),
        Column::Number(n) => Ok(n - 1),
        Column::Name(name) => {
            let is_it = |field: Result<Cow<'_, [u8]>, Fault>| {
                field.is_ok_and(|field| field.eq_ignore_ascii_case(name.as_bytes()))
            };
            Fields::of(heading, delimiter)
                .position(is_it)
                .ok_or_else(|| {
                    let what = format!("no column is called `{name}` in `{}`", shown(heading));
                    Fault::new(what, COLUMNS)
                })
        }
    }
}

/// Returns a line without its line break.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn number(field: &[u8]) -> Result<u64, Fault> {
    let text = std::str::from_utf8(field).unwrap_or("").trim();
    let parsed = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| {
        let what = format!("`{}` is no number below 2^64", shown(field));
        Fault::new(what, "see --columns; ids that are text need --text-ids")
    })
}

/// Returns the number before a decimal point.
fn whole_part(field: &[u8]) -> Result<u64, Fault> {
    let text = std::str::from_utf8(field).unwrap_or("").trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let fits = part.bytes().all(|b| b.is_ascii_digit());
    whole
        .parse()
        .ok()
        .filter(|_| fits)
        .ok_or_else(|| Fault::new(format!("`{}` is no time", shown(field)), COLUMNS))
}

fn kind(field: &[u8]) -> Kind {
    match field.to_ascii_lowercase().as_slice() {
        b"r" | b"read" | b"get" | b"gets" => Kind::Read,
        b"w" | b"write" | b"set" | b"put" => Kind::Write,
        _ => Kind::Access,
    }
}

fn hash(field: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(field);
    hasher.finish()
}

/// An iterator over the fields of a line.
struct Fields<'a> {
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Fields<'a> {
    const fn of(line: &'a [u8], delimiter: u8) -> Self {
        Self {
            rest: Some(line),
            delimiter,
        }
    }

    /// Returns a quoted field, without the quotes; `rest` begins after the opening quote.
    fn quoted(&mut self, rest: &'a [u8]) -> Result<Cow<'a, [u8]>, Fault> {
        let (mut field, mut at) = (Vec::new(), 0);
        loop {
            match (rest.get(at), rest.get(at + 1)) {
                (Some(b'"'), Some(b'"')) => at += 2,
                (Some(b'"'), next) if next.is_none_or(|&b| b == self.delimiter) => break,
                (Some(b'"'), _) => return Err(Fault::new("text after a closing quote", QUOTES)),
                (Some(_), _) => at += 1,
                (None, _) => return Err(Fault::new("a quote that is not closed", QUOTES)),
            }
            field.push(rest[at - 1]);
        }
        self.rest = rest.get(at + 2..);
        Ok(Cow::Owned(field))
    }
}

const QUOTES: &str = "a field in quotes ends on its line; a quote in it is written twice";

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Cow<'a, [u8]>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.rest.take()?;
        if let Some(rest) = line.strip_prefix(b"\"") {
            return Some(self.quoted(rest));
        }
        let end = line.iter().position(|&b| b == self.delimiter);
        self.rest = end.map(|end| &line[end + 1..]);
        Some(Ok(Cow::Borrowed(&line[..end.unwrap_or(line.len())])))
    }
}

impl Source for Csv {
    fn read(&mut self, out: &mut Vec<Reference>, room: usize) -> Result<(), TraceError> {
        let full = out.len() + room;
        out.extend(self.first.take());
        let mut line = Vec::new();
        while out.len() < full {
            match self.input.line()? {
                Some(read) => {
                    line.clear();
                    line.extend_from_slice(trimmed(read));
                }
                None => break,
            }
            if !line.is_empty() {
                let parsed = self.parse(&line);
                out.push(parsed.map_err(|fault| self.input.at_line(fault))?);
            }
        }
        Ok(())
    }

    fn input(&self) -> &Input {
        &self.input
    }
}
