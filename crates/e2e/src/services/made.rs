//! Starts each service and fills it with its data.

use std::fmt::Write as _;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::client::Address;
use super::{Service, Started, Surroundings, value};
use crate::guard::{Run, Running};
use crate::postgres::Postgres;
use crate::resp::free_port;
use crate::temp::target_dir;
use crate::{programs, wait};

/// Time limit for a service to make its data and to answer.
const READY: Duration = Duration::from_secs(300);
/// Number of values in a PHP file; `service.php` has the same number.
const PHP_EACH: u64 = 256;

/// Processes and files of a service; they end or are removed when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    #[expect(dead_code, reason = "it ends when this is dropped")]
    postgres: Option<Postgres>,
    running: Vec<Running>,
}

/// Fills the service if it begins empty, and waits until it answers.
fn started(service: &Service, address: Address, keep: Resources) -> Started {
    let answers = || {
        let mut client = address.connect().ok()?;
        client.get(0).ok()
    };
    match &address {
        // Redis and memcached begin empty.
        Address::Redis(_) | Address::Memcached(_) => {
            let fill = || {
                let words = service.words;
                address.fill(service.keys, &|key| value(key, words)).ok()
            };
            assert!(
                wait::poll(READY, fill).is_some(),
                "{} takes no values",
                service.name
            );
        }
        _ => {}
    }
    let state = || {
        keep.running
            .iter()
            .map(Running::state)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        wait::poll(READY, answers).is_some(),
        "{} does not answer: {}",
        service.name,
        state()
    );
    Started { address, keep }
}

/// Starts a program in the service's group.
fn program(place: &Surroundings, words: Vec<String>) -> Resources {
    Resources {
        running: vec![place.group.run(&Run::new(words)).start()],
        ..Resources::default()
    }
}

/// The words of a command line as owned strings.
fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(super) fn redis(service: &Service, place: &Surroundings) -> Started {
    let (port, folder) = (free_port(), place.folder.file(""));
    let port_text = port.to_string();
    let head = ["redis-server", "--port", &port_text, "--bind", "127.0.0.1"];
    let rest = ["--save", "", "--appendonly", "no", "--dir", &folder];
    let keep = program(place, words(&[&head[..], &rest].concat()));
    started(service, Address::Redis(port), keep)
}

pub(super) fn memcached(service: &Service, place: &Surroundings) -> Started {
    let port = free_port();
    let text = port.to_string();
    let line = [
        "memcached",
        "-u",
        "root",
        "-l",
        "127.0.0.1",
        "-m",
        "1024",
        "-p",
        &text,
    ];
    started(
        service,
        Address::Memcached(port),
        program(place, words(&line)),
    )
}

pub(super) fn postgres(service: &Service, place: &Surroundings) -> Started {
    let server = Postgres::start_as("128MB", 1, &|run| place.group.run(run));
    let table = "CREATE TABLE pairs (key integer PRIMARY KEY, value text)";
    let done = server.psql(table).finish(READY);
    assert!(done.status.success(), "{}", done.stderr);
    let mut rows = String::new();
    for key in 0..service.keys {
        let value = value(key, service.words);
        let _ = writeln!(rows, "{key}\t{}", String::from_utf8_lossy(&value));
    }
    let copied = server.psql("COPY pairs FROM STDIN").stdin(&rows);
    for step in [
        copied,
        server.psql("VACUUM ANALYZE pairs"),
        server.psql("CHECKPOINT"),
    ] {
        let done = step.finish(READY);
        assert!(done.status.success(), "{}", done.stderr);
    }
    let address = Address::Postgres(server.socket());
    let keep = Resources {
        postgres: Some(server),
        ..Resources::default()
    };
    started(service, address, keep)
}

pub(super) fn nginx(service: &Service, place: &Surroundings) -> Started {
    let port = free_port();
    for key in 0..service.keys {
        std::fs::write(
            place.folder.file(&key.to_string()),
            value(key, service.words),
        )
        .expect("there is room");
    }
    // Page cache is charged to the group that reads a file first: that must be the server's.
    assert!(
        Command::new("sync")
            .status()
            .is_ok_and(|done| done.success())
    );
    for key in 0..service.keys {
        let file = File::open(place.folder.file(&key.to_string())).expect("it was made");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a file");
    }
    let folder = place.folder.file("");
    let text = format!(
        "daemon off; worker_processes 1; user root; pid {folder}pid; error_log {folder}error;\n\
         events {{ }}\nhttp {{ access_log off; sendfile on; keepalive_requests 100000000; keepalive_timeout 1h;\n\
         open_file_cache max=10000;\n\
         client_body_temp_path {folder}t1; proxy_temp_path {folder}t2; fastcgi_temp_path {folder}t3;\n\
         uwsgi_temp_path {folder}t4; scgi_temp_path {folder}t5;\n\
         server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    );
    let config = place.folder.file("nginx.conf");
    std::fs::write(&config, text).expect("there is room");
    let keep = program(place, words(&["nginx", "-c", &config]));
    let this = started(service, Address::Http(port), keep);
    // Requests every key once, so that the group's page cache holds all files.
    let mut client = this.address.connect().expect("it answers");
    for key in 0..service.keys {
        let answer = client.get(key).expect("it answers");
        assert_eq!(Some(answer), service.expected(key), "file {key}");
    }
    this
}

/// Starts an HTTP service; its arguments between `head` and `tail` are the port, the number of keys
/// and the length of a value.
fn start_http(service: &Service, place: &Surroundings, head: &[&str], tail: &[&str]) -> Started {
    let port = free_port();
    let numbers = [
        port.to_string(),
        service.keys.to_string(),
        service.words.to_string(),
    ];
    let numbers = numbers.each_ref().map(String::as_str);
    let line = words(&[head, &numbers[..], tail].concat());
    started(service, Address::Http(port), program(place, line))
}

pub(super) fn node(service: &Service, place: &Surroundings) -> Started {
    let source = programs::source("service.js");
    start_http(service, place, &["node", &source], &[])
}

pub(super) fn java(service: &Service, place: &Surroundings) -> Started {
    let classes = programs::java("Service");
    let options = ["java", "-Xmx384m", "-Dsun.net.httpserver.nodelay=true"];
    let head = [&options[..], &["-cp", &classes, "Service"]].concat();
    start_http(service, place, &head, &[])
}

pub(super) fn go(service: &Service, place: &Surroundings) -> Started {
    start_http(service, place, &[&programs::go("service")], &[])
}

/// Starts the kind `kind` of service that `service.py` offers.
fn start_python(service: &Service, place: &Surroundings, kind: &str) -> Started {
    let source = programs::source("service.py");
    let folder = place.folder.file("");
    start_http(service, place, &["python3", &source, kind], &[&folder])
}

pub(super) fn python(service: &Service, place: &Surroundings) -> Started {
    start_python(service, place, "dict")
}

pub(super) fn sqlite(service: &Service, place: &Surroundings) -> Started {
    start_python(service, place, "sqlite")
}

pub(super) fn compile(service: &Service, place: &Surroundings) -> Started {
    start_python(service, place, "compile")
}

pub(super) fn php_fpm(service: &Service, place: &Surroundings) -> Started {
    let port = free_port();
    for number in 0..service.keys / PHP_EACH {
        let mut text = "<?php\nreturn [\n".to_owned();
        for key in number * PHP_EACH..(number + 1) * PHP_EACH {
            let value = value(key, service.words);
            let _ = writeln!(text, "'{}',", String::from_utf8_lossy(&value));
        }
        text.push_str("];\n");
        std::fs::write(place.folder.file(&format!("values{number}.php")), text)
            .expect("there is room");
    }
    let script = place.folder.file("service.php");
    std::fs::copy(programs::source("service.php"), &script).expect("there is room");
    let folder = place.folder.file("");
    let config = place.folder.file("fpm.conf");
    let text = format!(
        "[global]\ndaemonize = no\nerror_log = {folder}error\npid = {folder}pid\n[www]\nuser = root\ngroup = root\n\
         listen = 127.0.0.1:{port}\npm = static\npm.max_children = 4\n\
         php_admin_value[opcache.memory_consumption] = 256\nphp_admin_value[opcache.interned_strings_buffer] = 64\n\
         php_admin_value[opcache.validate_timestamps] = 0\nphp_admin_value[opcache.max_accelerated_files] = 10000\n"
    );
    std::fs::write(&config, text).expect("there is room");
    let line = ["/usr/sbin/php-fpm8.2", "-R", "-n"];
    let options = [
        "-d",
        "zend_extension=opcache.so",
        "-d",
        "opcache.memory_consumption=256",
    ];
    let more = [
        "-d",
        "opcache.interned_strings_buffer=64",
        "--fpm-config",
        &config,
    ];
    let keep = program(place, words(&[&line[..], &options, &more].concat()));
    let this = started(service, Address::FastCgi(port, script), keep);
    let mut client = this.address.connect().expect("it answers");
    for key in (0..service.keys).step_by(usize::try_from(PHP_EACH).unwrap_or(1)) {
        let answer = client.get(key).expect("it answers");
        assert_eq!(Some(answer), service.expected(key), "value {key}");
    }
    this
}

/// Path of the interpreter of a Python environment with ipykernel; pip makes the environment in the
/// first call.
fn notebook_python() -> String {
    let folder = target_dir().join("e2e/notebook");
    let python = folder.join("bin/python").to_string_lossy().into_owned();
    let has_it = || {
        let tried = Command::new(&python)
            .args(["-c", "import ipykernel, jupyter_client"])
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    };
    if !has_it() {
        let make = words(&["python3", "-m", "venv", &folder.to_string_lossy()]);
        let fill = words(&[&python, "-m", "pip", "install", "--quiet", "ipykernel"]);
        for step in [make, fill] {
            let done = Run::new(step).finish(READY);
            assert!(done.status.success(), "{}", done.stderr);
        }
        assert!(has_it(), "ipykernel is not there after pip installed it");
    }
    python
}

/// Starts a Jupyter kernel, and a program (notebook.py) that answers HTTP requests by running cells
/// in that kernel.
pub(super) fn notebook(service: &Service, place: &Surroundings) -> Started {
    let (python, port) = (notebook_python(), free_port());
    let connection = place.folder.file("kernel.json");
    let kernel = words(&[&python, "-m", "ipykernel_launcher", "-f", &connection]);
    let mut keep = program(place, kernel);
    let source = programs::source("notebook.py");
    let port_text = port.to_string();
    let (keys, length) = (service.keys.to_string(), service.words.to_string());
    let user = words(&[&python, &source, &connection, &port_text, &keys, &length]);
    keep.running
        .push(place.outside.run(&Run::new(user)).start());
    started(service, Address::Http(port), keep)
}
