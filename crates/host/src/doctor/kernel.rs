//! The kernel's release, the processor, the setting of huge pages, and whether our threads can be
//! confined.
//!
//! Invariant: the version is reported and decides nothing.

use super::{Finding, chosen, line};

/// The kernel and the processor as found on this host.
pub(super) struct Kernel {
    release: String,
    /// Architecture that this program was built for: another processor runs it only by emulation.
    machine: String,
    /// The active setting of `transparent_hugepage/enabled`: `always`, `madvise` or `never`.
    huge: Option<String>,
    /// Whether the kernel has Landlock and it is enabled.
    landlock: bool,
}

impl Kernel {
    pub(super) fn gather() -> Kernel {
        let words = line("/sys/kernel/mm/transparent_hugepage/enabled");
        Kernel {
            release: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            machine: std::env::consts::ARCH.to_owned(),
            huge: words.and_then(|words| chosen(&words).map(str::to_owned)),
            landlock: crate::confine::has_landlock(),
        }
    }

    pub(super) fn judge(&self) -> Vec<Finding> {
        let huge = match self.huge.as_deref() {
            None => "none in this kernel".to_owned(),
            Some("never") => "never".to_owned(),
            Some(word) => {
                format!(
                    "{word}: a huge page has one accessed bit, so all of its 2 MiB are as young as the last access"
                )
            }
        };
        vec![
            Finding::ok("huge pages", huge),
            self.judge_kernel(),
            self.judge_confinement(),
        ]
    }

    fn judge_confinement(&self) -> Finding {
        if self.landlock {
            let detail = "the kernel has Landlock: the thread of `serve --listen` can open no file";
            return Finding::ok("confinement", detail);
        }
        Finding::limited(
            "confinement",
            "the kernel has no Landlock, or it is off: only its other restrictions keep the thread of `serve --listen` from files",
            "boot a kernel of Linux 5.13 or newer with `landlock` in its lsm= list",
        )
    }

    fn judge_kernel(&self) -> Finding {
        let detail = format!("Linux {} on {}", self.release, self.machine);
        if self.machine == "x86_64" {
            return Finding::ok("kernel", detail);
        }
        Finding::limited(
            "kernel",
            format!("{detail}: the page tables of this processor are not supported"),
            "run on x86-64; elsewhere ages are those of whole mappings",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn kernel(machine: &str, huge: &str) -> Vec<Finding> {
        let kernel = Kernel {
            release: "6.1.0".to_owned(),
            machine: machine.to_owned(),
            huge: Some(huge.to_owned()),
            landlock: huge != "never",
        };
        kernel.judge()
    }

    #[test]
    fn the_processor_decides_and_the_version_does_not() {
        assert_eq!(kernel("x86_64", "never")[1].state, State::Ok);
        let arm = &kernel("aarch64", "always")[1];
        assert_eq!(arm.state, State::Limited);
        assert!(arm.detail.contains("6.1.0 on aarch64"), "{arm:?}");
    }

    #[test]
    fn a_kernel_without_landlock_is_reported() {
        assert_eq!(kernel("x86_64", "always")[2].state, State::Ok);
        assert_eq!(kernel("x86_64", "never")[2].state, State::Limited);
    }

    #[test]
    fn a_huge_page_is_reported_to_have_one_accessed_bit() {
        assert!(
            kernel("x86_64", "madvise")[0]
                .detail
                .contains("one accessed bit")
        );
        assert_eq!(kernel("x86_64", "never")[0].detail, "never");
    }
}
