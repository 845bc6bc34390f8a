//! The kernels that the experiment compares. They differ in the list to which a page is added when
//! it is swapped in, and in the engine's policy.
//!
//! Invariant: this file only chooses the list for a new page; the engine chooses which pages are
//! evicted.

use crate::tenant::Tenant;
use ::engine::active_inactive::Stage;
use ::engine::lru_gen::Profile;
use ::engine::{FaultKind, FolioId, FolioType, Pages, Policy};

/// Number of pages that a CPU collects before it adds them to the lists (v5.8).
const ADD_BATCH: u32 = 15;

/// A kernel, which is one row of the table for each parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// v5.8, which the document calls base. At swap-in it tries to activate the page. But that has
    /// no effect while the page is in the CPU's add batch, that is, on no list yet. Only the page
    /// that fills the batch is on a list by then.
    Base,
    /// v5.8 without add batches: every page that is swapped in starts active.
    BaseAtOnce,
    /// v5.8 with the first half of the series.
    Protection,
    /// v5.8 with the whole series.
    Detection,
    /// The multi-gen LRU, about v6.16.
    MultiGen,
}

impl Kernel {
    /// All kernels that run on the engine; base is first.
    pub const ALL: [Self; 5] = [
        Self::Base,
        Self::Protection,
        Self::Detection,
        Self::BaseAtOnce,
        Self::MultiGen,
    ];

    /// Returns the kernel's name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::BaseAtOnce => "base, no add batch",
            Self::Protection => "prot",
            Self::Detection => "detect",
            Self::MultiGen => "multi-gen",
        }
    }

    /// Returns the engine's policy for this kernel, on a machine of `total` pages.
    #[must_use]
    pub const fn policy(self, total: Pages) -> Policy {
        match self {
            Self::Base | Self::BaseAtOnce => Policy::ActiveInactive(Stage::Base, total),
            Self::Protection => Policy::ActiveInactive(Stage::Protection, total),
            Self::Detection => Policy::ActiveInactive(Stage::Detection, total),
            Self::MultiGen => Policy::MultiGen(Profile::P616),
        }
    }
}

/// A machine with one program, under one of the kernels.
#[derive(Debug)]
pub struct Machine {
    tenant: Tenant,
    kernel: Kernel,
    /// For each CPU: number of pages in its add batch.
    batches: Vec<u32>,
}

impl Machine {
    /// Makes a machine of `cpus` CPUs with a program of `pages` pages, of which `limit` fit in
    /// memory.
    #[must_use]
    pub fn new(kernel: Kernel, pages: u32, limit: Pages, cpus: usize) -> Self {
        Self {
            tenant: Tenant::new(kernel.policy(limit), pages, limit),
            kernel,
            batches: vec![0; cpus],
        }
    }

    /// Touches a page from the thread on `cpu`.
    #[inline]
    pub fn touch(&mut self, page: u32, cpu: usize) {
        if !self.tenant.lruvec_mut().touch(FolioId(page)) {
            self.fault(page, cpu);
        }
    }

    fn fault(&mut self, page: u32, cpu: usize) {
        let kind = match self.kernel {
            Kernel::Base => self.swap_in(cpu),
            _ => FaultKind::Refault,
        };
        self.tenant.fault(page, FolioType::Anon, kind);
    }

    /// Counts a swapped-in page in the CPU's add batch. Returns `Refault` if the page is on a list
    /// when the kernel tries to activate it, otherwise `Readahead`.
    fn swap_in(&mut self, cpu: usize) -> FaultKind {
        let waiting = &mut self.batches[cpu];
        *waiting = (*waiting + 1) % ADD_BATCH;
        if *waiting == 0 {
            FaultKind::Refault
        } else {
            FaultKind::Readahead
        }
    }

    /// Returns the program.
    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Returns the program, for operations other than touches.
    pub const fn tenant_mut(&mut self) -> &mut Tenant {
        &mut self.tenant
    }
}
