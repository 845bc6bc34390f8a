//! A control group of our own around a program: a stand-in without one, until the real module is here.

pub mod guard;

use crate::system::Proc;

/// Why there is no wall.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct WallError {
    what: String,
    hint: String,
}

impl WallError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// A control group of our own.
#[derive(Debug)]
pub struct Wall(());

impl Wall {
    /// Makes it.
    ///
    /// # Errors
    /// There is none yet.
    pub fn make(_proc: &Proc, name: &str) -> Result<Wall, WallError> {
        Err(WallError {
            what: format!("cannot make a control group {name}: not implemented"),
            hint: "use --best-effort".to_owned(),
        })
    }

    /// Moves a process in.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter(&self, _pid: u32) -> Result<(), WallError> {
        Ok(())
    }

    /// Takes all limits away.
    ///
    /// # Errors
    /// The kernel's.
    pub fn lift(&self) -> Result<(), WallError> {
        Ok(())
    }

    /// Removes it; who is in it goes to where it came from.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove(self) -> Result<(), WallError> {
        Ok(())
    }
}
