//! What the test program `ages` (`tests/programs/ages.c`) tells: its lines, its table, its classes.
//!
//! Times are `CLOCK_MONOTONIC` in nanoseconds. Nothing in here reads a file or a clock. What does not
//! add up is an error: a test must not compare with a wrong truth.

/// The kinds of memory, by their number in the table.
pub const KINDS: [&str; 8] = [
    "anon", "thp", "file", "cow", "memfd", "forked", "zero", "loop",
];
/// The class that is touched without pause; 0 to 3 are 1 s, 4 s, 16 s and never.
pub const ALWAYS: usize = 4;
const CLASSES: usize = 5;
const SLOTS: u64 = 8;
/// Words of a record: eight, and two a slot.
const RECORD: usize = 24;
const MAGIC: u64 = u64::from_le_bytes(*b"PTAGES01");

/// A `map` line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// One of `KINDS`.
    pub kind: String,
    /// The process that touches it.
    pub pid: u32,
    /// Its address in that process.
    pub start: u64,
    /// Of 4 KiB.
    pub pages: u64,
    /// Pages by class.
    pub classes: [u64; CLASSES],
    /// What a report has it under: `anon`, `file` or `none`.
    pub counts: String,
    /// How much of it is in huge pages.
    pub thp_kib: u64,
}

/// All that `ages` prints up to `ready`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Printed {
    /// Path of the table.
    pub table: String,
    /// In the order of the per-page file.
    pub maps: Vec<Map>,
    /// The process that was started.
    pub pid: u32,
    /// Its child, 0 if it has none.
    pub child: u32,
    /// When the schedule begins.
    pub t0: u64,
}

fn field<'a>(line: &'a str, name: &str) -> Result<&'a str, String> {
    let value = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
    line.split(' ')
        .find_map(value)
        .ok_or_else(|| format!("ages: no {name} in: {line}"))
}

fn number<T: TryFrom<u64>>(line: &str, name: &str) -> Result<T, String> {
    let text = field(line, name)?;
    let value = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let value = value.ok().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| format!("ages: {name} is no number: {line}"))
}

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
    /// From the lines of standard output, `ready` included.
    ///
    /// # Errors
    /// If something is missing or is no number.
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

    /// The class of each page by map, from the file that `--per-page` wrote.
    ///
    /// # Errors
    /// If it is not as long as the maps are, or a class has another number of pages.
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

/// When a class of a kind was touched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Index in `KINDS`.
    pub kind: usize,
    /// Its class.
    pub class: usize,
    /// How many pages of 4 KiB.
    pub pages: u64,
    /// The first and the last moment of the fill.
    pub fill: (u64, u64),
    /// Passes begun so far.
    pub begun: u64,
    /// How many began over 100 ms late.
    pub late: u64,
    /// The last passes, oldest first; the end is 0 while one is under way.
    pub passes: Vec<(u64, u64)>,
}

/// The shared file, see `tests/programs/ages.h`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table(pub Vec<Record>);

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
    /// From the bytes of the file. A pass may begin while they are copied: then this is an error, and
    /// reading once more will do.
    ///
    /// # Errors
    /// If it is no such table, or was changed meanwhile.
    pub fn parse(bytes: &[u8]) -> Result<Table, String> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let Some((&[MAGIC, kinds, classes, slots, ..], rest)) = words.split_first_chunk::<8>()
        else {
            return Err("ages: not a table".to_owned());
        };
        // A reader of later tables is a later reader.
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
