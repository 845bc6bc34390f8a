//! Well-behaved, slow and hostile clients against a server that the test starts.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use super::super::answer::Status;
use super::*;

/// Longest wait of a test: longer than all of the server's own time limits.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a large response: more than any socket buffers at once.
const LARGE: usize = 32 << 20;

struct Echo {
    woken: u32,
}

impl Site for Echo {
    fn answer(&mut self, head: &Head) -> Answer {
        match head.path.as_str() {
            "/large" => Answer::new(Status::Ok, "text/plain", vec![b'x'; LARGE]),
            "/woken" => Answer::line(Status::Ok, &self.woken.to_string()),
            path => Answer::line(Status::Ok, path),
        }
    }

    fn wake(&mut self) {
        self.woken += 1;
    }

    fn pause(&self) -> Duration {
        LIMIT
    }
}

/// A running server, which ends when this value is dropped.
struct Running {
    addresses: Vec<Address>,
    token: String,
    wakeup: Option<UnixStream>,
    /// The server's thread; it returns the processor time that its loop took.
    thread: Option<JoinHandle<Duration>>,
}

impl Running {
    fn start() -> Running {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pagetide-server-{}-{number}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let token = Token::new().expect("chance");
        let text = token.text().to_owned();
        let wanted = [
            Address::Unix(socket),
            "127.0.0.1:0".parse().expect("an address"),
        ];
        let mut server = Server::bind(&wanted, Some(&token)).expect("free");
        let addresses = server.addresses().collect();
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let run = move || {
            server.run(&theirs, &mut Echo { woken: 0 });
            processor_time()
        };
        Running {
            addresses,
            token: text,
            wakeup: Some(ours),
            thread: Some(std::thread::spawn(run)),
        }
    }

    fn tcp(&self) -> TcpStream {
        let Address::Tcp(at) = self.addresses[1] else {
            panic!("{:?}", self.addresses)
        };
        let stream = TcpStream::connect(at).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    fn unix(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    fn path(&self) -> &PathBuf {
        match &self.addresses[0] {
            Address::Unix(path) => path,
            Address::Tcp(_) => panic!("{:?}", self.addresses),
        }
    }

    /// Returns a request for `path` with all headers that the server requires.
    fn question(&self, method: &str, path: &str) -> String {
        let Address::Tcp(at) = self.addresses[1] else {
            panic!("{:?}", self.addresses)
        };
        let token = &self.token;
        format!("{method} {path} HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\r\n")
    }

    /// Ends the server, which must not hang. Returns the processor time that its loop took.
    fn end(mut self) -> Duration {
        drop(self.wakeup.take());
        let thread = self.thread.take().expect("it runs");
        let begin = Instant::now();
        while !thread.is_finished() {
            assert!(begin.elapsed() < LIMIT, "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        let took = thread.join().expect("no panic");
        assert!(!self.path().exists());
        took
    }
}

fn answer(stream: &mut (impl Read + Write), question: &[u8]) -> String {
    // The server may refuse the request before all of it is written.
    let _ = stream.write_all(question);
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("an answer");
    String::from_utf8(text).expect("text")
}

#[test]
fn both_sockets_answer_and_head_requests_get_no_body() {
    let server = Running::start();
    let get = server.question("GET", "/a/../b");
    for text in [
        answer(&mut server.tcp(), get.as_bytes()),
        answer(&mut server.unix(), get.as_bytes()),
    ] {
        assert!(
            text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n/a/../b\n"),
            "{text}"
        );
    }
    let head = answer(
        &mut server.tcp(),
        server.question("HEAD", "/abc").as_bytes(),
    );
    assert!(
        head.contains("\r\nContent-Length: 5\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let post = answer(&mut server.tcp(), server.question("POST", "/").as_bytes());
    assert!(
        post.starts_with("HTTP/1.1 405 ") && post.contains("\r\nAllow: GET, HEAD\r\n"),
        "{post}"
    );
    let bare = answer(&mut server.unix(), b"GET /x HTTP/1.0\n\n");
    assert!(bare.starts_with("HTTP/1.1 200 "), "{bare}");
    let strange = answer(&mut server.tcp(), b"GET /x HTTP/1.0\n\n");
    assert!(strange.starts_with("HTTP/1.1 403 "), "{strange}");
    server.end();
}

/// A client whose head is too long gets the error response although it continues to send.
#[test]
fn a_long_or_invalid_head_gets_an_error() {
    let server = Running::start();
    let long = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(200_000));
    let reported = answer(&mut server.tcp(), long.as_bytes());
    assert!(reported.starts_with("HTTP/1.1 431 "), "{reported}");
    let lines = format!("GET / HTTP/1.1\r\n{}", "X: y\r\n".repeat(500));
    assert!(answer(&mut server.tcp(), lines.as_bytes()).starts_with("HTTP/1.1 431 "));
    let garbage = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    assert!(answer(&mut server.tcp(), &garbage).starts_with("HTTP/1.1 400 "));
    server.end();
}

/// Many more clients than [`CLIENTS_MAX`] send a part of a request, send nothing, or never read. A
/// client with a whole request gets its response all the same.
#[test]
fn silent_clients_block_no_others() {
    let server = Running::start();
    let question = server.question("GET", "/here");
    let large = server.question("GET", "/large");
    let mut silent: Vec<TcpStream> = Vec::new();
    for number in 0..5 * CLIENTS_MAX {
        let mut stream = server.tcp();
        let part: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET / HT",
            2 => question.as_bytes().split_at(question.len() - 1).0,
            // Not all: a client with a valid token that is reading its response is never dropped.
            _ if number < 40 => large.as_bytes(),
            _ => b"\r\n",
        };
        let _ = stream.write_all(part);
        silent.push(stream);
        if number % 40 == 0 {
            let text = answer(&mut server.tcp(), question.as_bytes());
            assert!(text.ends_with("/here\n"), "{number}: {text}");
        }
    }
    let text = answer(&mut server.tcp(), question.as_bytes());
    assert!(text.ends_with("/here\n"), "{text}");
    server.end();
}

/// A client that sends one letter at a time, more slowly than allowed, is dropped.
#[test]
fn a_client_that_sends_too_slowly_is_dropped() {
    let server = Running::start();
    let mut slow = server.tcp();
    let begin = Instant::now();
    let ended = loop {
        assert!(begin.elapsed() < LIMIT, "it is still heard");
        std::thread::sleep(Duration::from_millis(200));
        if slow.write_all(b"G").is_err() {
            break begin.elapsed();
        }
    };
    assert!(
        ended >= Duration::from_secs(4),
        "{ended:?}: it had five seconds"
    );
    server.end();
}

/// A large answer arrives as a whole, however slowly its client reads.
#[test]
fn a_large_answer_arrives_whole() {
    let server = Running::start();
    let mut stream = server.tcp();
    let question = server.question("GET", "/large");
    stream.write_all(question.as_bytes()).expect("written");
    let (mut got, mut chunk) = (0, vec![0; 1 << 20]);
    let mut head = None;
    loop {
        let n = stream.read(&mut chunk).expect("an answer");
        if n == 0 {
            break;
        }
        if head.is_none() {
            let end = chunk[..n].windows(4).position(|four| four == b"\r\n\r\n");
            head = Some(end.expect("the head comes first") + 4);
        }
        got += n;
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(got, head.unwrap_or(0) + LARGE);
    server.end();
}

#[test]
fn a_byte_wakes_the_site_and_a_closed_end_stops_the_server() {
    let server = Running::start();
    let woken = || {
        answer(
            &mut server.tcp(),
            server.question("GET", "/woken").as_bytes(),
        )
    };
    assert!(woken().ends_with("\n0\n"));
    let mut wakeup = server.wakeup.as_ref().expect("it runs");
    wakeup.write_all(&[1, 1, 1]).expect("it hears");
    let begin = Instant::now();
    while !woken().ends_with("\n1\n") {
        assert!(begin.elapsed() < LIMIT, "it does not hear");
    }
    server.end();
}

/// Regression: a flood of connections took 85% of a processor, because no budget counted
/// connections.
#[test]
fn a_flood_of_connections_costs_a_share_of_a_processor() {
    const TIME: Duration = Duration::from_secs(4);
    let server = Running::start();
    let (begin, path) = (Instant::now(), server.path().clone());
    let flood = std::thread::spawn(move || {
        let mut opened = 0;
        while begin.elapsed() < TIME {
            // While the backlog is full connect(2) fails; that does not count as a connection.
            opened += u32::from(UnixStream::connect(&path).is_ok());
        }
        opened
    });
    // Other clients get responses meanwhile.
    let get = server.question("GET", "/a");
    let text = answer(&mut server.tcp(), get.as_bytes());
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    assert!(begin.elapsed() < LIMIT);
    assert!(flood.join().expect("no panic") > 0);
    let lasted = begin.elapsed();
    let took = server.end();
    // `lasted / 20` and the burst of 250 ms, doubled for one pass of the loop in a slow (debug)
    // build.
    let most = (lasted / 20 + Duration::from_millis(250)) * 2;
    assert!(took < most, "{took:?} in {lasted:?}");
}
