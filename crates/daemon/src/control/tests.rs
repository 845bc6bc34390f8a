//! The control socket with well-behaved and hostile clients. A thread polls the servers as a
//! manager would; a server that blocked would show as a client's timeout. The tests run as root,
//! and listen in root's own directory.

use std::io::{Read, Write};
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::peer::Peer;
use super::server::CLIENTS_MAX;
use super::*;
use crate::budget::processor_time;
use crate::error::Error;
use crate::options::Limits;
use host::report::{Process, Report};

/// Longest wait for any step of a test, also on a busy machine; only reached if there is a defect.
const LONG: Duration = Duration::from_secs(30);

/// Returns a tenant with a pid that no process can have, a different one at each call and in each
/// test process.
fn free() -> Tenant {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    Tenant::Pid((1 << 31) + std::process::id() * 64 + NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Path of a tenant's socket.
fn file(tenant: &Tenant) -> PathBuf {
    let dir = host::system::private_dir::make("control").expect("the test runs as root");
    dir.path().join(tenant.socket_name())
}

fn connect(tenant: &Tenant) -> UnixStream {
    let stream = UnixStream::connect(file(tenant)).expect("somebody listens");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream
}

/// A socket file that a test creates. Once its listener is dropped, it is like that of a killed
/// manager. The file is removed when this value is dropped.
struct Made {
    tenant: Tenant,
    path: PathBuf,
}

impl Made {
    fn new() -> (Made, UnixListener) {
        let tenant = free();
        let path = file(&tenant);
        let listener = UnixListener::bind(&path).expect("a free name");
        (Made { tenant, path }, listener)
    }

    fn ping(&self) -> Result<Response, ControlError> {
        ask(&self.tenant, &Request::Ping {}, LONG)
    }

    fn is_not_managed(&self) -> bool {
        matches!(self.ping(), Err(ControlError::NotManaged { .. }))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn bound(tenant: &Tenant) -> ControlServer {
    let (server, note) = ControlServer::bind(tenant).expect("a free name");
    assert_eq!(note, None, "it has a socket");
    server
}

/// A manager that only polls its socket.
struct Manager {
    tenant: Tenant,
    calls: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    /// The manager's thread; it returns the processor time that its loop took.
    thread: Option<JoinHandle<Duration>>,
}

impl Manager {
    fn start() -> Manager {
        let tenant = free();
        let (calls, stop) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let mut server = bound(&tenant);
        let (seen, end) = (Arc::clone(&calls), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                server.poll(&mut |request| {
                    seen.fetch_add(1, Ordering::Relaxed);
                    answer(request)
                });
                std::thread::sleep(Duration::from_millis(1));
            }
            server.finish(Duration::from_millis(100));
            processor_time()
        });
        Manager {
            tenant,
            calls,
            stop,
            thread: Some(thread),
        }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    fn ping(&self) -> Result<Response, ControlError> {
        ask(&self.tenant, &Request::Ping {}, LONG)
    }

    /// Ends the manager. Returns the processor time that its loop took; `None` if it has ended
    /// before.
    fn end(&mut self) -> Option<Duration> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        Some(thread.join().expect("the manager survives its clients"))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end();
    }
}

fn answer(request: Request) -> Response {
    match request {
        Request::Report {} => Response::Report(Box::new(Report {
            pid: Some(7),
            // More than a socket buffer holds, less than the longest line.
            processes: vec![Process::default(); 2_500],
            ..Report::default()
        })),
        Request::Stat {} => Response::Stat(Stat::from([("anon".to_owned(), 5)])),
        Request::Reclaim { .. } => Response::Reclaimed(Done::default()),
        Request::Detach { bring_back } => Response::Detached {
            pages: u64::from(bring_back),
        },
        Request::Limits { set } => Response::Limits(set.unwrap_or_default()),
        Request::Manages { pid } => Response::Manages(pid == 5),
        Request::Ping {} => Response::Pong(Pong {
            manager: std::process::id(),
            version: "1".to_owned(),
        }),
        Request::Tenant { path, .. } => Response::Stats(Stats {
            names: vec!["anon".to_owned()],
            tenants: vec![(path, vec![5])],
        }),
    }
}

fn questions() -> Vec<Request> {
    let limits = Box::new(Limits {
        high: "50%".parse().expect("a share"),
        ..Limits::default()
    });
    vec![
        Request::Report {},
        Request::Stat {},
        Request::Reclaim { what: Ask::All },
        Request::Reclaim {
            what: Ask::Bytes(u64::MAX),
        },
        Request::Reclaim {
            what: Ask::OlderThan(LONG),
        },
        Request::Limits { set: None },
        Request::Limits { set: Some(limits) },
        Request::Manages { pid: 5 },
        Request::Ping {},
        Request::Tenant {
            path: "/a/b".to_owned(),
            ask: TenantAsk::Reclaim(Ask::Bytes(5)),
        },
        Request::Detach { bring_back: true },
    ]
}

#[test]
fn each_request_gets_its_answer() {
    let manager = Manager::start();
    for request in questions() {
        assert_eq!(
            ask(&manager.tenant, &request, LONG),
            Ok(answer(request.clone()))
        );
    }
    assert_eq!(manager_of(&manager.tenant), Ok(Some(std::process::id())));
    // The manager of process 5 is this one, which has another name.
    let found = find(&Tenant::Pid(5)).expect("no broken socket");
    assert!(found.is_some_and(|managed| managed.manager == std::process::id()));
}

#[test]
fn a_target_has_one_manager_and_then_none() {
    let tenant = free();
    let server = bound(&tenant);
    let second = ControlServer::bind(&tenant).expect_err("the name is taken");
    assert!(matches!(second, ControlError::Bind { .. }), "{second}");
    let manager = format!("the pagetide of pid {} manages it", std::process::id());
    assert!(second.to_string().contains(&manager), "{second}");
    drop(server);
    let nobody = ControlError::NotManaged {
        tenant: tenant.clone(),
    };
    assert_eq!(ask(&tenant, &Request::Ping {}, LONG), Err(nobody));
    assert_eq!(manager_of(&tenant), Ok(None));
    assert!(!file(&tenant).exists(), "the socket goes with its manager");
    drop(bound(&tenant));
}

#[test]
fn the_name_of_a_killed_manager_is_free() {
    let (same, listener) = Made::new();
    drop(listener);
    let (other, listener) = Made::new();
    drop(listener);
    assert!(same.is_not_managed());
    let server = bound(&same.tenant);
    assert_eq!(manager_of(&same.tenant), Ok(Some(std::process::id())));
    assert!(!other.path.exists(), "no process has its number any more");
    // The first manager must not remove the file of the second, which has the same name.
    std::fs::remove_file(&same.path).expect("it is there");
    let second = UnixListener::bind(&same.path).expect("a free name");
    drop(server);
    assert!(same.path.exists());
    drop(second);
}

/// Regression: root sent its request to any listener with a manager's name, and printed what that
/// sent.
#[test]
fn no_request_goes_to_another_users_socket() {
    let (made, listener) = Made::new();
    listener.set_nonblocking(true).expect("a flag");
    chown(&made.path, Some(65_533), Some(65_533)).expect("the test runs as root");
    // (Another test may have connected to check whether this socket's manager is dead.)
    while listener.accept().is_ok() {}
    assert!(made.is_not_managed());
    assert_eq!(manager_of(&made.tenant), Ok(None));
    let requested = listener.accept();
    assert!(requested.is_err(), "it was not connected to: {requested:?}");
    // Nor does a request go to a socket behind a symbolic link.
    let (link, _listener) = Made::new();
    std::fs::remove_file(&link.path).expect("it is there");
    chown(&made.path, Some(0), Some(0)).expect("the test runs as root");
    symlink(&made.path, &link.path).expect("a free name");
    assert!(link.is_not_managed());
}

#[test]
fn an_invalid_request_gets_an_error() {
    let manager = Manager::start();
    let long = "x".repeat(3 * REQUEST_BYTES_MAX);
    let lines = [
        "\n",
        "{}\n",
        "hello\n",
        "{\"op\":\"dance\"}\n",
        "{\"op\":\"ping\",\"also\":1}\n",
        "{\"op\":\"reclaim\",\"what\":{\"bytes\":-1}}\n",
        "\u{0}\n",
        long.as_str(),
    ];
    for line in lines {
        let mut client = connect(&manager.tenant);
        client.write_all(line.as_bytes()).expect("room for it");
        let mut reply = String::new();
        // Closing with unread bytes resets the connection; what arrived before the reset counts.
        let _ = client.read_to_string(&mut reply);
        assert!(
            reply.contains("cannot read the request"),
            "{line:?}: {reply:?}"
        );
    }
    assert_eq!(manager.calls(), 0, "nonsense must not reach the handler");
    assert!(manager.ping().is_ok());
}

#[test]
fn clients_that_hang_up_are_forgotten() {
    let manager = Manager::start();
    for text in ["", "{\"op\":", "{\"op\":\"report\"}\n"] {
        for _ in 0..3 * CLIENTS_MAX {
            let mut client = connect(&manager.tenant);
            client.write_all(text.as_bytes()).expect("room for it");
        }
    }
    assert!(manager.ping().is_ok());
}

#[test]
fn silent_and_deaf_clients_delay_no_others() {
    let manager = Manager::start();
    let silent: Vec<_> = (0..CLIENTS_MAX / 2)
        .map(|_| connect(&manager.tenant))
        .collect();
    let deaf: Vec<_> = (0..CLIENTS_MAX / 2)
        .map(|_| {
            let mut client = connect(&manager.tenant);
            client
                .write_all(&Request::Report {}.line())
                .expect("room for it");
            client
        })
        .collect();
    // All [`CLIENTS_MAX`] connections are taken; the ping succeeds once slow clients are dropped.
    assert!(manager.ping().is_ok());
    for mut client in silent {
        let read = client.read(&mut [0; 16]);
        assert!(
            matches!(read, Ok(0) | Err(_)),
            "dropped, not answered: {read:?}"
        );
    }
    drop(deaf);
}

/// Regression: a flood of connections and requests took two thirds of a processor, and a client
/// that retried connect(2) without waiting never got in, because other clients waited inside
/// connect(2).
#[test]
fn a_flood_costs_a_share_of_a_processor_and_blocks_no_client() {
    const TIME: Duration = Duration::from_secs(4);
    let mut manager = Manager::start();
    let begin = Instant::now();
    let floods: Vec<_> = (0..2)
        .map(|number| {
            let path = file(&manager.tenant);
            std::thread::spawn(move || {
                let mut answered = 0;
                while begin.elapsed() < TIME {
                    let Ok(mut client) = UnixStream::connect(&path) else {
                        continue;
                    };
                    if number == 0 {
                        continue;
                    }
                    let mut reply = String::new();
                    let requested = client.write_all(&Request::Ping {}.line());
                    let read = requested.and_then(|()| client.read_to_string(&mut reply));
                    answered += usize::from(read.is_ok());
                }
                answered
            })
        })
        .collect();
    let mut others = 0;
    while begin.elapsed() < TIME {
        assert!(manager.ping().is_ok());
        others += 1;
    }
    let answered: usize = floods
        .into_iter()
        .map(|one| one.join().expect("ends"))
        .sum();
    assert!(others > 0 && answered > 0, "{others} {answered}");
    let (lasted, took) = (begin.elapsed(), manager.end().expect("it ran"));
    // `lasted / 20` and the burst of 250 ms, doubled for the loop of a slow (debug) build.
    let most = (lasted / 20 + Duration::from_millis(250)) * 2;
    assert!(took < most, "{took:?} in {lasted:?}");
}

#[test]
fn a_line_may_arrive_byte_by_byte() {
    let manager = Manager::start();
    let mut client = connect(&manager.tenant);
    for byte in (Request::Ping {}).line() {
        client.write_all(&[byte]).expect("room for it");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut reply = String::new();
    client.read_to_string(&mut reply).expect("an answer");
    assert!(reply.starts_with("{\"pong\""), "{reply}");
}

#[test]
fn a_client_survives_any_server() {
    let hang_up: fn(UnixStream) = drop;
    let babble: fn(UnixStream) = |mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {};
    let lie: fn(UnixStream) = |mut stream| {
        let _ = stream.write_all(b"{\"pong\":7}\n");
        let _ = stream.read(&mut [0; 64]);
    };
    for act in [hang_up, babble, lie] {
        // A listener that runs as root and is no manager. Other tests may connect to it, too.
        let (made, listener) = Made::new();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let until = listener.incoming().flatten();
            until
                .take_while(|_| !stopped.load(Ordering::Relaxed))
                .for_each(act);
        });
        let error = made.ping().expect_err("no pong");
        let reported = matches!(
            error,
            ControlError::Protocol { .. } | ControlError::Io { .. } | ControlError::Ended { .. }
        );
        assert!(reported, "{error}");
        stop.store(true, Ordering::Relaxed);
        // Wakes the listener, unless another test's connection has ended it already.
        let _ = UnixStream::connect(file(&made.tenant));
        thread.join().expect("it ends with its clients");
    }
}

#[test]
fn a_client_does_not_wait_for_ever() {
    // No process accepts: connections fill the backlog, and the next ones wait for space in it.
    let (made, listener) = Made::new();
    let tenant = made.tenant.clone();
    let within = Duration::from_millis(50);
    let crowd: Vec<_> = (0..200)
        .map_while(|_| {
            let error =
                ask(&tenant, &Request::Ping {}, Duration::from_millis(1)).expect_err("silence");
            matches!(error, ControlError::Timeout { .. }).then_some(error)
        })
        .collect();
    assert_eq!(crowd.len(), 200);
    let error = ask(&tenant, &Request::Ping {}, within).expect_err("silence");
    let waited_ms = 50;
    assert_eq!(error, ControlError::Timeout { tenant, waited_ms });
    drop(listener);
}

#[test]
fn only_root_and_the_owner_may_send_requests() {
    let us = std::process::id();
    let may_ask = |uid, owner| Peer::known(us, uid).may_ask(owner);
    assert!(may_ask(0, 1000) && may_ask(1000, 1000) && may_ask(0, 0));
    assert!(!may_ask(1001, 1000) && !may_ask(1000, 0));
    // Whether an ended process may trace is unknown, so it is refused, unless we may not trace
    // either.
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let traces = host::system::rights::effective(&status) >> 19 & 1 == 1;
    assert_eq!(Peer::known(0, 0).may_ask(0), !traces);
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(line in proptest::collection::vec(any::<u8>(), 0..1024)) {
        let parsed = Request::parse(&line);
        prop_assert!(parsed.is_err() || line.len() <= REQUEST_BYTES_MAX);
    }

    #[test]
    fn almost_valid_json_does_not_panic(line in "\\{(\"op\"|\"bytes\"|[:,{}\\[\\]]|-?[0-9]{1,30}|\"ping\"|null){0,12}\\}") {
        let _ = Request::parse(line.as_bytes());
    }

    #[test]
    fn a_request_survives_its_line(which in 0usize..10) {
        let request = questions().swap_remove(which);
        let line = request.line();
        prop_assert!(line.len() <= REQUEST_BYTES_MAX);
        prop_assert_eq!(Request::parse(&line), Ok(request));
    }

    /// Manager responses that were changed or truncated are parsed, or refused with a reason.
    #[test]
    fn changed_answers_are_parsed_or_refused(
        which in 0usize..6,
        pid: u32,
        bytes: u64,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        keep in any::<proptest::sample::Index>(),
    ) {
        let report = Report { pid: Some(pid), resident_bytes: bytes, ..Report::default() };
        let done = Done { evicted_pages: bytes, ..Done::default() };
        let answers = [
            Response::Report(Box::new(report)),
            Response::Reclaimed(done),
            Response::Detached { pages: bytes },
            Response::Pong(Pong { manager: pid, version: "1".to_owned() }),
            Response::Error(Error::failed("w\"{", "h")),
            Response::Denied { owner: pid },
        ];
        let mut line = answers[which].line();
        prop_assert_eq!(&serde_json::from_slice::<Response>(&line).expect("its own line"), &answers[which]);
        for (at, byte) in changes {
            let at = at.index(line.len());
            line[at] = byte;
        }
        if keep.index(3) == 0 {
            line.truncate(keep.index(line.len()));
        }
        if let Ok(read) = serde_json::from_slice::<Response>(&line) {
            prop_assert!(serde_json::from_slice::<Response>(&read.line()).is_ok());
        }
    }
}
