//! `pagetide serve --listen`: which figures it serves, and to which clients. No client can make it
//! serve more, or delay it.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::guard::Run;
use e2e::idle_program::IdleProgram;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Tree;
use e2e::user::{self, NOBODY};
use e2e::web::{ListenAddress, float, listening, samples};
use e2e::{pagetide, proc, wait};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

/// docs/usage.md has exactly one row for every series.
#[test]
fn the_document_names_all_series_and_no_others() {
    let _serial = serial();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    tree.make("a");
    let named: BTreeSet<&str> = include_str!("../../../docs/usage.md")
        .lines()
        .filter(|line| line.starts_with("| `pagetide_"))
        .flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`'))
        .filter(|word| word.starts_with("pagetide_"))
        .collect();
    let body = place.get("/metrics").body;
    let reported: BTreeSet<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    assert_eq!(reported, named);
}

/// Figures are composed only at scans, however often a client requests them.
#[test]
fn frequent_requests_cost_the_main_thread_nothing() {
    let _serial = serial();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "60s"]);
    (0..100).for_each(|number| tree.make(&format!("t{number}")));
    let first = place.get("/metrics");
    for _ in 0..1000 {
        let again = place.get("/metrics");
        assert!(
            again.body == first.body,
            "figures are those of the last look"
        );
    }
    assert!(tree.read("t7/memory.stat").contains("pgsteal"));
}

/// A tenant may have any name that a directory can have.
#[test]
fn names_of_tenants_break_no_line() {
    let _serial = serial();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    let odd = [
        "a\"b",
        "a\\b",
        "a b",
        "{}",
        "le=\"1\"",
        "\u{e4}\u{1f600}",
        "<script>",
        "#",
    ];
    odd.iter().for_each(|name| tree.make(name));
    let label = |name: &str| name.replace('\\', r"\\").replace('"', r#"\""#);
    wait::until("all are told", SOON, || {
        let reported = samples(&place.get("/metrics").body);
        let is_reported = |name: &&str| {
            reported.contains_key(&format!(
                "pagetide_swapped_bytes{{tenant=\"/{}\"}}",
                label(name)
            ))
        };
        odd.iter().all(is_reported)
    });
    let checked = Run::new(["promtool", "check", "metrics"])
        .stdin(&place.get("/metrics").body)
        .finish(SOON);
    assert!(
        checked.status.success(),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
    assert_eq!(checked.stderr, "", "it has nothing to say");
}

/// Starts a Prometheus server at `port` that scrapes `place`.
fn prometheus(folder: &TempDir, place: &ListenAddress, port: u16) -> e2e::guard::Running {
    let token = folder.file("credentials");
    std::fs::write(&token, place.token()).expect("written");
    let config = folder.file("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 500ms\nscrape_configs:\n  - job_name: pagetide\n    authorization:\n      \
         credentials_file: {token}\n    static_configs:\n      - targets: ['{}']\n",
        place.address()
    );
    std::fs::write(&config, text).expect("written");
    let words = [
        "prometheus".to_owned(),
        format!("--config.file={config}"),
        format!("--storage.tsdb.path={}", folder.file("tsdb")),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ];
    Run::new(words).start()
}

/// Returns the answer of the Prometheus server at `port` to an expression.
fn prometheus_answer(port: u16, expression: &str) -> Value {
    let mut stream = match TcpStream::connect(("127.0.0.1", port)) {
        Ok(stream) => stream,
        Err(_) => return Value::Null,
    };
    let encode = |byte: u8| format!("%{byte:02X}");
    let expression: String = expression.bytes().map(encode).collect();
    let question = format!("GET /api/v1/query?query={expression} HTTP/1.0\r\nHost: x\r\n\r\n");
    let _ = stream.write_all(question.as_bytes());
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    answer["data"]["result"].clone()
}

/// Returns a TCP port that is free at this moment.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it has one").port()
}

/// A real Prometheus server scrapes `serve` and evaluates expressions over its figures.
#[test]
fn prometheus_can_scrape_serve() {
    let _serial = serial();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    tree.make("web");
    let idle_program = IdleProgram::start(tree.inside("web"), 48);
    let checked = Run::new(["promtool", "check", "metrics"])
        .stdin(&place.get("/metrics").body)
        .finish(SOON);
    assert!(
        checked.status.success(),
        "{}{}",
        checked.stdout,
        checked.stderr
    );
    assert_eq!((checked.stdout.as_str(), checked.stderr.as_str()), ("", ""));

    let port = free_port();
    let scraper = prometheus(&folder, &place, port);
    let number = |expression: &str| {
        let result = prometheus_answer(port, expression);
        let text = result[0]["value"][1].as_str().map(str::to_owned);
        text.and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(-1.0)
    };
    let up = wait::poll(SOON, || {
        (number("up{job=\"pagetide\"}") == 1.0).then_some(())
    });
    assert!(up.is_some(), "not scraped: {}", scraper.state());
    wait::until("a size", SOON, || {
        let resident = number("sum(pagetide_resident_bytes{tenant=\"/web\"})");
        resident > 48e6 && (resident - float(idle_program.status("VmRSS"))).abs() < 4e6
    });
    // Bytes of cold memory, and a quantile of ages, as of the buckets of any histogram.
    let cold = "sum(pagetide_page_age_bytes{tenant=\"/web\",le=\"+Inf\"}) - sum(pagetide_page_age_bytes{tenant=\"/web\",le=\"5\"})";
    wait::until("what is cold", SOON, || number(cold) > 44e6);
    let median = "histogram_quantile(0.5, sum by (le) (pagetide_page_age_bytes{tenant=\"/web\"}))";
    assert!(number(median) > 5.0, "{}", number(median));
    // A rate can be computed from two scrapes or more.
    wait::until("a rate", SOON, || {
        number("rate(pagetide_walk_seconds_count[1m])") > 0.0
    });
    assert_eq!(number("count(pagetide_build_info)"), 1.0);
    // With a wrong token Prometheus may not scrape.
    std::fs::write(folder.file("credentials"), "0123456789abcdef0123").expect("written");
    wait::until("it is refused", SOON, || {
        number("up{job=\"pagetide\"}") == 0.0
    });
}

/// Requests that `serve` must refuse, each with the HTTP status that it must return.
fn refused_requests(place: &ListenAddress) -> Vec<(String, u16)> {
    let (at, token) = (place.address(), place.token());
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let host = format!("Host: {at}\r\n");
    vec![
        (format!("GET /metrics HTTP/1.1\r\n{host}\r\n"), 401),
        (
            format!("GET /metrics HTTP/1.1\r\n{host}Authorization: Bearer x{token}\r\n\r\n"),
            401,
        ),
        (
            format!("GET /metrics HTTP/1.1\r\n{host}Authorization: Bearer \r\n\r\n"),
            401,
        ),
        (
            format!("GET /metrics?token=wrong HTTP/1.1\r\n{host}\r\n"),
            401,
        ),
        (
            format!(
                "GET /metrics HTTP/1.1\r\nHost: evil.example:{}\r\n{bearer}\r\n",
                at.port()
            ),
            403,
        ),
        (
            format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n{bearer}\r\n"),
            403,
        ),
        (format!("GET /metrics HTTP/1.1\r\n{bearer}\r\n"), 400),
        (
            format!("GET /metrics HTTP/1.1\r\n{host}{host}{bearer}\r\n"),
            400,
        ),
        (
            format!("GET /metrics HTTP/1.1\r\n{host}{bearer}Origin: http://evil.example\r\n\r\n"),
            403,
        ),
        (
            format!("GET /metrics HTTP/1.1\r\n{host}{bearer}Sec-Fetch-Site: cross-site\r\n\r\n"),
            403,
        ),
        (format!("POST /metrics HTTP/1.1\r\n{host}{bearer}\r\n"), 405),
        (
            format!("PUT /../../etc/passwd HTTP/1.1\r\n{host}{bearer}\r\n"),
            405,
        ),
        (
            format!("GET /../../../../etc/passwd HTTP/1.1\r\n{host}{bearer}\r\n"),
            404,
        ),
        (
            format!("GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n{host}{bearer}\r\n"),
            404,
        ),
        (format!("GET /metrics/ HTTP/1.1\r\n{host}{bearer}\r\n"), 404),
        (format!("GET //metrics HTTP/1.1\r\n{host}{bearer}\r\n"), 404),
        ("\u{0}\u{1}\u{2}\r\n\r\n".to_owned(), 400),
    ]
}

/// A client without the token, with another host name, or with an invalid request gets nothing but
/// the refusal.
#[test]
fn strangers_get_no_information() {
    let _serial = serial();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    tree.make("secret");
    let token = place.token();
    for (request, status) in refused_requests(&place) {
        let answer = place.send(request.as_bytes());
        assert_eq!(answer.status, status, "{request}{answer:?}");
        let all = answer.headers + &answer.body;
        assert!(
            !all.contains("secret") && !all.contains(&token) && !all.contains("root:"),
            "{request}{all}"
        );
        if status == 401 {
            assert!(all.contains("\r\nWWW-Authenticate: Bearer"), "{all}");
        }
    }
    // The token is in no command line and no environment.
    for file in ["cmdline", "environ"] {
        let text = std::fs::read(format!("/proc/{}/{file}", tree.pid())).expect("it runs");
        assert!(!String::from_utf8_lossy(&text).contains(&token), "{file}");
    }
    assert!(!tree.stdout().contains(&token), "nor what is printed");
    let head = place.send(place.request_text("HEAD", "/metrics").as_bytes());
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(
        !head.headers.contains("\r\nContent-Length: 0\r\n"),
        "{}",
        head.headers
    );
}

/// On a unix socket the kernel reports the client's user to `serve`; for users that may not
/// connect, the socket's mode is enough.
#[test]
fn another_user_gets_no_information_on_a_unix_socket() {
    let _serial = serial();
    let folder = TempDir::public();
    let socket = folder.file("metrics.sock");
    let listen = format!("unix:{socket}");
    let tree = Tree::serve(&["--age-every", "500ms", "--listen", &listen]);
    tree.make("secret");
    let place = ListenAddress::Unix(socket.clone().into());
    wait::until("root is told", SOON, || {
        place.get("/metrics").body.contains("/secret")
    });
    let script = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{socket}')\n\
         s.sendall(b'GET /metrics HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\nprint(s.makefile().read())"
    );
    let script = Run::new(["/usr/bin/python3", "-c", &script]);
    let ask = |who: &[String]| script.under(who.to_vec()).finish(SOON);
    // Root without the right to trace processes gets no ages either.
    let untraced = "setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace";
    let untraced: Vec<String> = untraced.split(' ').map(str::to_owned).collect();
    let outcome = ask(&untraced);
    assert!(
        outcome.stdout.contains("403 Forbidden") && !outcome.stdout.contains("secret"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    let nobody = user::prefix(NOBODY);
    let outcome = ask(&nobody);
    assert!(
        !outcome.status.success() && outcome.stderr.contains("PermissionError"),
        "{}",
        outcome.stderr
    );
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&socket, open).expect("ours");
    let outcome = ask(&nobody);
    assert!(
        outcome.stdout.contains("403 Forbidden"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
    assert!(!outcome.stdout.contains("secret"), "{}", outcome.stdout);
}

/// At its start `serve` replaces the socket of a killed `serve`, but not a socket with a listener.
/// A `serve` that ends in order removes its socket.
#[test]
fn only_the_socket_of_a_dead_serve_is_replaced() {
    let _serial = serial();
    let folder = TempDir::new();
    let socket = folder.file("metrics.sock");
    let listen = format!("unix:{socket}");
    let mut tree = Tree::serve(&["--age-every", "500ms", "--listen", &listen]);
    let place = ListenAddress::Unix(socket.clone().into());
    tree.kill();
    assert!(Path::new(&socket).exists());
    tree.start();
    wait::until("the next one is there", SOON, || {
        place.get("/metrics").status == 200
    });
    let root = format!("pagetide-e2e-listen-{}", std::process::id());
    let words = [
        "serve", "--host", "none", "--root", &root, "--listen", &listen,
    ];
    let outcome = pagetide::command(words).finish(SOON);
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("another process listens there"),
        "{}",
        outcome.stderr
    );
    assert!(
        !Path::new("/sys/fs/cgroup/memory").join(&root).exists(),
        "nothing is left behind"
    );
    let _ = tree.end();
    assert!(!Path::new(&socket).exists());
}

/// With a thousand slow, silent, greedy and talkative clients, metrics and files are served all the
/// same, and neither memory nor descriptors of `serve` grow.
#[test]
fn no_client_delays_serve() {
    let _serial = serial();
    let folder = TempDir::new();
    let (tree, place) = listening(&folder, &["--age-every", "500ms"]);
    (0..50).for_each(|number| tree.make(&format!("t{number}")));
    let resident = || proc::number(tree.pid(), "VmRSS").unwrap_or(0);
    let (before, begin) = (resident(), Instant::now());
    let question = place.request_text("GET", "/metrics");
    let mut silent = Vec::new();
    for number in 0..1000 {
        let Ok(mut stream) = TcpStream::connect(place.address()) else {
            continue;
        };
        let limit = Some(Duration::from_millis(50));
        stream.set_write_timeout(limit).expect("a limit");
        let long = format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(100_000));
        let part = match number % 5 {
            0 => "",
            1 => "GET /metrics HTTP/1.1\r\nHost: ",
            2 => &long,
            3 if number < 100 => &question,
            _ => "\u{16}\u{3}\u{1}",
        };
        let _ = stream.write_all(part.as_bytes());
        silent.push(stream);
        if silent.len() > 300 {
            silent.remove(0);
        }
        if number % 50 == 0 {
            let answer = place.get("/metrics");
            assert_eq!(answer.status, 200, "{number}: {answer:?}");
        }
    }
    assert!(tree.read("t7/memory.stat").contains("pgsteal"));
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 * MIB, "grew by {grown} bytes");
    eprintln!(
        "a thousand clients in {:?}, grown by {grown} bytes",
        begin.elapsed()
    );
}

/// A token file that others may read is refused.
#[test]
fn a_token_that_others_may_read_is_refused() {
    let _serial = serial();
    let folder = TempDir::new();
    let file = folder.file("token");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef").expect("written");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let root = format!("pagetide-e2e-token-{}", std::process::id());
    let words = [
        "serve",
        "--host",
        "none",
        "--root",
        &root,
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        &file,
    ];
    let outcome = pagetide::command(words).finish(SOON);
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("others may read") && outcome.stderr.contains("chmod 600"),
        "{}",
        outcome.stderr
    );
    let words = ["serve", "--listen", "localhost:1"];
    let outcome = pagetide::command(words).finish(SOON);
    assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stderr);
}
