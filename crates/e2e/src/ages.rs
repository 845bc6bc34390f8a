//! Parses what the test program `ages` (`tests/programs/ages.c`) reports of its pages: its output,
//! its table of accesses, and the file with the class of each page.
//!
//! The class of a page says how often the program touches it. Times are `CLOCK_MONOTONIC` in
//! nanoseconds. Nothing in this module reads a file or a clock. Contradictory numbers are an error:
//! a test must not compare a report with a wrong truth.

/// Names of the kinds of memory; the index is the number of the kind in the table.
pub const KINDS: [&str; 8] = [
    "anon", "thp", "file", "cow", "memfd", "forked", "zero", "loop",
];
/// The class of pages that are touched without pause. The pages of classes 0, 1, 2 and 3 are
/// touched every 1 s, 4 s and 16 s, and never.
pub const ALWAYS: usize = 4;
/// Number of classes.
const CLASSES: usize = 5;
/// Number of passes that the table keeps of each class; a pass touches all pages of a class once.
const SLOTS: u64 = 8;
/// Length of a record in 8-byte words: eight, and two for each kept pass.
const RECORD: usize = 24;
/// First word of the table.
const MAGIC: u64 = u64::from_le_bytes(*b"PTAGES01");

/// A mapping of `ages`, as a `map` line of its output describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// Kind of memory, one of [`KINDS`].
    pub kind: String,
    /// Pid of the process that touches the pages.
    pub pid: u32,
    /// Address of the mapping in that process.
    pub start: u64,
    /// Number of pages of 4 KiB.
    pub pages: u64,
    /// Number of pages of each class.
    pub classes: [u64; CLASSES],
    /// What a report counts the pages as: `anon`, `file` or `none`.
    pub counts: String,
    /// Size of the huge pages in the mapping, KiB.
    pub thp_kib: u64,
}

/// All that `ages` prints up to its line `ready`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Printed {
    /// Path of the table's file.
    pub table: String,
    /// The mappings, in the order in which the file of classes has their pages.
    pub maps: Vec<Map>,
    /// Pid of `ages`.
    pub pid: u32,
    /// Pid of its child process; 0 if it has none.
    pub child: u32,
    /// Time at which the program begins to touch pages by their classes.
    pub t0: u64,
}

/// Value of `NAME=VALUE` in a line.
fn field<'a>(line: &'a str, name: &str) -> Result<&'a str, String> {
    let value = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
    line.split(' ')
        .find_map(value)
        .ok_or_else(|| format!("ages: no {name} in: {line}"))
}

/// Value of `NAME=NUMBER` in a line, decimal or hexadecimal.
fn number<T: TryFrom<u64>>(line: &str, name: &str) -> Result<T, String> {
    let text = field(line, name)?;
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let value = value.ok().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| format!("ages: {name} is no number: {line}"))
}

/// Parses a `map` line.
fn map(line: &str) -> Result<Map, String> {
    let mut classes = [0; CLASSES];
    let texts = field(line, "classes")?.split(',');
    for (class, text) in classes.iter_mut().zip(texts) {
        *class = text.parse().map_err(|_| format!("ages: {line}"))?;
    }
    classes[ALWAYS] = number(line, "loop")?;
    let map = Map {
        kind: field(line, "kind")?.to_owned(),
        pid: number(line, "pid")?,
        start: number(line, "start")?,
        pages: number(line, "pages")?,
        classes,
        counts: field(line, "counts")?.to_owned(),
        thp_kib: number(line, "thp_kib")?,
    };
    if map.classes.iter().sum::<u64>() != map.pages || !KINDS.contains(&map.kind.as_str()) {
        return Err(format!("ages: pages do not add up: {line}"));
    }
    Ok(map)
}

impl Printed {
    /// Parses the standard output of `ages`, which must have come to its line `ready`.
    ///
    /// # Errors
    /// If a line is unknown or missing, or a value is no number.
    pub fn parse(text: &str) -> Result<Printed, String> {
        let mut printed = Printed::default();
        for line in text.lines() {
            match line.split(' ').next() {
                Some("table") => line["table ".len()..]
                    .strip_prefix("path=")
                    .unwrap_or_default()
                    .clone_into(&mut printed.table),
                Some("map") => printed.maps.push(map(line)?),
                Some("ready") => {
                    printed.pid = number(line, "pid")?;
                    printed.child = number(line, "child")?;
                    printed.t0 = number(line, "t0")?;
                    let complete = number::<usize>(line, "kinds")? == printed.maps.len();
                    let complete = complete && !printed.table.is_empty();
                    return complete.then_some(printed).ok_or(format!("ages: {text}"));
                }
                _ => return Err(format!("ages: unknown line: {line}")),
            }
        }
        Err(format!("ages: not ready: {text}"))
    }

    /// Splits the file that `--per-page` wrote, which has a byte for the class of each page, into
    /// one part for each mapping.
    ///
    /// # Errors
    /// If the file is not as long as all mappings together, or if a class has another number of
    /// pages.
    pub fn split<'a>(&self, mut bytes: &'a [u8]) -> Result<Vec<&'a [u8]>, String> {
        let mut parts = Vec::new();
        for map in &self.maps {
            let pages = usize::try_from(map.pages).map_err(|_| "ages: too large")?;
            let (part, rest) = bytes
                .split_at_checked(pages)
                .ok_or("ages: the per-page file is too short")?;
            let of = |class| part.iter().filter(move |byte| usize::from(**byte) == class);
            if (0..CLASSES).any(|class| of(class).count() as u64 != map.classes[class]) {
                return Err(format!("ages: per-page classes of {} differ", map.kind));
            }
            parts.push(part);
            bytes = rest;
        }
        let whole = bytes.is_empty().then_some(parts);
        whole.ok_or("ages: the per-page file is too long".to_owned())
    }
}

/// When the pages of one class and one kind of memory were touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Index in [`KINDS`].
    pub kind: usize,
    /// Class of the pages, 0 to 4.
    pub class: usize,
    /// Number of pages of 4 KiB.
    pub pages: u64,
    /// When the program filled the pages: begin and end, nanoseconds.
    pub fill: (u64, u64),
    /// Number of passes over the pages that have begun so far.
    pub begun: u64,
    /// Number of passes that began more than 100 ms late.
    pub late: u64,
    /// Begin and end of the last passes, nanoseconds, oldest first; the end is 0 while the pass
    /// runs.
    pub passes: Vec<(u64, u64)>,
}

/// The table of accesses, which `ages` writes to a shared file (`tests/programs/ages.h`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table(pub Vec<Record>);

/// Parses a record; `None` if its passes contradict each other.
fn record(words: &[u64]) -> Option<Record> {
    let [kind, class, pages, fill_begin, fill_end, begun, ended, late] =
        *words.first_chunk::<8>()?;
    let pass = |number: u64| {
        let at = usize::try_from(8 + number % SLOTS * 2).ok()?;
        Some((*words.get(at)?, *words.get(at + 1)?))
    };
    let passes: Vec<_> = (begun.saturating_sub(SLOTS)..begun).map(pass).collect();
    let passes = passes.into_iter().collect::<Option<Vec<_>>>()?;
    let whole = |(begin, end): &(u64, u64)| *begin != 0 && (*end == 0 || begin <= end);
    let in_order = passes
        .windows(2)
        .all(|two| two[0].1 <= two[1].0 && two[0].1 != 0);
    let good = passes.iter().all(whole) && in_order && ended <= begun && begun <= ended + 1;
    let (kind, class) = (usize::try_from(kind).ok()?, usize::try_from(class).ok()?);
    good.then_some(Record {
        kind,
        class,
        pages,
        fill: (fill_begin, fill_end),
        begun,
        late,
        passes,
    })
}

impl Table {
    /// Parses the bytes of the table's file. The program may begin a pass while they are copied.
    /// That is an error, too, and the caller reads the file again.
    ///
    /// # Errors
    /// If the bytes are no such table, or were changed while they were copied.
    pub fn parse(bytes: &[u8]) -> Result<Table, String> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let Some((&[MAGIC, kinds, classes, slots, ..], rest)) = words.split_first_chunk::<8>()
        else {
            return Err("ages: not a table".to_owned());
        };
        // Another layout needs another version of this parser.
        if (kinds, classes, slots) != (KINDS.len() as u64, CLASSES as u64, SLOTS)
            || rest.len() != KINDS.len() * CLASSES * RECORD
        {
            return Err("ages: a table of another size".to_owned());
        }
        let records: Vec<Record> = rest
            .chunks_exact(RECORD)
            .filter(|words| words[2] != 0)
            .map(|words| record(words).ok_or("ages: the table changed while it was read"))
            .collect::<Result<_, _>>()?;
        Ok(Table(records))
    }
}
