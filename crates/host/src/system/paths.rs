//! Patterns of paths, as users write them, and whether a path in /proc/PID/maps matches a pattern.
//!
//! Invariant: a comparison takes at most time in proportion to `path length * pattern length`, for
//! any input, as programs choose the names of their files.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Text that the kernel appends to the path of a removed file (`d_path`).
const DELETED: &[u8] = b" (deleted)";
/// Text that the kernel writes for a line break; it escapes no other byte (`show_map_vma`).
const LINE_BREAK: &[u8] = b"\\012";

/// A pattern of absolute paths. `*` matches any part of one name; a name `**` matches any number of
/// names, including zero. A `\` makes the character after it literal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPattern {
    names: Vec<Name>,
    /// The bytes with which every matching path begins: this prefix alone rejects most other paths.
    begin: Vec<u8>,
}

/// One name of a pattern: the text between two slashes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Name {
    /// `**`, which matches any number of names.
    AnyNumber,
    /// Matches one name that consists of these parts, in this order.
    Like(Vec<Part>),
}

/// A part of a name in a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// `*`, which matches any number of bytes.
    Any,
    /// Matches this byte only.
    Byte(u8),
}

/// Why a text is not a pattern.
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
                "the path is relative, but no base directory is known: begin it with /",
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

/// Parses one name of a pattern; the error says why the name is invalid.
fn name(text: &str) -> Result<Name, &'static str> {
    match text {
        "**" => return Ok(Name::AnyNumber),
        "" => return Err("an empty name (to match all names below, end with /**)"),
        "." | ".." => return Err("no path that the kernel reports has names . or .. in it"),
        _ => {}
    }
    let mut parts = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        parts.push(match byte {
            b'*' if parts.last() == Some(&Part::Any) => {
                return Err("** stands for whole names: it must be alone between two /");
            }
            b'*' => Part::Any,
            b'?' | b'[' => {
                return Err("? and [ are not wildcards here: write \\? or \\[");
            }
            b'\\' => Part::Byte(bytes.next().ok_or("no character follows the last \\")?),
            byte => Part::Byte(byte),
        });
    }
    Ok(Name::Like(parts))
}

/// Returns the bytes of the only name that matches; `None` if several names match.
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
    /// Returns whether `reported`, the kernel's text for a mapped file, may mean a path that
    /// matches. The text is ambiguous: the kernel appends ` (deleted)` to the path of a removed
    /// file and writes a line break as `\012`, but a name may also contain these characters itself.
    /// The pattern matches if any of the possible meanings matches.
    #[must_use]
    pub fn is_like(&self, reported: &[u8]) -> bool {
        let readings = [Some(reported), reported.strip_suffix(DELETED)];
        readings.into_iter().flatten().any(|path| {
            self.is_path(path) || {
                let with_breaks = with_breaks(path);
                matches!(with_breaks, Cow::Owned(_)) && self.is_path(&with_breaks)
            }
        })
    }

    /// Returns whether an absolute path matches.
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
            |name, reported| match name {
                Name::AnyNumber => false,
                Name::Like(parts) => is_like(
                    parts,
                    reported,
                    |part| *part == Part::Any,
                    |part, byte| *part == Part::Byte(*byte),
                ),
            },
        )
    }
}

/// Returns whether `pattern` matches all of `reported`. An element of `pattern` for which `is_any`
/// returns true matches any number of elements of `reported`; any other must match exactly one, by
/// `fits`. After a mismatch, only the latest `is_any` element is extended by one element. Earlier
/// ones need not be: the elements between them and the latest match already.
fn is_like<P, T>(
    pattern: &[P],
    reported: &[T],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut next, mut latest) = (0, 0, None);
    while let Some(one) = reported.get(next) {
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

/// Returns the path with line breaks in place of `\012`; borrowed if it contains no `\012`.
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
