//! redis with half of the memory that it uses: 150,000 keys are read back value by value; a BGSAVE
//! runs while everything is evicted; another server loads the dump, which is compared.
#![forbid(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use e2e::guard::{Run, Running};
use e2e::resp::{Client, Reply, free_port};
use e2e::temp::{TempDir, serial};
use e2e::zram::Swap;
use e2e::{pagetide, proc, wait};

/// Number of keys.
const KEYS: u64 = 150_000;
/// Number of keys in tests in which all memory is swapped out every 20 ms. It is small, because
/// each access to a key is then a page fault.
const FEW_KEYS: u64 = 40_000;
/// Number of commands that are sent at once.
const BATCH: u64 = 500;
/// Longest time that a test waits for one event, also on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// A hash of `x`: pseudo-random bits that are the same in each run.
fn hash(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn key(number: u64) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// The value of a key: 64 to 400 bytes; every second value can hardly be compressed.
fn value(number: u64) -> Vec<u8> {
    let len = 8 + hash(number) % 43;
    let word = |i: u64| {
        if number.is_multiple_of(2) {
            hash(number << 8 | i)
        } else {
            number
        }
    };
    (0..len).flat_map(|i| word(i).to_le_bytes()).collect()
}

/// The command of a redis server at this port, with its dump in the folder.
fn server_command(port: u16, folder: &TempDir) -> Run {
    let dir = folder.path().to_string_lossy().into_owned();
    let port = port.to_string();
    let words = [
        "redis-server",
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        &dir,
        "--dbfilename",
        "dump.rdb",
        "--daemonize",
        "no",
    ];
    Run::new(words)
}

/// Sets `keys` keys to their values.
fn fill(client: &mut Client, keys: u64) {
    for first in (0..keys).step_by(500) {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = (first..first + BATCH)
            .map(|number| (key(number), value(number)))
            .collect();
        let words: Vec<[&[u8]; 3]> = pairs.iter().map(|(k, v)| [&b"SET"[..], k, v]).collect();
        let commands: Vec<&[&[u8]]> = words.iter().map(|words| &words[..]).collect();
        for reply in client.pipeline(&commands) {
            assert_eq!(reply, Reply::Simple("OK".to_owned()));
        }
    }
}

/// Reads and checks all `all` values, in an order that is spread over the whole memory.
fn check_all(client: &mut Client, all: u64, what: &str) {
    assert_eq!(
        client.call(&["DBSIZE"]),
        Reply::Number(i64::try_from(all).expect("it fits"))
    );
    for batch in 0..all / BATCH {
        let numbers: Vec<u64> = (0..BATCH)
            .map(|i| (batch * BATCH + i) * 77_773 % all)
            .collect();
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
        let words: Vec<[&[u8]; 2]> = keys.iter().map(|key| [&b"GET"[..], key]).collect();
        let commands: Vec<&[&[u8]]> = words.iter().map(|words| &words[..]).collect();
        for (number, reply) in numbers.iter().zip(client.pipeline(&commands)) {
            assert!(
                reply == Reply::Bulk(Some(value(*number))),
                "{what}: key {number} is wrong"
            );
        }
    }
}

/// Runs BGSAVE, and waits until the dump is written.
fn background_save(client: &mut Client) {
    let before = client.call(&["LASTSAVE"]);
    // LASTSAVE counts whole seconds: a save within the same second as the start could not be seen.
    std::thread::sleep(Duration::from_millis(1100));
    client.call(&["BGSAVE"]);
    let mut state = String::new();
    let saved = wait::poll(LONG, || {
        if let Reply::Bulk(Some(text)) = client.call(&["INFO", "persistence"]) {
            state = String::from_utf8_lossy(&text).into_owned();
        }
        assert!(
            !state.contains("rdb_last_bgsave_status:err"),
            "BGSAVE failed: {state}"
        );
        (state.contains("rdb_bgsave_in_progress:0") && client.call(&["LASTSAVE"]) != before)
            .then_some(())
    });
    assert!(saved.is_some(), "BGSAVE did not end: {state}");
}

/// Bytes of resident anonymous memory of the redis server.
fn resident_bytes(server: &Running) -> u64 {
    server
        .named("redis-server")
        .first()
        .and_then(|pid| proc::rss_anon(*pid))
        .unwrap_or(0)
}

/// Resident bytes of a filled server without a limit.
fn peak_alone() -> u64 {
    let (folder, port) = (TempDir::new(), free_port());
    let alone = server_command(port, &folder).start();
    let mut client = Client::connect(port);
    fill(&mut client, KEYS);
    check_all(&mut client, KEYS, "alone");
    resident_bytes(&alone)
}

/// The kernel may kill the server (limit about 25 MiB) while swap is free, if a busy machine keeps
/// the thread that refreshes its counters from running (docs/known-gaps.md). That is rare, so the
/// test may fail once, but not twice in a row.
#[test]
fn redis_in_half_of_its_memory() {
    let _serial = serial();
    if in_half_of_its_memory().is_err() {
        eprintln!("the kernel has killed it; once more");
        in_half_of_its_memory().expect("it is not killed");
    }
}

/// Returns how the server ended as an error, if the kernel has killed it.
fn in_half_of_its_memory() -> Result<(), String> {
    let swap = Swap::new(2048);
    let back = e2e::proc::vmstat("pswpin");
    let limit = (peak_alone() / 2).to_string();
    let (folder, port) = (TempDir::new(), free_port());
    let report = folder.file("report.json");
    let limits = ["--memory-max", limit.as_str(), "--age-every", "2s"];
    let options = [&limits[..], &["--report", report.as_str()]].concat();
    let mut managed = pagetide::run(&options, &server_command(port, &folder)).start();
    let worked = std::panic::catch_unwind(|| {
        let mut client = Client::connect(port);
        fill(&mut client, KEYS);
        check_all(&mut client, KEYS, "managed");
        background_save(&mut client);
        check_all(&mut client, KEYS, "after BGSAVE");
    });
    if let Err(why) = worked {
        let ended = wait::poll(Duration::from_secs(2), || managed.ended());
        match ended.and_then(|status| status.signal()) {
            Some(9) => return Err(format!("{ended:?}")),
            _ => std::panic::resume_unwind(why),
        }
    }

    let (other_folder, other_port) = (TempDir::new(), free_port());
    std::fs::copy(
        folder.path().join("dump.rdb"),
        other_folder.path().join("dump.rdb"),
    )
    .expect("BGSAVE wrote a dump");
    let other = server_command(other_port, &other_folder).start();
    check_all(
        &mut Client::connect(other_port),
        KEYS,
        "the dump in another server",
    );
    drop(other);

    managed.signal(rustix::process::Signal::TERM);
    let outcome = managed.wait(LONG);
    assert!(
        outcome.status.success(),
        "{}: {}",
        outcome.status,
        outcome.stderr
    );
    let file = folder.path().join("report.json");
    // The manager writes its report a moment after the server has ended.
    wait::until("the report", LONG, || {
        std::fs::metadata(&file).is_ok_and(|meta| meta.len() > 0)
    });
    // pagetide pages out pages idle for three scans before the limit is reached; at the limit the
    // kernel reclaims others.
    let report = e2e::report::Report::read(&file);
    let left = report.number("evicted_pages") + report.number("left_by_kernel_pages");
    assert!(left > 1000, "{left} pages left by the report");
    assert!(report.number("refaulted_pages") > 1000);
    let (out, back) = (swap.written() >> 12, e2e::proc::vmstat("pswpin") - back);
    assert!(
        out > 1000 && back > 1000,
        "{out} pages out, {back} back by the kernel's count"
    );
    Ok(())
}

#[test]
fn bgsave_while_everything_is_evicted() {
    let _serial = serial();
    let swap = Swap::new(2048);
    let (folder, port) = (TempDir::new(), free_port());
    let managed = pagetide::run(&e2e::notice::POLICY, &server_command(port, &folder)).start();
    let mut client = Client::connect(port);
    fill(&mut client, FEW_KEYS);
    let full = resident_bytes(&managed);
    // Waits until the kernel has swapped out more than 8 MiB.
    wait::until("it leaves", LONG, || swap.written() > 8 << 20);
    background_save(&mut client);
    check_all(&mut client, FEW_KEYS, "evicted as fast as possible");
    eprintln!(
        "resident {full} after the fill, {} at the end",
        resident_bytes(&managed)
    );

    let (other_folder, other_port) = (TempDir::new(), free_port());
    std::fs::copy(
        folder.path().join("dump.rdb"),
        other_folder.path().join("dump.rdb"),
    )
    .expect("BGSAVE wrote a dump");
    let _other = server_command(other_port, &other_folder).start();
    check_all(
        &mut Client::connect(other_port),
        FEW_KEYS,
        "the dump in another server",
    );
}
