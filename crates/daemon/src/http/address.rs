//! An address to listen on, as written after `--listen`.
//!
//! Invariant: an address is a path or a number. Host names are not resolved, so the server listens
//! on exactly what the user wrote.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on: a unix socket, or an IP address with a TCP port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Address {
    /// Path of a unix socket, written `unix:PATH`.
    Unix(PathBuf),
    /// IP address and port, written `127.0.0.1:9477` or `[::1]:9477`.
    Tcp(SocketAddr),
}

/// Why a text is not an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no address to listen on; write unix:/run/pagetide/metrics.sock or 127.0.0.1:9477"
)]
pub struct AddressError(String);

impl Address {
    /// Whether the address can be reached from other hosts.
    #[must_use]
    pub fn is_open_to_others(&self) -> bool {
        match self {
            Address::Unix(_) => false,
            Address::Tcp(at) => !is_loopback(at.ip()),
        }
    }
}

/// Whether an IP address is a loopback address; so is `::ffff:127.0.0.1`.
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
        fn any_text_is_parsed_or_refused(text in "(unix:)?\\PC{0,30}") {
            let _ = text.parse::<Address>();
        }
    }
}
