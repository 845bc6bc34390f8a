//! Patterns of paths, as people write them, held against paths as /proc/PID/maps writes them.
//!
//! Invariant: a comparison takes no longer than the path's length times the pattern's, whatever both are: what files are
//! called is for their programs to choose.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// What the kernel writes behind the path of a file that was removed (`d_path`).
const DELETED: &[u8] = b" (deleted)";
/// How it writes a line break, and nothing else (`show_map_vma`).
const LINE_BREAK: &[u8] = b"\\012";

/// An absolute path in which `*` stands for any part of a name, and a name `**` for any number of names, none included.
/// `\` takes the meaning from the character behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPattern {
    names: Vec<Name>,
    /// What every path begins with that is like this, bytes: most paths are told by this alone.
    begin: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Name {
    /// `**`.
    AnyNumber,
    Like(Vec<Part>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// `*`.
    Any,
    Byte(u8),
}

/// Why a text is no pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoPattern(String);

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoPattern {}

impl FromStr for PathPattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<PathPattern, NoPattern> {
        let no = |why: &str| NoPattern(format!("`{}`: {why}", text.escape_debug()));
        let Some(below) = text.strip_prefix('/') else {
            return Err(no(
                "a relative path, and nobody says to what: begin it with /",
            ));
        };
        let names: Vec<Name> = below
            .split('/')
            .map(name)
            .collect::<Result<_, _>>()
            .map_err(no)?;
        let mut begin = Vec::new();
        for name in &names {
            let Some(bytes) = plain(name) else { break };
            begin.push(b'/');
            begin.extend(bytes);
        }
        Ok(PathPattern { names, begin })
    }
}

/// One name of a pattern, or why it is none.
fn name(text: &str) -> Result<Name, &'static str> {
    match text {
        "**" => return Ok(Name::AnyNumber),
        "" => return Err("an empty name (for all that is below a directory, write /** behind it)"),
        "." | ".." => return Err("no path that the kernel tells has names . or .. in it"),
        _ => {}
    }
    let mut parts = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        parts.push(match byte {
            b'*' if parts.last() == Some(&Part::Any) => {
                return Err("** stands for whole names: alone between two /");
            }
            b'*' => Part::Any,
            b'?' | b'[' => {
                return Err("? and [ mean nothing here: write \\? or \\[ for themselves");
            }
            b'\\' => Part::Byte(bytes.next().ok_or("nothing stands behind the last \\")?),
            byte => Part::Byte(byte),
        });
    }
    Ok(Name::Like(parts))
}

/// The only name that is like this one, if there is one only.
fn plain(name: &Name) -> Option<Vec<u8>> {
    let Name::Like(parts) = name else {
        return None;
    };
    let byte = |part: &Part| match part {
        Part::Byte(byte) => Some(*byte),
        Part::Any => None,
    };
    parts.iter().map(byte).collect()
}

impl PathPattern {
    /// Whether the kernel's text for a mapped file may mean a path like this. A removed file's is followed by ` (deleted)`,
    /// as a name may be; a line break is written `\012`, as a name may hold, too: either reading counts.
    #[must_use]
    pub fn is_like(&self, told: &[u8]) -> bool {
        let readings = [Some(told), told.strip_suffix(DELETED)];
        readings.into_iter().flatten().any(|path| {
            self.is_path(path) || {
                let with_breaks = with_breaks(path);
                matches!(with_breaks, Cow::Owned(_)) && self.is_path(&with_breaks)
            }
        })
    }

    fn is_path(&self, path: &[u8]) -> bool {
        if !path.starts_with(&self.begin) {
            return false;
        }
        let Some(below) = path.strip_prefix(b"/") else {
            return false;
        };
        let names: Vec<&[u8]> = below.split(|byte| *byte == b'/').collect();
        is_like(
            &self.names,
            &names,
            |name| *name == Name::AnyNumber,
            |name, told| match name {
                Name::AnyNumber => false,
                Name::Like(parts) => is_like(
                    parts,
                    told,
                    |part| *part == Part::Any,
                    |part, byte| *part == Part::Byte(*byte),
                ),
            },
        )
    }
}

/// Whether all of `told` is like the pattern, of which an element that `is_any` stands for any number. Where something does
/// not fit, the latest of those takes one more: the earlier ones need not, as what they were followed by did fit.
fn is_like<P, T>(
    pattern: &[P],
    told: &[T],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut next, mut latest) = (0, 0, None);
    while let Some(one) = told.get(next) {
        match pattern.get(at) {
            Some(part) if is_any(part) => {
                at += 1;
                latest = Some((at, next));
            }
            Some(part) if fits(part, one) => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((behind, taken)) = latest else {
                    return false;
                };
                (at, next) = (behind, taken + 1);
                latest = Some((behind, taken + 1));
            }
        }
    }
    pattern[at..].iter().all(is_any)
}

/// With line breaks where the kernel wrote `\012`; borrowed where it did not.
fn with_breaks(path: &[u8]) -> Cow<'_, [u8]> {
    let is_break = |at: usize| path[at..].starts_with(LINE_BREAK);
    let Some(first) = (0..path.len()).find(|at| is_break(*at)) else {
        return Cow::Borrowed(path);
    };
    let mut out = path[..first].to_vec();
    let mut at = first;
    while at < path.len() {
        let (byte, length) = match is_break(at) {
            true => (b'\n', LINE_BREAK.len()),
            false => (path[at], 1),
        };
        out.push(byte);
        at += length;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
