//! The twelve services of `bench services`: real programs that listen on loopback, each in a memory
//! control group of its own.
//!
//! Invariant: every value that a service holds is a function of its key ([`value`]), so each answer
//! can be checked. The clients run in the benchmark's own process or in another group: the group of
//! a service holds only the service.

pub mod client;
pub mod figures;
pub mod janitor;

pub mod load;
mod made;

use crate::memcg::MemoryGroup;
use crate::temp::TempDir;
use client::Address;

/// What a service is, how it is started, and how its clients use it.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Name in commands and tables.
    pub name: &'static str,
    /// Number of keys, which are 0, 1, 2 and so on.
    pub keys: u64,
    /// Length of a value, in words of 8 bytes; for `compile`, the number of functions in a file.
    pub words: u64,
    /// Percentage of the keys that 999 of 1000 requests are for; the others are for any key.
    pub hot: u64,
    /// Requests per minute of all clients together.
    pub per_minute: u64,
    /// Number of clients, so also the highest number of requests in progress at the same time.
    pub clients: u64,
    /// Programs that the service needs: the path or name of each, and a command that installs it.
    pub needs: &'static [(&'static str, &'static str)],
    /// Starts the service in its surroundings.
    start: fn(&Service, &Surroundings) -> Started,
}

/// The groups and the folder that a service is started with.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The service's own control group.
    pub group: &'a MemoryGroup,
    /// The control group of its clients.
    pub outside: &'a MemoryGroup,
    /// The service's own folder, which other users can enter.
    pub folder: &'a TempDir,
}

/// A service that has been started.
#[derive(Debug)]
pub struct Started {
    /// The address of the service.
    pub address: Address,
    #[expect(dead_code, reason = "it ends when this is dropped")]
    pub(crate) keep: made::Resources,
}

/// Command that installs redis. The constants below are those of the other programs.
const REDIS: &str = "apt-get install redis-server";
const POSTGRES: &str = "apt-get install postgresql-15";
const NGINX: &str = "apt-get install nginx-light";
const MEMCACHED: &str = "apt-get install memcached";
const NODE: &str = "apt-get install nodejs";
const JAVA: &str = "apt-get install openjdk-17-jdk-headless";
const PYTHON: &str = "apt-get install python3 python3-venv";
const PHP: &str = "apt-get install php8.2-fpm";
const GCC: &str = "apt-get install gcc";
const GO: &str = "apt-get install golang";

/// All services. The rates are meant to leave two processors idle while all services run; that is
/// not checked.
pub const ALL: [Service; 12] = [
    Service {
        name: "redis",
        keys: 90_000,
        words: 256,
        hot: 40,
        per_minute: 60_000,
        clients: 1,
        needs: &[("redis-server", REDIS)],
        start: made::redis,
    },
    Service {
        name: "postgres",
        keys: 120_000,
        words: 128,
        hot: 30,
        per_minute: 18_000,
        clients: 2,
        needs: &[("/usr/lib/postgresql/15/bin/postgres", POSTGRES)],
        start: made::postgres,
    },
    Service {
        name: "nginx",
        keys: 8_000,
        words: 2048,
        hot: 30,
        per_minute: 18_000,
        clients: 2,
        needs: &[("nginx", NGINX)],
        start: made::nginx,
    },
    Service {
        name: "node",
        keys: 120_000,
        words: 64,
        hot: 30,
        per_minute: 12_000,
        clients: 2,
        needs: &[("node", NODE)],
        start: made::node,
    },
    Service {
        name: "java",
        keys: 80_000,
        words: 128,
        hot: 30,
        per_minute: 12_000,
        clients: 2,
        needs: &[("javac", JAVA)],
        start: made::java,
    },
    Service {
        name: "go",
        keys: 100_000,
        words: 128,
        hot: 30,
        per_minute: 18_000,
        clients: 2,
        needs: &[("go", GO)],
        start: made::go,
    },
    Service {
        name: "python",
        keys: 100_000,
        words: 128,
        hot: 30,
        per_minute: 6_000,
        clients: 4,
        needs: &[("python3", PYTHON)],
        start: made::python,
    },
    Service {
        name: "memcached",
        keys: 100_000,
        words: 192,
        hot: 40,
        per_minute: 60_000,
        clients: 2,
        needs: &[("memcached", MEMCACHED)],
        start: made::memcached,
    },
    Service {
        name: "sqlite",
        keys: 100_000,
        words: 128,
        hot: 30,
        per_minute: 6_000,
        clients: 2,
        needs: &[("python3", PYTHON)],
        start: made::sqlite,
    },
    Service {
        name: "php-fpm",
        keys: 100_096,
        words: 64,
        hot: 30,
        per_minute: 6_000,
        clients: 2,
        needs: &[("/usr/sbin/php-fpm8.2", PHP)],
        start: made::php_fpm,
    },
    Service {
        name: "compile",
        keys: 6,
        words: 40,
        hot: 100,
        per_minute: 20,
        clients: 1,
        needs: &[("python3", PYTHON), ("gcc", GCC)],
        start: made::compile,
    },
    Service {
        name: "notebook",
        keys: 60_000,
        words: 128,
        hot: 30,
        per_minute: 60,
        clients: 1,
        needs: &[("python3", PYTHON)],
        start: made::notebook,
    },
];

impl Service {
    /// Programs of the service that are not installed, each with a command that installs it.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let is_missing = |path: &str| match path.starts_with('/') {
            true => !std::path::Path::new(path).is_file(),
            false => !crate::proc::in_path(path),
        };
        let missing = self.needs.iter().filter(|(path, _)| is_missing(path));
        missing
            .map(|(path, how)| format!("{path} ({how})"))
            .collect()
    }

    /// Starts the service and waits until it answers.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(&self, place: &Surroundings) -> Started {
        (self.start)(self, place)
    }

    /// The right answer to a request for `key`. `None` for `compile`, whose later answers are
    /// compared with its first one.
    #[must_use]
    pub fn expected(&self, key: u64) -> Option<Vec<u8>> {
        (self.name != "compile").then(|| value(key, self.words))
    }
}

/// The value of a key: `8 * words` hexadecimal digits. Each group of eight digits stands twice, so
/// that zram can compress it to half. The programs of the services compute the same function.
#[must_use]
pub fn value(key: u64, words: u64) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let key = u32::try_from(key).unwrap_or(u32::MAX);
    let mut state = key.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut text = Vec::with_capacity(usize::try_from(words * 8).unwrap_or(0));
    for _ in 0..words / 2 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        for _ in 0..2 {
            let digits = (0..8).map(|at| DIGITS[(state >> (28 - 4 * at) & 15) as usize]);
            text.extend(digits);
        }
    }
    text
}
