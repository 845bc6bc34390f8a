//! Commands as another user than root.

use crate::guard::Run;

/// Id of the user `nobody`.
pub const NOBODY: u32 = 65_534;
/// Id of a user that has no name, and no processes but those of a test.
pub const ANOTHER: u32 = 65_533;

/// The words of the command prefix for a user, whose only group has the same id.
#[must_use]
pub fn prefix(user: u32) -> [String; 4] {
    let [user, group] = ["reuid", "regid"].map(|of| format!("--{of}={user}"));
    [
        "setpriv".to_owned(),
        user,
        group,
        "--clear-groups".to_owned(),
    ]
}

/// The command with these words, as this user.
#[must_use]
pub fn run<S: Into<String>>(user: u32, words: impl IntoIterator<Item = S>) -> Run {
    let words = words.into_iter().map(Into::into);
    Run::new(prefix(user).into_iter().chain(words))
}
