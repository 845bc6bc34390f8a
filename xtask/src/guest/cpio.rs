//! Writes newc cpio archives, the format that the kernel unpacks before anything runs. Every header
//! and every body begins at a multiple of four, and a folder comes before its content.

use std::collections::BTreeSet;

const FOLDER: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const PLAIN: u32 = 0o100_644;

/// An archive that is being written. All its files belong to root and have time 0, so that the same
/// files make the same archive.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    folders: BTreeSet<String>,
}

impl Archive {
    /// Adds a folder and its parents, if they are not in the archive yet.
    pub(super) fn folder(&mut self, path: &str) {
        if path.is_empty() || self.folders.contains(path) {
            return;
        }
        self.parents(path);
        self.entry(path, FOLDER, &[], 0);
        self.folders.insert(path.to_owned());
    }

    /// Adds a file and its parent folders.
    ///
    /// # Errors
    /// If the file has 4 GiB or more, which the format cannot hold.
    pub(super) fn file(
        &mut self,
        path: &str,
        bytes: &[u8],
        is_executable: bool,
    ) -> Result<(), String> {
        let size = u32::try_from(bytes.len())
            .map_err(|_| format!("/{path} has 4 GiB or more: too large for a guest's files"))?;
        self.parents(path);
        let mode = if is_executable { EXECUTABLE } else { PLAIN };
        self.entry(path, mode, bytes, size);
        Ok(())
    }

    /// Returns the whole archive, with its closing entry.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[], 0);
        self.bytes
    }

    fn parents(&mut self, path: &str) {
        if let Some((above, _)) = path.rsplit_once('/') {
            self.folder(above);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, body: &[u8], size: u32) {
        self.entries += 1;
        let name_size = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        // Inode, mode, uid, gid, links, time, size, device, rdevice, and no checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(body);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns path, mode and body of each entry, parsed as the format's description says.
    fn read(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < archive.len() {
            assert_eq!(&archive[at..at + 6], b"070701");
            let field = |index: usize| {
                let begin = at + 6 + index * 8;
                let text = std::str::from_utf8(&archive[begin..begin + 8]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = &archive[at + 110..at + 110 + name_size - 1];
            assert_eq!(archive[at + 110 + name_size - 1], 0);
            let body = (at + 110 + name_size).next_multiple_of(4);
            let name = String::from_utf8(name.to_vec()).unwrap();
            found.push((name, mode, archive[body..body + size].to_vec()));
            at = (body + size).next_multiple_of(4);
        }
        found
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut archive = Archive::default();
        archive.file("a/b/c", b"12345", true).unwrap();
        archive.folder("a/b");
        archive.file("a/d", b"", false).unwrap();
        let entry = |path: &str, mode, body: &[u8]| (path.to_owned(), mode, body.to_vec());
        let wanted = [
            entry("a", FOLDER, b""),
            entry("a/b", FOLDER, b""),
            entry("a/b/c", EXECUTABLE, b"12345"),
            entry("a/d", PLAIN, b""),
            entry("TRAILER!!!", 0, b""),
        ];
        assert_eq!(read(&archive.finish()), wanted);
    }
}
