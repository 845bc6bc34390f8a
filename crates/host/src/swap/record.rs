//! What `swap on` made, written down where `swap off` finds it: a few lines in `/run/pagetide`.
//!
//! Invariant: a record is there before what it names is made, and goes after that is gone, so that whoever
//! is killed in between leaves a trail. By itself it proves nothing: what it names must carry its uuid.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::header::Uuid;
use crate::system::swap::SwapKind;
use crate::system::text::{lines, number, unescape};

const FIRST_LINE: &str = "pagetide swap 1";

/// One area of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// zram or a file.
    pub(super) kind: SwapKind,
    /// The device or the file, absolute.
    pub(super) path: PathBuf,
    /// Bytes, header included.
    pub(super) size: u64,
    /// In its header.
    pub(super) uuid: Uuid,
    /// Of the start of the machine in which it was made: no zram outlives that, files do.
    pub(super) boot: Uuid,
    /// The kernel's number of this very disk, never given out again until the next start of the machine
    /// (since Linux 5.15); devices' names are.
    pub(super) diskseq: Option<u64>,
}

impl Record {
    fn text(&self) -> Vec<u8> {
        let (kind, size, uuid, boot) = (self.kind, self.size, self.uuid, self.boot);
        let mut text =
            format!("{FIRST_LINE}\nkind {kind}\nsize {size}\nuuid {uuid}\nboot {boot}\n");
        if let Some(diskseq) = self.diskseq {
            text += &format!("diskseq {diskseq}\n");
        }
        let path = escape(self.path.as_os_str().as_bytes());
        [text.as_bytes(), b"path ", &path, b"\n"].concat()
    }

    /// `None` of a text that no pagetide wrote. Keys that are not known are left out.
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
        })
    }

    /// Writes it, all or nothing, also if the machine stops.
    pub(super) fn save(&self, to: &Path) -> io::Result<()> {
        let new = to.with_extension("new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(&self.text())?;
        file.sync_all()?;
        std::fs::rename(&new, to)
    }
}

/// Line ends and backslashes as [`unescape`] undoes them.
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
    fn texts_of_others_are_no_records() {
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
            name in any::<Vec<u8>>(), size in any::<u64>(), diskseq in any::<Option<u64>>(), zram in any::<bool>()
        ) {
            let name = OsString::from_vec([&b"/"[..], &name].concat());
            let record = Record {
                kind: if zram { SwapKind::Zram } else { SwapKind::File },
                path: PathBuf::from(name),
                size,
                uuid: UUID.parse().unwrap(),
                boot: UUID.parse().unwrap(),
                diskseq,
            };
            prop_assert_eq!(Record::parse(&record.text()), Some(record));
        }

        #[test]
        fn anything_goes(bytes in any::<Vec<u8>>(), text in "pagetide swap 1\n([a-z]{4} [-/a-z0-9\\\\]{0,9}\n){0,9}") {
            let _ = (Record::parse(&bytes), Record::parse(text.as_bytes()));
        }
    }
}
