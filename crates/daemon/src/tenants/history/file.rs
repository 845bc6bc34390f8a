//! The file that keeps the history across restarts.
//!
//! Invariant: the file is replaced as a whole, so that a readable one exists at whatever time we
//! are killed. An unreadable history is renamed and reported, and never keeps `serve` from
//! starting. A file that is not a history of ours is not renamed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::super::snapshot::Action;
use super::row::{put, take};
use super::tier::{Column, Tier};
use super::{BYTES_MAX, History, Range};
use crate::hash::fnv1a;

/// First bytes of the file; another number in them means another format.
const MAGIC: &[u8] = b"pagetide history 1\n";
/// First bytes of history files in all formats.
const OURS: &[u8] = b"pagetide history ";
/// Length of the header in bytes: [`MAGIC`], then length and hash of the rest, 8 bytes each.
const HEAD: usize = MAGIC.len() + 16;
/// Most bytes of a file: `BYTES_MAX`, and space for the open columns, which do not count there.
const FILE_MAX: u64 = 2 * BYTES_MAX as u64;

impl History {
    /// Encodes the history for the file.
    pub(in crate::tenants) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.bytes());
        let all: Vec<(u32, &str)> = self.names.all().collect();
        put_length(all.len(), &mut body);
        for (number, name) in all {
            put(u64::from(number), &mut body);
            put_bytes(name.as_bytes(), &mut body);
        }
        put_length(self.actions().count(), &mut body);
        for action in self.actions() {
            put(action.at_ms, &mut body);
            put_bytes(action.text.as_bytes(), &mut body);
        }
        put_length(self.tiers.len(), &mut body);
        for tier in &self.tiers {
            put(tier.step_ms, &mut body);
            put_length(tier.saved_columns().count(), &mut body);
            for column in tier.saved_columns() {
                put(column.slot, &mut body);
                put(column.covered_ms, &mut body);
                put_bytes(&column.bytes, &mut body);
            }
        }
        let mut file = Vec::with_capacity(HEAD + body.len());
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&(body.len() as u64).to_le_bytes());
        file.extend_from_slice(&fnv1a(&body).to_le_bytes());
        file.extend_from_slice(&body);
        file
    }

    /// Decodes a file's bytes; the error says why they are not a history.
    pub(super) fn decode(file: &[u8]) -> Result<History, &'static str> {
        let rest = file
            .strip_prefix(MAGIC)
            .ok_or("it is no history of this version")?;
        let (head, body) = rest.split_at_checked(16).ok_or("it is cut off")?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        if number(&head[..8]) != body.len() as u64 {
            return Err("it is cut off");
        }
        if number(&head[8..]) != fnv1a(body) {
            return Err("its bytes have changed");
        }
        let mut rest = body;
        let history = History::read(&mut rest).filter(|_| rest.is_empty());
        history.ok_or("its bytes make no sense")
    }

    fn read(bytes: &mut &[u8]) -> Option<History> {
        let mut history = History::default();
        for _ in 0..take(bytes)? {
            let number = u32::try_from(take(bytes)?).ok()?;
            let name = String::from_utf8(take_bytes(bytes)?.to_vec()).ok()?;
            history.names.insert(number, name).then_some(())?;
        }
        for _ in 0..take(bytes)? {
            let at_ms = take(bytes)?;
            let text = String::from_utf8(take_bytes(bytes)?.to_vec()).ok()?;
            history.actions.extend([&Action { at_ms, text }]);
        }
        (take(bytes)? == history.tiers.len() as u64).then_some(())?;
        for (tier, range) in history.tiers.iter_mut().zip(Range::ALL) {
            let (step_ms, length) = range.shape();
            (take(bytes)? == step_ms).then_some(())?;
            let mut columns = Vec::new();
            for _ in 0..take(bytes)? {
                let (slot, covered_ms) = (take(bytes)?, take(bytes)?);
                let rows = take_bytes(bytes)?.to_vec();
                let column = Column {
                    slot,
                    covered_ms,
                    bytes: rows,
                };
                let read: usize = column.rows().map(|(name, row)| length_of(name, &row)).sum();
                let are_named = column
                    .rows()
                    .all(|(name, _)| history.names.get(name).is_some());
                (read == column.bytes.len() && are_named).then_some(())?;
                columns.push(column);
            }
            *tier = Tier::new(step_ms, length).with(columns)?;
        }
        Some(history)
    }
}

fn length_of(name: u32, row: &super::row::Row) -> usize {
    let mut bytes = Vec::new();
    row.write(name, &mut bytes);
    bytes.len()
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    put(length as u64, out);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// Loads the history of an earlier manager, empty if there is none. The second value is a note for
/// the user if the file could not be used.
///
/// # Errors
/// The path leads to something else, or cannot be read. It is not renamed then, since it may be a
/// directory or `/dev/null`.
pub(crate) fn load(path: &Path) -> io::Result<(History, Option<String>)> {
    let Some(file) = read(path)? else {
        return Ok((History::default(), None));
    };
    if !file.is_empty() && !file.starts_with(OURS) {
        return Err(io::Error::other("it is no history of ours"));
    }
    let why = match decode_apart(&file)? {
        Ok(history) => return Ok((history, None)),
        Err(why) => why,
    };
    let bad_name = beside(path, "bad");
    let place = match fs::rename(path, &bad_name) {
        Ok(()) => format!("it is kept as {}", bad_name.display()),
        Err(_) => "it will be replaced".to_owned(),
    };
    let note = format!(
        "cannot use the history in {}: {why}; {place}, and history begins anew",
        path.display()
    );
    Ok((History::default(), Some(note)))
}

/// Runs [`History::decode`] in a thread without privileges, because the bytes are not trusted.
///
/// # Errors
/// No thread can be started.
fn decode_apart(file: &[u8]) -> io::Result<Result<History, &'static str>> {
    std::thread::scope(|scope| {
        let decode = || {
            host::confine::confine_to_open_descriptors();
            History::decode(file)
        };
        let thread = std::thread::Builder::new().name("history-read".to_owned());
        let decoded = thread.spawn_scoped(scope, decode)?.join();
        Ok(decoded.unwrap_or(Err("its bytes make no sense")))
    })
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(io::Error::other("it is a link: name its target"));
        }
        opened => opened?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    if meta.len() > FILE_MAX {
        return Err(io::Error::other("it is too large"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Replaces the file as a whole or not at all, also if the machine stops meanwhile.
pub(crate) fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path, "new");
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    // The new file of a manager that was killed while it wrote.
    let _ = fs::remove_file(&new);
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Returns the path with `.` and `ending` appended.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}
