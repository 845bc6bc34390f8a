//! The secrets that allow requests over TCP: a token from a file, or a cookie that a browser gets
//! in exchange for the token.
//!
//! Invariant: the token's file belongs to us, and no other user may read it. The time to compare
//! secrets does not depend on how much of them is equal. The cookie differs from the token: it
//! becomes invalid when this process ends.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, ExitCode};

/// Length of the shortest token, in bytes: shorter ones could be guessed.
const LEN_MIN: usize = 16;
/// Length of the longest token, in bytes.
const LEN_MAX: usize = 1024;
/// Number of random bytes in a token that we make.
const RANDOM_LEN: usize = 32;

/// A secret text: the token, or a cookie's value.
#[derive(Clone)]
pub struct Token(String);

/// Hides the text, so that it is not printed by accident.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Whether `text` is the token.
    pub(super) fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let differ = ours.iter().zip(theirs);
        let differ = differ.fold(0, |differ, (a, b)| black_box(differ | (a ^ b)));
        // The token's length is not secret.
        ours.len() == theirs.len() && differ == 0
    }

    /// Returns the secret text, to be sent to a client that may have it.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Makes a random token.
    pub(super) fn new() -> io::Result<Token> {
        let mut bytes = [0; RANDOM_LEN];
        let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
        if got < RANDOM_LEN {
            return Err(io::Error::other("the kernel has too little chance"));
        }
        Ok(Token(bytes.map(|byte| format!("{byte:02x}")).concat()))
    }

    /// Returns the token in a file. If there is no such file, makes a new token and writes it
    /// there.
    ///
    /// # Errors
    /// The file cannot be used: other users may read it, it is not ours, or it contains no token.
    pub fn of_file(path: &Path) -> Result<Token, Error> {
        let failed = |error: &io::Error| {
            unusable(
                path,
                &error.to_string(),
                "give another file with --token-file",
            )
        };
        match read(path) {
            Ok(text) => Token::checked(&text).map_err(|why| {
                let hint =
                    "remove the file, and one is made; or write one there: `openssl rand -hex 32`";
                unusable(path, why, hint)
            }),
            Err(Unread::Kind(why, hint)) => Err(unusable(path, why, hint)),
            Err(Unread::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                let token = Token::new().map_err(|error| failed(&error))?;
                write(path, &token).map_err(|error| failed(&error))?;
                Ok(token)
            }
            Err(Unread::Io(error)) => Err(failed(&error)),
        }
    }

    /// Checks a token's length, and that a header can carry its characters (RFC 6750, b64token).
    fn checked(text: &str) -> Result<Token, &'static str> {
        let text = text.trim();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        match text {
            text if text.len() < LEN_MIN => Err("the token is shorter than 16 letters"),
            text if text.len() > LEN_MAX => Err("the token is longer than 1,024 letters"),
            text if !text.bytes().all(is_plain) => {
                Err("the token has other characters than letters, digits and -._~+/=")
            }
            text => Ok(Token(text.to_owned())),
        }
    }
}

/// Returns a random text that cannot be guessed, for use in one response.
///
/// # Errors
/// The kernel returns no random bytes.
pub fn nonce() -> io::Result<String> {
    Token::new().map(|token| token.0)
}

/// Returns the error for a token file that cannot be used.
fn unusable(path: &Path, why: &str, hint: &str) -> Error {
    let what = format!("cannot use the token in {}: {why}", path.display());
    Error::ending(ExitCode::Failure, what, hint)
}

enum Unread {
    Io(io::Error),
    Kind(&'static str, &'static str),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Io(error)
    }
}

fn read(path: &Path) -> Result<String, Unread> {
    let own = rustix::process::geteuid().as_raw();
    // A Kubernetes Secret is mounted as a link; a link of another user may lead to any file.
    let link = std::fs::symlink_metadata(path)?;
    if link.is_symlink() && link.uid() != own && link.uid() != 0 {
        return Err(Unread::Kind(
            "it is a link of another user's",
            "give a file of yours with --token-file",
        ));
    }
    // Opening a pipe would block.
    let flags = rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        // A dangling link: no file can be created in its place. (A mounted Secret without this key
        // is such a link.)
        Err(error) if link.is_symlink() && error.kind() == io::ErrorKind::NotFound => {
            return Err(Unread::Kind(
                "it is a link to nothing",
                "put the token where it leads, or remove the link",
            ));
        }
        file => file?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(Unread::Kind(
            "it is no file",
            "give a file with --token-file",
        ));
    }
    if meta.uid() != own && meta.uid() != 0 {
        return Err(Unread::Kind(
            "it belongs to another user",
            "give a file of yours with --token-file",
        ));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(Unread::Kind(
            "others may read or change it",
            "`chmod 600` it, and change the token",
        ));
    }
    let mut text = String::new();
    file.take(LEN_MAX as u64 * 2).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes the file as a whole, or not at all.
fn write(path: &Path, token: &Token) -> io::Result<()> {
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let done = file.write_all(format!("{}\n", token.0).as_bytes());
    if done.is_err() {
        let _ = std::fs::remove_file(path);
    }
    done
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pagetide-token-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_token_is_made_once_and_found_again() {
        let path = file("made");
        let made = Token::of_file(&path).expect("made");
        assert_eq!(made.text().len(), 64);
        let mode = std::fs::metadata(&path)
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Token::of_file(&path).expect("found");
        assert!(made.is(again.text()) && again.is(made.text()));
        std::fs::remove_file(&path).expect("ours");
        let other = Token::of_file(&path).expect("made");
        assert!(!made.is(other.text()));
        std::fs::remove_file(&path).expect("ours");
        assert!(!format!("{made:?}").contains(made.text()));
    }

    #[test]
    fn an_unsafe_token_file_is_refused() {
        let path = file("refused");
        for (text, mode, why) in [
            ("0123456789abcdef", 0o644, "others may read"),
            ("0123456789abcdef", 0o620, "others may read"),
            ("short", 0o600, "shorter"),
            ("", 0o600, "shorter"),
            ("0123456789 abcdef", 0o600, "characters"),
            ("0123456789\u{e4}\u{e4}abcdef", 0o600, "characters"),
        ] {
            std::fs::write(&path, text).expect("written");
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("ours");
            let error = Token::of_file(&path).expect_err(text);
            assert!(error.to_string().contains(why), "{error}");
        }
        let link = file("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        let good = "0123456789abcdef0123456789abcdef";
        std::fs::write(&path, good).expect("written");
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, private).expect("ours");
        // Regression: a token from a Kubernetes Secret, which is mounted as a link, was refused.
        assert!(Token::of_file(&link).expect("a link of ours").is(good));
        std::fs::remove_file(&path).expect("ours");
        let error = Token::of_file(&link).expect_err("there is nothing");
        assert!(error.to_string().contains("a link to nothing"), "{error}");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65534), None).expect("root may");
            let error = Token::of_file(&link).expect_err("somebody else's link");
            assert!(error.to_string().contains("link"), "{error}");
        }
        assert!(
            Token::of_file(&std::env::temp_dir()).is_err(),
            "a directory"
        );
        std::fs::remove_file(link).expect("ours");
    }

    #[test]
    fn only_an_equal_text_is_accepted() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.is("0123456789abcdef"));
        for text in [
            "",
            "0123456789abcde",
            "0123456789abcdeg",
            "0123456789abcdef0",
            "1123456789abcdef",
        ] {
            assert!(!token.is(text), "{text}");
        }
    }
}
