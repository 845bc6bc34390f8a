//! The kernels of the guests, and the newest of Debian's packages for each.

/// A kernel of Debian for clouds: everything that a virtual machine needs is built in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    V6_12,
    V6_1,
    /// From Debian 13's backports. Debian 12 does not have it, so its package must be unpacked by
    /// hand.
    V6_17,
}

impl Kernel {
    /// The kernels that Debian 12 has: a suite runs on these if none is named.
    pub(super) const ALL: [Kernel; 2] = [Kernel::V6_12, Kernel::V6_1];
    const NAMED: [Kernel; 3] = [Kernel::V6_12, Kernel::V6_1, Kernel::V6_17];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kernel::V6_12 => "6.12",
            Kernel::V6_1 => "6.1",
            Kernel::V6_17 => "6.17",
        }
    }

    pub(super) fn parse(text: &str) -> Result<Kernel, String> {
        Kernel::NAMED
            .into_iter()
            .find(|kernel| kernel.name() == text)
            .ok_or_else(|| format!("there is no kernel {text}; there are 6.12, 6.1 and 6.17"))
    }

    /// Returns the newest package of this kernel among these names. The signed and the unsigned
    /// packages hold the same kernel; for some versions the archive has only one of them.
    pub(super) fn newest<'a>(self, packages: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let begin = format!("linux-image-{}.", self.name());
        let is_ours = |name: &str| {
            let unsigned = name.strip_suffix("-unsigned").unwrap_or(name);
            name.starts_with(&begin) && unsigned.ends_with("-cloud-amd64")
        };
        packages
            .filter(|name| is_ours(name))
            .max_by_key(|name| (numbers(name), name.len()))
    }
}

/// Returns the numbers in a text, in order: versions compare by numbers, never as text.
fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_the_one_with_the_highest_numbers() {
        let names = [
            "linux-image-6.12.99+deb12-cloud-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64-unsigned",
            "linux-image-6.12.118+deb12-cloud-amd64-dbg",
            "linux-image-6.1.0-56-cloud-amd64-unsigned",
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.13.1-cloud-amd64",
            "linux-image-6.12.200-amd64",
        ];
        assert_eq!(Kernel::V6_12.newest(names.into_iter()), Some(names[2]));
        assert_eq!(Kernel::V6_1.newest(names.into_iter()), Some(names[4]));
        assert_eq!(Kernel::V6_1.newest(names.into_iter().take(4)), None);
    }

    #[test]
    fn a_kernel_is_named_by_its_version() {
        assert_eq!(Kernel::parse("6.1"), Ok(Kernel::V6_1));
        assert!(Kernel::parse("6.2").is_err_and(|why| why.contains("6.2") && why.contains("6.12")));
    }
}
