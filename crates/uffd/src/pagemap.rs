//! Which pages of a process are there (`PAGEMAP_SCAN`, Linux 6.7).

use crate::abi::{PAGEMAP_SCAN, PageRegion, PmScanArg};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// An open `/proc/PID/pagemap` with a buffer for results.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    regions: Vec<PageRegion>,
}

/// Which pages to report: all bits of `mask`, where those of `inverted` count when absent; the
/// result carries the bits of `report`.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// `page_is` bits that a page must have (or lack, where inverted).
    pub mask: u64,
    /// Bits of `mask` that must be absent.
    pub inverted: u64,
    /// Bits to report.
    pub report: u64,
}

impl Pagemap {
    /// Opens the page map of `pid`.
    ///
    /// # Errors
    /// EACCES or EPERM without ptrace permission; `NotFound` if it is gone.
    pub fn open(pid: i32) -> io::Result<Pagemap> {
        let file = File::open(format!("/proc/{pid}/pagemap"))?;
        Ok(Pagemap {
            file,
            regions: vec![PageRegion::default(); 4096],
        })
    }

    /// Calls `f(start, end, bits)` for each region of equal pages in `start..end`.
    ///
    /// # Errors
    /// ENOTTY on kernels without it; ESRCH when the process is gone.
    pub fn scan(
        &mut self,
        start: u64,
        end: u64,
        query: Query,
        mut f: impl FnMut(u64, u64, u64),
    ) -> io::Result<()> {
        let mut at = start;
        while at < end {
            let mut arg = PmScanArg {
                size: size_of::<PmScanArg>() as u64,
                start: at,
                end,
                vec: self.regions.as_mut_ptr() as u64,
                vec_len: self.regions.len() as u64,
                category_mask: query.mask,
                category_inverted: query.inverted,
                return_mask: query.report,
                ..PmScanArg::default()
            };
            // SAFETY: the request's structure; its vector is live and as long as it says.
            let n = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
            let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
            for r in &self.regions[..n.min(self.regions.len())] {
                f(r.start, r.end, r.categories);
            }
            if arg.walk_end <= at {
                return Err(io::Error::other("page map scan makes no progress"));
            }
            at = arg.walk_end;
        }
        Ok(())
    }
}
