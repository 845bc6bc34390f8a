//! Derives from the path of a control group what runs in the group.
//!
//! Invariant: pure; no input causes a panic. If containers are nested, the innermost one is the
//! workload. The unit is the nearest one, at or above the group, that systemd made. (A service may
//! make groups below its own, with names of its choice.) Components `..` (groups outside our cgroup
//! namespace) are ignored. Everything below `user-N.slice` belongs to that user, even if files of a
//! runtime say otherwise: every user can make groups below its own.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Kind, Runtime, Workload, text};
use crate::system::text::number32;

/// Number of hexadecimal digits of a container's id.
const ID_LEN: usize = 64;

/// A container, as described by a path component.
#[derive(Default)]
struct Container {
    runtime: Option<Runtime>,
    id: Option<String>,
    name: Option<String>,
}

/// What the path components read so far have shown.
#[derive(Default)]
struct Found<'a> {
    unit: Option<&'a [u8]>,
    container: Option<Container>,
    pod_uid: Option<String>,
    /// Id of the user in whose slice the group is.
    user: Option<u32>,
    /// Length in bytes of that beginning of the path that ends at the unit, pod or container.
    end: usize,
}

impl Workload {
    /// Returns what runs in the control group at `path`, below the mount of the memory controller
    /// (version 1 or 2). Names that only the runtimes' files have are `None` until
    /// [`name`](super::name) adds them.
    #[must_use]
    pub fn of(path: &Path) -> Workload {
        let bytes = path.as_os_str().as_bytes();
        let found = components(bytes);
        let kind = match &found {
            found if found.container.is_some() => Kind::Container,
            found if found.pod_uid.is_some() => Kind::Pod,
            found if found.unit.is_some() => Kind::Unit,
            _ => Kind::Group,
        };
        let end = if kind == Kind::Group {
            bytes.len()
        } else {
            found.end
        };
        let container = found.container.unwrap_or_default();
        Workload {
            kind,
            path: PathBuf::from(OsStr::from_bytes(&bytes[..end])),
            group: text(&bytes[..end]),
            unit: found.unit.map(|unit| text(&unescape(unit))),
            unit_id: found.unit.map(text),
            runtime: container.runtime,
            container_id: container.id,
            container: container.name,
            pod_uid: found.pod_uid,
            pod: None,
            namespace: None,
            user: found.user,
            pids: Vec::new(),
        }
    }
}

/// Reads the components of a path, from the root down.
fn components(path: &[u8]) -> Found<'_> {
    let mut found = Found::default();
    let mut parent: &[u8] = b"";
    let mut end = 0;
    for part in path.split(|&b| b == b'/') {
        end += part.len() + 1;
        if matches!(part, b"" | b"." | b"..") {
            continue;
        }
        let uid = pod_uid(part);
        let container = container(part, parent);
        // Below a container, and below a unit other than a user's systemd, the container or unit
        // chooses the names of groups, so these are not taken for users or units.
        let outside = found.container.is_none() && found.unit.is_none_or(is_user_manager);
        if outside && found.user.is_none() {
            found.user = user(part);
        }
        let is_unit = outside && is_unit(part);
        if is_unit {
            found.unit = Some(part);
        }
        let is_known = is_unit || uid.is_some() || container.is_some();
        if uid.is_some() {
            (found.pod_uid, found.container) = (uid, None);
        }
        if container.is_some() {
            found.container = container;
        }
        if is_known {
            found.end = end - 1;
        }
        parent = part;
    }
    found
}

/// Returns whether a path component is the name of a service or scope.
fn is_unit(part: &[u8]) -> bool {
    [&b".service"[..], b".scope"]
        .iter()
        .any(|end| part.len() > end.len() && part.ends_with(end))
}

/// Returns whether a unit is a user's systemd, which has the user's units below it.
fn is_user_manager(unit: &[u8]) -> bool {
    unit.starts_with(b"user@") && user(unit).is_some()
}

/// Parses the user id in `user-1000.slice` or `user@1000.service`; `None` for any other name.
fn user(part: &[u8]) -> Option<u32> {
    let slice = || part.strip_prefix(b"user-")?.strip_suffix(b".slice");
    let manager = || part.strip_prefix(b"user@")?.strip_suffix(b".service");
    number32(slice().or_else(manager)?)
}

/// Parses the uid of a pod from a slice (`kubepods-burstable-pod1_2.slice`, also if followed by
/// `:cri-containerd:ID`) or from a directory (`pod1-2`).
fn pod_uid(part: &[u8]) -> Option<String> {
    let part = part.split(|&b| b == b':').next().unwrap_or_default();
    let in_slice = || {
        let name = part.strip_suffix(b".slice")?;
        let at = name.windows(4).rposition(|four| four == b"-pod")?;
        let is_kube = name[..at].windows(8).any(|eight| eight == b"kubepods");
        is_kube.then_some(&name[at + 4..])
    };
    let uid = in_slice().or_else(|| part.strip_prefix(b"pod"))?;
    let uid: Vec<u8> = uid
        .iter()
        .map(|&b| if b == b'_' { b'-' } else { b })
        .collect();
    let is_uid = matches!(uid.len(), 32 | 36)
        && uid.iter().all(|&b| b == b'-' || b.is_ascii_hexdigit())
        && (uid.len() == 36) == uid.contains(&b'-');
    is_uid.then(|| text(&uid))
}

/// Returns the container that a path component stands for. `parent`: the component before it.
fn container(part: &[u8], parent: &[u8]) -> Option<Container> {
    with_id(part, parent).or_else(|| named(part, parent))
}

/// Returns a container whose id is in the group's name: `docker-ID.scope`, `docker/ID`,
/// `SLICE:cri-containerd:ID`.
fn with_id(part: &[u8], parent: &[u8]) -> Option<Container> {
    let part = part.strip_suffix(b".scope").unwrap_or(part);
    let (before, id) = part.split_at(part.len().checked_sub(ID_LEN)?);
    if !id.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let (prefix, separator) = match before.split_last() {
        None => (parent, b'/'),
        Some((separator, prefix)) => (prefix, *separator),
    };
    let prefix = match separator {
        b'/' | b'-' => prefix,
        b':' => prefix.rsplit(|&b| b == b':').next().unwrap_or_default(),
        _ => return None,
    };
    let runtime = match prefix {
        b"docker" => Some(Runtime::Docker),
        b"libpod" | b"libpod-payload" | b"libpod_parent" => Some(Runtime::Podman),
        b"cri-containerd" | b"nerdctl" | b"containerd" => Some(Runtime::Containerd),
        // containerd's own namespaces.
        b"default" | b"k8s.io" if separator == b'/' => Some(Runtime::Containerd),
        b"crio" => Some(Runtime::CriO),
        // A container's monitor (conmon) runs in a group of its own, outside of the container.
        prefix if prefix.ends_with(b"conmon") => return None,
        _ => None,
    };
    let id = Some(text(id));
    Some(Container {
        runtime,
        id,
        name: None,
    })
}

/// Returns a container whose name is in the group's name.
fn named(part: &[u8], parent: &[u8]) -> Option<Container> {
    let lxc = || {
        let after = |start: &[u8]| part.strip_prefix(start);
        let payload = after(b"lxc.payload.").or_else(|| after(b"lxc.payload-"));
        let below = matches!(parent, b"lxc" | b"lxc.payload").then_some(part);
        payload.or(below).map(<[u8]>::to_vec)
    };
    let nspawn = || {
        let machine = part
            .strip_prefix(b"machine-")
            .and_then(|part| part.strip_suffix(b".scope"));
        let service = part
            .strip_prefix(b"systemd-nspawn@")
            .and_then(|part| part.strip_suffix(b".service"));
        Some(unescape(machine.or(service)?))
    };
    let (runtime, name) = match (lxc(), nspawn()) {
        (Some(name), _) => (Runtime::Lxc, name),
        // A virtual machine's scope is an ordinary unit, not a container.
        (None, Some(name)) if !name.starts_with(b"qemu-") => (Runtime::Nspawn, name),
        _ => return None,
    };
    (!name.is_empty()).then(|| Container {
        runtime: Some(runtime),
        id: None,
        name: Some(text(&name)),
    })
}

/// Undoes systemd's escapes (such as `\x2d`); keeps all other bytes.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let digits = match rest {
            [b'\\', b'x', digits @ ..] => digits.get(..2),
            _ => None,
        };
        let byte = digits
            .and_then(crate::system::text::hex)
            .and_then(|byte| u8::try_from(byte).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &rest[4..] } else { after };
    }
    out
}
