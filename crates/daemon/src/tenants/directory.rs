//! Directories of the tree: what is in them, and what making and removing does.
//!
//! Invariant: a name is a file, a node's directory or a tenant, in this order; a tenant cannot have the name of another.

use std::ffi::{OsStr, OsString};

use engine::memcg::MemcgId;
use rustix::io::Errno;

use super::content::{self, Place, Written};
use super::desk::Tree;
use super::file::File;
use super::inode::Inode;
use super::values;
use crate::control::counts_as_we_do;

/// In a node's directory.
const REPORT: &str = "workingset_report";
/// Bytes. What a file of sysfs tells of its size, and more than most texts here have.
const PAGE: usize = 4096;

/// What stat(2) is told.
pub(super) struct Entry {
    pub(super) inode: Inode,
    pub(super) mode: u16,
    /// Bytes, no fewer than its text has: sendfile(2) and splice(2) (cat of busybox) read no further than this. Not many
    /// more: a tail begins to read that far from the end.
    pub(super) size: u64,
    /// All of this stays as it is for as long as the tenant is there.
    pub(super) is_lasting: bool,
}

impl Entry {
    fn directory(inode: Inode) -> Entry {
        let mode = match inode {
            Inode::Tenant(_) => 0o755,
            _ => 0o555,
        };
        Entry {
            inode,
            mode,
            size: 0,
            is_lasting: true,
        }
    }

    fn file(tree: &Tree, inode: Inode, file: File) -> Entry {
        let nodes = tree.tenants.nodes().len();
        // Of lists nobody knows how long they will be; what else grows does so with the number of nodes, which stays.
        let (at_most, is_lasting) = match (inode, file) {
            (Inode::File(serial, _), File::Procs) => {
                let found = tree.tenants.by_serial(serial);
                let text = found.and_then(|id| tree.tenants.kernel_file(id, file.name()).ok());
                (text.map_or(0, |text| text.len()), false)
            }
            (_, File::PageAge | File::PageAgeEstimated | File::NodePageAge) => {
                (tree.reports.at_most(nodes), false)
            }
            _ => (content::at_most(file, nodes), true),
        };
        Entry {
            inode,
            mode: file.mode(),
            size: at_most.max(1).next_multiple_of(PAGE) as u64,
            is_lasting,
        }
    }
}

/// An inode that is there.
pub(super) fn entry(tree: &Tree, inode: Inode) -> Result<Entry, Errno> {
    check_there(tree, inode)?;
    Ok(match inode {
        Inode::File(_, file) | Inode::NodeFile(_, file) => Entry::file(tree, inode, file),
        _ => Entry::directory(inode),
    })
}

fn check_there(tree: &Tree, inode: Inode) -> Result<(), Errno> {
    match inode {
        Inode::Tenant(serial) | Inode::File(serial, _) => tenant(tree, serial).map(drop),
        Inode::Node(node) | Inode::NodeReport(node) | Inode::NodeFile(node, _) => {
            let nodes = tree.tenants.nodes();
            nodes.get(node as usize).map(drop).ok_or(Errno::NOENT)
        }
    }
}

fn tenant(tree: &Tree, serial: u64) -> Result<MemcgId, Errno> {
    tree.tenants.by_serial(serial).ok_or(Errno::NOENT)
}

/// All that is in a directory, with `.` and `..`.
pub(super) fn list(tree: &Tree, inode: Inode) -> Result<Vec<(OsString, Inode)>, Errno> {
    check_there(tree, inode)?;
    let mut all: Vec<(OsString, Inode)> = vec![(".".into(), inode), ("..".into(), inode)];
    match inode {
        Inode::Tenant(serial) => {
            let files = File::of_tenant(serial == 0);
            all.extend(files.map(|file| (file.name().into(), Inode::File(serial, file))));
            if serial == 0 {
                let nodes = (0..).zip(tree.tenants.nodes());
                all.extend(nodes.map(|(place, node)| (node_name(*node), Inode::Node(place))));
            }
            for (path, id) in tree.tenants.children(tenant(tree, serial)?) {
                let name = path.file_name().unwrap_or_default().to_owned();
                let serial = tree.tenants.serial(id).unwrap_or(u64::MAX);
                all.push((name, Inode::Tenant(serial)));
            }
        }
        Inode::Node(node) => all.push((REPORT.into(), Inode::NodeReport(node))),
        Inode::NodeReport(node) => {
            let files = File::of_node();
            all.extend(files.map(|file| (file.name().into(), Inode::NodeFile(node, file))));
        }
        Inode::File(..) | Inode::NodeFile(..) => return Err(Errno::NOTDIR),
    }
    Ok(all)
}

/// Where tenants are in a directory begins here, behind what is in it for ever.
const TENANTS: u64 = 1 << 16;

/// What of a directory comes after this place, each with its own. A tenant's goes by its serial and not by how many stand before it: whoever lists
/// them while others come and go meets each that stays, and once. (The story: of 200 that were removed as they were listed, half stayed.)
pub(super) fn behind(
    offset: u64,
    listed: Vec<(OsString, Inode)>,
) -> impl Iterator<Item = (u64, OsString, Inode)> {
    let place = |(at, (name, inode)): (u64, (OsString, Inode))| match inode {
        // The first two are `.` and `..`. Serials ascend, as tenants are listed in the order in which they came.
        Inode::Tenant(serial) if at > 2 => (TENANTS + serial, name, inode),
        _ => (at, name, inode),
    };
    let all = (1_u64..).zip(listed).map(place);
    all.filter(move |(at, ..)| *at > offset)
}

fn node_name(number: u32) -> OsString {
    format!("node{number}").into()
}

/// What has a name in a directory.
pub(super) fn find(tree: &Tree, parent: Inode, name: &OsStr) -> Result<Entry, Errno> {
    let found = match parent {
        // Of a thousand tenants one is looked for at a time.
        Inode::Tenant(serial) => {
            let memcg = tenant(tree, serial)?;
            match fixed(tree, serial, name) {
                Some(inode) => inode,
                None => {
                    let path = tree.tenants.path(memcg)?.join(name);
                    let found = tree.tenants.find(&path).ok_or(Errno::NOENT)?;
                    Inode::Tenant(tree.tenants.serial(found).ok_or(Errno::NOENT)?)
                }
            }
        }
        parent => {
            let mut listed = list(tree, parent)?.into_iter();
            let found = listed.find(|(found, _)| found == name);
            found.ok_or(Errno::NOENT)?.1
        }
    };
    entry(tree, found)
}

/// What has a name in a tenant's directory that no tenant may have.
fn fixed(tree: &Tree, serial: u64, name: &OsStr) -> Option<Inode> {
    let is_root = serial == 0;
    if let Some(file) = File::named(name, is_root) {
        return Some(Inode::File(serial, file));
    }
    let mut nodes = (0..).zip(tree.tenants.nodes());
    let node = nodes.find(|(_, node)| is_root && name == node_name(**node));
    node.map(|(place, _)| Inode::Node(place))
}

/// Makes a tenant.
pub(super) fn make(tree: &mut Tree, parent: Inode, name: &OsStr) -> Result<Entry, Errno> {
    let Inode::Tenant(serial) = parent else {
        return Err(Errno::PERM);
    };
    let above = tenant(tree, serial)?;
    let mut is_taken = fixed(tree, serial, name).is_some();
    // The host's own groups are there, or would be.
    is_taken |= serial == 0 && name == "host";
    if is_taken {
        return Err(Errno::EXIST);
    }
    // As the kernel: its names hold no line break.
    let name = name.to_str().filter(|name| !name.contains('\n'));
    let made = tree.tenants.make(above, name.ok_or(Errno::INVAL)?)?;
    let path = tree.tenants.path(made)?.to_owned();
    let Tree {
        tenants,
        configured,
        ..
    } = tree;
    if let Err(errno) = configured.give(tenants, (made, &path)) {
        // One that lacks what it was to have is not left behind.
        tenants.remove(made)?;
        return Err(errno);
    }
    let serial = tree.tenants.serial(made).ok_or(Errno::NOENT)?;
    Ok(Entry::directory(Inode::Tenant(serial)))
}

/// Removes a tenant.
pub(super) fn remove(tree: &mut Tree, parent: Inode, name: &OsStr) -> Result<(), Errno> {
    match find(tree, parent, name)?.inode {
        Inode::Tenant(serial) => {
            let id = tenant(tree, serial)?;
            tree.tenants.remove(id)?;
            let Tree {
                tenants, reports, ..
            } = tree;
            reports.retain(|serial| tenants.by_serial(serial).is_some());
            Ok(())
        }
        Inode::Node(_) | Inode::NodeReport(_) => Err(Errno::PERM),
        Inode::File(..) | Inode::NodeFile(..) => Err(Errno::NOTDIR),
    }
}

/// The tenant and file of an inode that can be read or written. A file of a tenant that is gone is as an open one of a
/// group that was removed: ENODEV.
fn place(tree: &Tree, inode: Inode) -> Result<Place, Errno> {
    match inode {
        Inode::File(serial, file) => Ok(Place {
            memcg: tree.tenants.by_serial(serial).ok_or(Errno::NODEV)?,
            serial,
            file,
            node: None,
        }),
        Inode::NodeFile(node, file) => Ok(Place {
            memcg: MemcgId::ROOT,
            serial: 0,
            file,
            node: Some(node as usize),
        }),
        _ => Err(Errno::ISDIR),
    }
}

/// The tenant of whose report a file is; none for other files, which are always ready.
pub(super) fn report_of(tree: &Tree, inode: Inode) -> Option<u64> {
    let place = place(tree, inode).ok()?;
    matches!(place.file, File::PageAge | File::NodePageAge).then_some(place.serial)
}

/// Whether whoever polls a file is told when it holds something else, as by the kernel's.
pub(super) fn tells_changes(inode: Inode) -> bool {
    matches!(
        inode,
        Inode::File(_, File::CgroupEvents | File::Events | File::EventsLocal)
    )
}

/// What a file holds, for a process. To one of another pid namespace the numbers of processes name others, or nobody: it is EACCES.
/// (The story: `xargs kill < cgroup.procs` in a container.)
pub(super) fn read_for(tree: &mut Tree, inode: Inode, reader: u32) -> Result<Vec<u8>, Errno> {
    let is_of_processes = place(tree, inode)?.file == File::Procs;
    if is_of_processes && !counts_as_we_do(reader) {
        return Err(Errno::ACCESS);
    }
    read(tree, inode)
}

/// What a file holds.
pub(super) fn read(tree: &mut Tree, inode: Inode) -> Result<Vec<u8>, Errno> {
    let place = place(tree, inode)?;
    content::read(&mut tree.tenants, &mut tree.reports, place)
}

/// Writes to a file, for a process. A number of another pid namespace names somebody else here: it is ESRCH, as is a process that nobody
/// can see from there.
pub(super) fn write(
    tree: &mut Tree,
    inode: Inode,
    (text, writer): (&str, u32),
) -> Result<Written, Errno> {
    let place = place(tree, inode)?;
    let pid = match place.file {
        File::Procs => {
            let pid = values::process(text, writer)?;
            if pid != writer && !counts_as_we_do(writer) {
                return Err(Errno::SRCH);
            }
            Some(pid.to_string())
        }
        _ => None,
    };
    let text = pid.as_deref().unwrap_or(text);
    content::write(&mut tree.tenants, &mut tree.reports, place, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two at a time, of which each is gone when the next are asked for.
    #[test]
    fn all_are_listed_once_while_others_go() {
        let mut serials: Vec<u64> = (5..25).collect();
        let (mut offset, mut seen) = (0, Vec::new());
        loop {
            let own = [".", ".."].map(|name| (OsString::from(name), Inode::Tenant(3)));
            let file = ("memory.stat".into(), Inode::File(3, File::Stat));
            let tenants = serials.iter().map(|serial| {
                let name = OsString::from(serial.to_string());
                (name, Inode::Tenant(*serial))
            });
            let listed = own.into_iter().chain([file]).chain(tenants).collect();
            let next: Vec<(u64, OsString, Inode)> = behind(offset, listed).take(2).collect();
            let Some((last, ..)) = next.last() else {
                break;
            };
            offset = *last;
            for (_, name, _) in next {
                serials.retain(|serial| name != *serial.to_string());
                seen.push(name);
            }
        }
        let mut all: Vec<OsString> = [".", "..", "memory.stat"].map(OsString::from).to_vec();
        all.extend((5..25).map(|serial: u64| OsString::from(serial.to_string())));
        assert_eq!(seen, all);
    }
}
