//! Where `--listen` listens.
//!
//! Invariant: an address is a path or a number; names are not asked for, so what is listened on is what was written.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// A unix socket, or a TCP port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Address {
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `127.0.0.1:9477`, `[::1]:9477`.
    Tcp(SocketAddr),
}

/// Why a text is no address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no address to listen on; write unix:/run/pagetide/metrics.sock or 127.0.0.1:9477"
)]
pub struct AddressError(String);

impl Address {
    /// Whether others than this host can reach it.
    #[must_use]
    pub fn is_open_to_others(&self) -> bool {
        match self {
            Address::Unix(_) => false,
            Address::Tcp(at) => !is_loopback(at.ip()),
        }
    }
}

/// `::ffff:127.0.0.1` is one, too.
pub(super) fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let wrong = || AddressError(text.to_owned());
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() && !path.contains('\0') => {
                Ok(Address::Unix(path.into()))
            }
            Some(_) => Err(wrong()),
            None => text.parse().map(Address::Tcp).map_err(|_| wrong()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(at) => write!(f, "http://{at}/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_and_numbers_are_addresses() {
        for (text, open) in [
            ("unix:/run/x", false),
            ("unix:x y", false),
            ("127.0.0.1:9477", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:9477", true),
            ("[::]:9477", true),
            ("10.0.0.1:80", true),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.is_open_to_others(), open, "{text}");
        }
        for text in [
            "",
            "unix:",
            "9477",
            ":9477",
            "localhost:9477",
            "127.0.0.1",
            "127.0.0.1:70000",
            "/run/x",
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.to_string().contains("unix:/run"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(unix:)?\\PC{0,30}") {
            let _ = text.parse::<Address>();
        }
    }
}
