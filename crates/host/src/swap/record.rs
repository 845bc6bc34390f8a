//! The record of the area that `swap on` made, for `swap off`: a few lines in `/run/pagetide`.
//!
//! Invariant: a record is written before its area is made, and removed after its area, so that a
//! killed command leaves a trace. A record alone proves nothing: the area must have its uuid.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::header::Uuid;
use super::users::Maker;
use crate::system::swap::SwapKind;
use crate::system::text::{lines, number, number32, unescape};

const FIRST_LINE: &str = "pagetide swap 1";

/// The record of one area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// zram or a file.
    pub(super) kind: SwapKind,
    /// The device or the file, absolute.
    pub(super) path: PathBuf,
    /// Size in bytes, including the header.
    pub(super) size: u64,
    /// The uuid in its header.
    pub(super) uuid: Uuid,
    /// The uuid of the boot in which the area was made: a zram does not survive a boot, a file
    /// does.
    pub(super) boot: Uuid,
    /// The kernel's number of the zram as a disk; `None` for a file, and before Linux 5.15. The
    /// kernel reuses device names, but not these numbers (until the next boot).
    pub(super) diskseq: Option<u64>,
    /// The user who switched the area on; `None` in a record of an earlier version.
    pub(super) maker: Option<Maker>,
}

impl Record {
    /// Returns the record as text: lines of a key and a value.
    fn text(&self) -> Vec<u8> {
        let (kind, size, uuid, boot) = (self.kind, self.size, self.uuid, self.boot);
        let mut text =
            format!("{FIRST_LINE}\nkind {kind}\nsize {size}\nuuid {uuid}\nboot {boot}\n");
        if let Some(diskseq) = self.diskseq {
            text += &format!("diskseq {diskseq}\n");
        }
        if let Some(Maker { uid, at_s }) = self.maker {
            text += &format!("by {uid}\nat {at_s}\n");
        }
        let path = escape(self.path.as_os_str().as_bytes());
        [text.as_bytes(), b"path ", &path, b"\n"].concat()
    }

    /// Parses a record; `None` if no pagetide wrote the text. Unknown keys are ignored.
    pub(super) fn parse(text: &[u8]) -> Option<Record> {
        let all: Vec<&[u8]> = lines(text).collect();
        if *all.first()? != FIRST_LINE.as_bytes() {
            return None;
        }
        let value = |key: &str| {
            let start = format!("{key} ");
            all.iter()
                .find_map(|line| line.strip_prefix(start.as_bytes()))
        };
        let word = |key: &str| std::str::from_utf8(value(key)?).ok();
        let path = PathBuf::from(OsString::from_vec(unescape(value("path")?)));
        Some(Record {
            kind: match word("kind")? {
                "zram" => SwapKind::Zram,
                "file" => SwapKind::File,
                _ => return None,
            },
            path: path.is_absolute().then_some(path)?,
            size: number(value("size")?)?,
            uuid: word("uuid")?.parse().ok()?,
            boot: word("boot")?.parse().ok()?,
            diskseq: value("diskseq").and_then(number),
            maker: value("by")
                .and_then(number32)
                .zip(value("at").and_then(number))
                .map(|(uid, at_s)| Maker { uid, at_s }),
        })
    }

    /// Writes the record to the file `to` atomically, even if the machine stops meanwhile.
    pub(super) fn save(&self, to: &Path) -> io::Result<()> {
        let new = to.with_extension("new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(&self.text())?;
        file.sync_all()?;
        std::fs::rename(&new, to)
    }
}

/// Escapes line ends and backslashes, so that [`unescape`] returns the same path.
fn escape(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        match byte {
            b'\n' => out.extend(br"\012"),
            b'\\' => out.extend(br"\134"),
            byte => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    #[test]
    fn other_texts_are_no_records() {
        let good = format!("{FIRST_LINE}\nkind zram\nsize 1\nuuid {UUID}\nboot {UUID}\npath /x\n");
        assert!(Record::parse(good.as_bytes()).is_some_and(|record| record.diskseq.is_none()));
        for (what, by) in [
            (FIRST_LINE, "pagetide swap 2"),
            ("zram", "partition"),
            ("path /x", "path x"),
            ("size 1", "size -1"),
            ("uuid ", "uuid x"),
            ("boot", "boat"),
        ] {
            assert_eq!(
                Record::parse(good.replace(what, by).as_bytes()),
                None,
                "{by}"
            );
        }
        assert_eq!(Record::parse(b""), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read(
            name in any::<Vec<u8>>(), size in any::<u64>(), diskseq in any::<Option<u64>>(), zram in any::<bool>(),
            maker in any::<Option<(u32, u64)>>()
        ) {
            let name = OsString::from_vec([&b"/"[..], &name].concat());
            let record = Record {
                kind: if zram { SwapKind::Zram } else { SwapKind::File },
                path: PathBuf::from(name),
                size,
                uuid: UUID.parse().unwrap(),
                boot: UUID.parse().unwrap(),
                diskseq,
                maker: maker.map(|(uid, at_s)| Maker { uid, at_s }),
            };
            prop_assert_eq!(Record::parse(&record.text()), Some(record));
        }

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), text in "pagetide swap 1\n([a-z]{4} [-/a-z0-9\\\\]{0,9}\n){0,9}") {
            let _ = (Record::parse(&bytes), Record::parse(text.as_bytes()));
        }
    }
}
