//! A `PostgreSQL` server for one test. It listens on a socket in its own folder, not on the
//! network.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::guard::{Run, Running, send};
use crate::temp::TempDir;
use crate::{proc, wait};

/// Folder of the programs of `PostgreSQL`.
const BIN: &str = "/usr/lib/postgresql/15/bin";
/// Time limit for starting the server.
const SOON: Duration = Duration::from_secs(120);

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    server: Running,
    folder: TempDir,
}

impl Postgres {
    /// Starts a server with shared buffers of this size (such as `128MB`), and a `pgbench` database
    /// of this scale.
    ///
    /// # Panics
    /// If it does not start: version 15 and its user must be installed.
    #[must_use]
    pub fn start(shared_buffers: &str, scale: u64) -> Postgres {
        Postgres::start_as(shared_buffers, scale, &Run::clone)
    }

    /// Like [`Postgres::start`], but the command that `wrap` makes runs the server.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_as(shared_buffers: &str, scale: u64, wrap: &dyn Fn(&Run) -> Run) -> Postgres {
        assert!(Path::new(BIN).is_dir(), "{BIN} is not there");
        let folder = TempDir::public();
        let place = folder.path().to_string_lossy().into_owned();
        let owned = Command::new("chown").args(["postgres", &place]).status();
        assert!(owned.is_ok_and(|status| status.success()), "chown {place}");
        let data = folder.file("data");
        let init = as_postgres(&["initdb", "-D", &data, "-A", "trust", "--no-sync"]);
        let outcome = init.finish(SOON);
        assert!(outcome.status.success(), "initdb: {}", outcome.stderr);
        let buffers = format!("shared_buffers={shared_buffers}");
        let words = ["postgres", "-D", &data, "-k", &place, "-h", ""];
        let words = [&words[..], &["-c", &buffers, "-F"]].concat();
        let postgres = Postgres {
            server: wrap(&as_postgres(&words)).start(),
            folder,
        };
        let ready = || {
            let requested = as_postgres(&["pg_isready", "-q", "-h", &place]).finish(SOON);
            requested.status.success()
        };
        wait::until("the server", SOON, ready);
        let filled = postgres.pgbench(&["-i", "-q", "-s", &scale.to_string(), "postgres"]);
        let outcome = filled.finish(SOON * 2);
        assert!(outcome.status.success(), "pgbench -i: {}", outcome.stderr);
        postgres
    }

    /// Pid of the server's first process.
    ///
    /// # Panics
    /// If its pid file is missing.
    #[must_use]
    pub fn pid(&self) -> u32 {
        let file = self.folder.path().join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let pid = text.lines().next().and_then(|line| line.parse().ok());
        pid.unwrap_or_else(|| panic!("no server: {}", self.server.state()))
    }

    /// Path of the socket on which the server listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    /// The command that runs an SQL query on the server and prints the result as text.
    #[must_use]
    pub fn psql(&self, question: &str) -> Run {
        let place = self.folder.path().to_string_lossy().into_owned();
        as_postgres(&["psql", "-h", &place, "-Atqc", question, "postgres"])
    }

    /// The command that runs `pgbench WORDS` on the server.
    #[must_use]
    pub fn pgbench(&self, words: &[&str]) -> Run {
        let place = self.folder.path().to_string_lossy().into_owned();
        as_postgres(&[&["pgbench", "-h", &place], words].concat())
    }
}

impl Drop for Postgres {
    /// Ends the server in order: a killed server would not remove its shared memory.
    fn drop(&mut self) {
        let file = self.folder.path().join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some(pid) = text.lines().next().and_then(|line| line.parse().ok()) {
            send(pid, Signal::INT);
            let _ = wait::poll(Duration::from_secs(20), || {
                (!proc::is_alive(pid)).then_some(())
            });
        }
    }
}

/// The command that runs a program of `PostgreSQL` as its user: the program refuses to run as root.
fn as_postgres(words: &[&str]) -> Run {
    let program = format!("{BIN}/{}", words[0]);
    let user = [
        "--reuid",
        "postgres",
        "--regid",
        "postgres",
        "--init-groups",
    ];
    let head = std::iter::once("setpriv")
        .chain(user)
        .chain([program.as_str()]);
    Run::new(head.chain(words[1..].iter().copied()))
}
