//! The reader of page tables. Finds the constants of the running kernel that it needs, and the page
//! tables of a process.
//!
//! Invariant: this module only reads. The kernel checked the right to read the process when this
//! process opened its `/proc/PID/pagemap` (PTRACE_MODE_READ). While that descriptor is open, the
//! mm's top table is not freed. A wrong address yields an error or stale words, never a fault.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::access;
use crate::btf::Btf;
use crate::copier::Copier;
use crate::entry::{Entry, PAGE_SIZE};
use crate::unavailable::Unavailable;

/// 1 GiB: what a third-level entry covers, and the alignment of the direct map's base.
pub(crate) const GIB: u64 = 1 << 30;
/// Number of addresses that are tried as the base of the kernel's direct map (its mapping of all
/// physical memory): 1 GiB apart, 64 TiB in all. The base is at or below the address of the top
/// table.
const BASES_MAX: u64 = 1 << 16;

/// Offsets, in bytes, of the members that lead from a task to the mm behind one of its open files.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    task_files: u64,
    files_fdt: u64,
    fdt_fd: u64,
    file_private: u64,
    mm_pgd: u64,
    /// Offset of the pointer to the list of registered secondary MMUs; `None` in kernels built
    /// without CONFIG_MMU_NOTIFIER.
    mm_notifiers: Option<u64>,
}

/// Reads the page tables of other processes.
#[derive(Debug)]
pub struct Reader {
    pub(crate) copier: Copier,
    offsets: Offsets,
    /// Address of this process's `files_struct`, which all its threads share.
    files: u64,
    /// Kernel address at which physical address 0 is mapped.
    pub(crate) direct_map: u64,
    /// Number of levels of the page tables: 4 or 5.
    pub(crate) levels: u32,
    /// The bits of an entry that hold a physical address.
    pub(crate) mask: u64,
}

/// An address space, opened for reading ([`Reader::attach`]).
#[derive(Debug)]
pub struct Mm {
    /// Keeps the mm and its top table alive; nothing is read through this descriptor.
    _pagemap: OwnedFd,
    /// Kernel address of the top table.
    pub(crate) pgd: u64,
    /// Kernel address of the mm.
    mm: u64,
    has_secondary_mmu: Option<bool>,
}

impl Mm {
    /// A number that no other living address space has: the mm's kernel address.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.mm
    }

    /// Kernel address of the mm.
    pub(crate) fn mm(&self) -> u64 {
        self.mm
    }

    /// Whether a secondary MMU (KVM, SVA, ...) has registered with this address space. That MMU's
    /// accesses do not set accessed bits. `None` if this kernel's type information does not say.
    #[must_use]
    pub fn has_secondary_mmu(&self) -> Option<bool> {
        self.has_secondary_mmu
    }
}

/// The entry that maps a page: an entry of a last-level table, or the upper entry of a huge page.
pub(crate) struct LeafEntry {
    pub(crate) entry: Entry,
    /// Number of bytes that the entry maps.
    pub(crate) span: u64,
}

impl Reader {
    /// Loads the BPF program and finds the constants of the running kernel.
    ///
    /// # Errors
    /// [`Unavailable`]: what is missing on this host, with a hint.
    pub fn open() -> Result<Reader, Unavailable> {
        Reader::with(&Btf::parse(&type_information()?).ok_or_else(not_btf)?)
    }

    /// Does what [`Reader::open`] does, with type information that the caller has parsed.
    pub(crate) fn with(btf: &Btf<'_>) -> Result<Reader, Unavailable> {
        if !cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
            return Err(Unavailable::Processor);
        }
        let offsets = offsets(btf)?;
        let mut reader = Reader {
            copier: Copier::open()?,
            offsets,
            files: 0,
            direct_map: 0,
            levels: 0,
            mask: physical_mask(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        };
        let task = reader.copier.task();
        let files = reader.copier.peek(task + offsets.task_files);
        let unreadable = Unavailable::DirectMap("pagetide's own task cannot be read");
        reader.files = files.ok().flatten().ok_or(unreadable)?;
        reader.calibrate()?;
        Ok(reader)
    }

    /// Number of levels of the page tables: 4 or 5.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Number of runs of the BPF program so far.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.copier.runs
    }

    /// Opens the address space of a process.
    ///
    /// # Errors
    /// - The process is gone or has no memory (a kernel thread, a zombie):
    ///   [`io::ErrorKind::NotFound`].
    /// - The process may not be read.
    /// - Its memory is locked ([`access::is_locked`]).
    pub fn attach(&mut self, pid: u32) -> io::Result<Mm> {
        let pagemap = access::open(pid, "pagemap").map_err(|error| {
            if error.raw_os_error() == Some(libc::ESRCH) {
                return no_memory();
            }
            if access::is_locked(&error) {
                return error;
            }
            let what = format!("cannot open /proc/{pid}/pagemap: {error}");
            io::Error::new(error.kind(), what)
        })?;
        let at = self.offsets;
        let file = self.file(&pagemap)?;
        let mm = self.pointer(file.wrapping_add(at.file_private))?;
        let pgd = self.copier.request(mm + at.mm_pgd, 8);
        let notifiers = at.mm_notifiers.map(|at| self.copier.request(mm + at, 8));
        self.copier.run()?;
        let first = |number: usize| self.copier.result(number).map(|words| words[0]);
        let pgd = first(pgd).filter(|pgd| *pgd != 0).ok_or_else(no_memory)?;
        let subscriptions = notifiers.map(|number| first(number).unwrap_or(0));
        let has_secondary_mmu = match subscriptions {
            None => None,
            Some(0) => Some(false),
            // The kernel keeps this structure (`mmu_notifier_subscriptions`), with an empty list,
            // after the last MMU has unregistered. Its second word (`has_itree`) says whether an
            // MMU ever registered ranges (GPUs, RDMA).
            Some(list) => Some(
                self.copier.peek(list)?.is_none_or(|head| head != 0)
                    || self
                        .copier
                        .peek(list + 8)?
                        .is_none_or(|word| word & 0xff != 0),
            ),
        };
        Ok(Mm {
            _pagemap: pagemap,
            pgd,
            mm,
            has_secondary_mmu,
        })
    }

    /// Returns the kernel address of the `struct file` of `file`, which this process has open.
    pub(crate) fn file(&mut self, file: &impl AsRawFd) -> io::Result<u64> {
        let fd = u64::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
        let table = self.pointer(self.files.wrapping_add(self.offsets.files_fdt))?;
        let files = self.pointer(table.wrapping_add(self.offsets.fdt_fd))?;
        self.pointer(files.wrapping_add(fd * 8))
    }

    /// Reads the pointer at the kernel address `at`. A null pointer, or an address that cannot be
    /// read, is an error.
    pub(crate) fn pointer(&mut self, at: u64) -> io::Result<u64> {
        let value = self.copier.peek(at)?.unwrap_or(0);
        if value == 0 {
            return Err(no_memory());
        }
        Ok(value)
    }

    /// Finds the base of the direct map and the number of levels by trying all combinations. With
    /// the right one, a walk of this process's own tables leads to a page that has a random token.
    fn calibrate(&mut self) -> Result<(), Unavailable> {
        let buffer = vec![0u64; 1024];
        let page = (buffer.as_ptr().addr() as u64).next_multiple_of(PAGE_SIZE);
        let index = usize::try_from((page - buffer.as_ptr().addr() as u64) / 8).unwrap_or(0);
        let mut buffer = std::hint::black_box(buffer);
        let token = token();
        buffer[index..index + 8].copy_from_slice(&token);
        let buffer = std::hint::black_box(buffer);
        let own_error = Unavailable::Own;
        let space = self.attach(std::process::id()).map_err(own_error)?;
        for step in 0..BASES_MAX {
            self.direct_map = (space.pgd & !(GIB - 1)).wrapping_sub(step * GIB);
            for levels in [4, 5] {
                self.levels = levels;
                let Ok(Some(found)) = self.look_up(&space, page) else {
                    continue;
                };
                let physical = found.entry.physical(self.mask) & !(found.span - 1);
                let at = self
                    .direct_map
                    .wrapping_add(physical + (page & (found.span - 1)));
                if self.holds(at, &token).map_err(own_error)? {
                    std::hint::black_box(&buffer);
                    return Ok(());
                }
            }
        }
        Err(Unavailable::DirectMap(
            "no known layout leads to pagetide's own memory",
        ))
    }

    /// Whether the 64 bytes at the kernel address `at` equal the token.
    fn holds(&mut self, at: u64, token: &[u64; 8]) -> io::Result<bool> {
        let number = self.copier.request(at, 64);
        self.copier.run()?;
        Ok(self
            .copier
            .result(number)
            .is_some_and(|words| words[..8] == *token))
    }

    /// Returns the entry that maps the page at address `page`; `None` if the page is not present.
    pub(crate) fn look_up(&mut self, space: &Mm, page: u64) -> io::Result<Option<LeafEntry>> {
        let (mut table, mut shift) = (space.pgd, self.top_shift());
        loop {
            let at = table.wrapping_add((page >> shift & 511) * 8);
            let entry = Entry(self.copier.peek(at)?.unwrap_or(0));
            if !entry.is_present() {
                return Ok(None);
            }
            if shift == 12 || (shift <= 30 && entry.is_huge()) {
                return Ok(Some(LeafEntry {
                    entry,
                    span: 1 << shift,
                }));
            }
            table = self.direct_map.wrapping_add(entry.physical(self.mask));
            shift -= 9;
        }
    }

    /// Number of bits by which an address is shifted right to get its index in the top table.
    pub(crate) fn top_shift(&self) -> u32 {
        if self.levels == 5 { 48 } else { 39 }
    }
}

/// Reads the kernel's type information.
pub(crate) fn type_information() -> Result<Vec<u8>, Unavailable> {
    std::fs::read("/sys/kernel/btf/vmlinux").map_err(Unavailable::Btf)
}

/// The error when the type information has an unknown format.
pub(crate) fn not_btf() -> Unavailable {
    Unavailable::Btf(io::Error::other("its format is unknown"))
}

/// The error when a process is gone or is a kernel thread.
fn no_memory() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "it has no memory of its own (anymore)",
    )
}

/// Finds the offsets; an error names the first that is missing.
fn offsets(btf: &Btf<'_>) -> Result<Offsets, Unavailable> {
    let find = |name: &'static str| {
        let (structure, member) = name.split_once('.').unwrap_or_default();
        btf.offset(structure, member)
            .ok_or(Unavailable::Member(name))
    };
    Ok(Offsets {
        task_files: find("task_struct.files")?,
        files_fdt: find("files_struct.fdt")?,
        fdt_fd: find("fdtable.fd")?,
        file_private: find("file.private_data")?,
        mm_pgd: find("mm_struct.pgd")?,
        mm_notifiers: find("mm_struct.notifier_subscriptions").ok(),
    })
}

/// The bits of an entry that hold an address, from the number of physical address bits in
/// /proc/cpuinfo (52 if that is missing). Memory encryption uses a bit above these.
fn physical_mask(cpuinfo: &str) -> u64 {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("address sizes"));
    let bits = line
        .and_then(|line| {
            line.split([':', ' ', '\t'])
                .find_map(|word| word.parse::<u32>().ok())
        })
        .filter(|bits| (32..=52).contains(bits))
        .unwrap_or(52);
    (1 << bits) - PAGE_SIZE
}

/// Returns eight random words, made from the random seeds of the standard library's hash maps.
fn token() -> [u64; 8] {
    use std::hash::{BuildHasher, RandomState};
    std::array::from_fn(|index| RandomState::new().hash_one(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_bits_are_read_from_cpuinfo() {
        let text = "processor\t: 0\naddress sizes\t: 46 bits physical, 48 bits virtual\n";
        assert_eq!(physical_mask(text), (1 << 46) - 4096);
        assert_eq!(physical_mask(""), (1 << 52) - 4096);
        assert_eq!(physical_mask("address sizes : 999 bits"), (1 << 52) - 4096);
    }

    #[test]
    fn the_number_of_levels_is_found() {
        let reader = Reader::open().expect("root, BPF and BTF");
        assert!(matches!(reader.levels(), 4 | 5));
    }

    #[test]
    fn a_process_without_memory_is_not_found() {
        let mut reader = Reader::open().expect("root, BPF and BTF");
        // kthreadd
        let error = reader.attach(2).expect_err("a kernel thread");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(reader.attach(4_194_305).is_err());
    }
}
