//! Directories of the mounted tree: their entries, and the effect of mkdir and rmdir.
//!
//! Invariant: a name is looked up as a file first, then as a node's directory, then as a tenant; no
//! tenant can have the name of another entry.

use std::ffi::{OsStr, OsString};

use engine::memcg::MemcgId;
use engine::units::PAGE_LEN;
use rustix::io::Errno;

use super::content::{self, TenantFile, Written};
use super::file::File;
use super::inode::Inode;
use super::request_queue::Tree;
use super::values;
use crate::control::shares_our_pids;

/// Name of the directory of report files within a node's directory.
const REPORT: &str = "workingset_report";

/// The attributes that stat(2) returns.
pub(super) struct Entry {
    pub(super) inode: Inode,
    pub(super) mode: u16,
    /// Size in bytes. Never less than the text has, because sendfile(2) and splice(2) (cat of
    /// busybox) read no further; and not much more, because `tail` begins to read at a distance
    /// from this end.
    pub(super) size: u64,
    /// Whether these attributes stay the same as long as the tenant exists.
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
        // The lists of processes have no largest size. Other texts only grow with the number of
        // nodes, which is constant.
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
            // As in sysfs, at least a page; most texts here are shorter.
            size: at_most.max(1).next_multiple_of(PAGE_LEN) as u64,
            is_lasting,
        }
    }
}

/// Returns the attributes of an inode, or an error if it does not exist any more.
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

/// Returns the tenant with this serial; ENOENT if it is gone.
fn tenant(tree: &Tree, serial: u64) -> Result<MemcgId, Errno> {
    tree.tenants.by_serial(serial).ok_or(Errno::NOENT)
}

/// Returns the names and inodes of all entries of a directory, with `.` and `..`.
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

/// Offset of the first tenant in a directory, behind its fixed entries.
const TENANTS: u64 = 1 << 16;

/// Returns the entries behind an offset of readdir(3), each with its own offset. A tenant's offset
/// is its serial number, not its position in the list. So a reader gets each tenant that stays
/// exactly once, also if others are made and removed meanwhile.
pub(super) fn behind(
    offset: u64,
    listed: Vec<(OsString, Inode)>,
) -> impl Iterator<Item = (u64, OsString, Inode)> {
    let place = |(at, (name, inode)): (u64, (OsString, Inode))| match inode {
        // The first two entries are `.` and `..`. Serial numbers ascend, because tenants are listed
        // in the order in which they were made.
        Inode::Tenant(serial) if at > 2 => (TENANTS + serial, name, inode),
        _ => (at, name, inode),
    };
    let all = (1_u64..).zip(listed).map(place);
    all.filter(move |(at, ..)| *at > offset)
}

fn node_name(number: u32) -> OsString {
    format!("node{number}").into()
}

/// Finds the entry of this name in a directory.
pub(super) fn find(tree: &Tree, parent: Inode, name: &OsStr) -> Result<Entry, Errno> {
    let found = match parent {
        // By its path, not in a list: a directory may have thousands of tenants.
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

/// Returns the file or node's directory of this name in a tenant's directory, which no tenant may
/// have as its name; `None` for other names.
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
    // `host` is the directory of the host's own groups, also while there is none.
    is_taken |= serial == 0 && name == "host";
    if is_taken {
        return Err(Errno::EXIST);
    }
    // Names contain no line break, as in the kernel.
    let name = name.to_str().filter(|name| !name.contains('\n'));
    let made = tree.tenants.make(above, name.ok_or(Errno::INVAL)?)?;
    let path = tree.tenants.path(made)?.to_owned();
    let Tree {
        tenants,
        configured,
        ..
    } = tree;
    if let Err(errno) = configured.set_limits(tenants, (made, &path)) {
        // If its configured limits cannot be set, the new tenant is removed again.
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

/// Returns the tenant and file of an inode that can be read or written. ENODEV if the tenant was
/// removed, like the kernel's for an open file of a removed group.
fn place(tree: &Tree, inode: Inode) -> Result<TenantFile, Errno> {
    match inode {
        Inode::File(serial, file) => Ok(TenantFile {
            memcg: tree.tenants.by_serial(serial).ok_or(Errno::NODEV)?,
            serial,
            file,
            node: None,
        }),
        Inode::NodeFile(node, file) => Ok(TenantFile {
            memcg: MemcgId::ROOT,
            serial: 0,
            file,
            node: Some(node as usize),
        }),
        _ => Err(Errno::ISDIR),
    }
}

/// Returns the serial of the tenant if the inode is a report file; `None` for other files, which
/// are always ready to be read.
pub(super) fn report_of(tree: &Tree, inode: Inode) -> Option<u64> {
    let place = place(tree, inode).ok()?;
    matches!(place.file, File::PageAge | File::NodePageAge).then_some(place.serial)
}

/// Whether poll(2) reports changes of the file's content, as for the kernel's file of that name.
pub(super) fn tells_changes(inode: Inode) -> bool {
    matches!(
        inode,
        Inode::File(_, File::CgroupEvents | File::Events | File::EventsLocal)
    )
}

/// Returns the content of a file for the process `reader`. EACCES for lists of processes if the
/// reader is in another pid namespace, where the pids name other processes or none.
pub(super) fn read_for(tree: &mut Tree, inode: Inode, reader: u32) -> Result<Vec<u8>, Errno> {
    let is_of_processes = place(tree, inode)?.file == File::Procs;
    if is_of_processes && !shares_our_pids(reader) {
        return Err(Errno::ACCESS);
    }
    read(tree, inode)
}

/// Returns the content of a file, for any reader.
pub(super) fn read(tree: &mut Tree, inode: Inode) -> Result<Vec<u8>, Errno> {
    let place = place(tree, inode)?;
    content::read(&mut tree.tenants, &mut tree.reports, place)
}

/// Writes to a file for a process. ESRCH for a pid if the writer is in another pid namespace, where
/// the pid names another process, and for a process that the writer cannot see.
pub(super) fn write(
    tree: &mut Tree,
    inode: Inode,
    (text, writer): (&str, u32),
) -> Result<Written, Errno> {
    let place = place(tree, inode)?;
    let pid = match place.file {
        File::Procs => {
            let pid = values::process(text, writer)?;
            if pid != writer && !shares_our_pids(writer) {
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

    /// Lists two tenants at a time, and removes them before it lists the next two.
    #[test]
    fn each_tenant_is_listed_once_while_others_are_removed() {
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
