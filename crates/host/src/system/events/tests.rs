//! Tests with messages as the kernel sends them, with malformed bytes, and with processes that the
//! tests start themselves.

use std::process::Command;

use proptest::prelude::*;

use super::*;

/// Returns the bytes of a message with a process event: the headers, the kind `what`, and `data`.
fn message(what: u32, count: u32, data: &[u32]) -> Vec<u8> {
    let mut bytes = control(what, count);
    // After `what`: CPU 0, and the time.
    bytes.extend([0u8; 12]);
    bytes.extend(data.iter().flat_map(|word| word.to_ne_bytes()));
    let length = u32::try_from(bytes.len()).expect("short");
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

/// Returns the event that is parsed from such a message.
fn event(what: u32, data: &[u32]) -> Option<Event> {
    match parse(&message(what, 7, data)).next()? {
        Message::Counted {
            cpu: 0,
            count: 7,
            event,
        } => event,
        other => panic!("{other:?}"),
    }
}

#[test]
fn events_are_parsed() {
    assert_eq!(
        event(1, &[10, 11, 20, 20]),
        Some(Event::Fork {
            parent: 11,
            child: 20
        })
    );
    assert_eq!(event(1, &[10, 10, 21, 20]), None, "a thread");
    assert_eq!(event(2, &[20, 20]), Some(Event::Exec { pid: 20 }));
    assert_eq!(
        event(4, &[20, 20, 1, 2]),
        Some(Event::Uid {
            pid: 20,
            uid: 1,
            euid: 2
        })
    );
    assert_eq!(event(0x80, &[20, 20]), Some(Event::Session { pid: 20 }));
    let exit = event(0x8000_0000, &[20, 20, 256, 17, 1, 1]);
    assert_eq!(
        exit,
        Some(Event::Exit {
            pid: 20,
            status: 256
        })
    );
    assert_eq!(event(0x8000_0000, &[21, 20, 0, 17]), None, "a thread");
    assert!(matches!(
        event(0x200, &[20, 20, 1, 2, 3, 4]),
        Some(Event::Comm { pid: 20, .. })
    ));
    assert_eq!(event(0x200, &[20, 20, 1]), None, "cut off");
    let answer = parse(&message(0, 7, &[1])).next();
    assert_eq!(
        answer,
        Some(Message::Answer {
            to: 7,
            error: 1,
            cpu: 0,
            count: 7
        })
    );
}

#[test]
fn several_messages_in_a_datagram_are_parsed() {
    let mut bytes = message(2, 1, &[5, 5]);
    bytes.extend(message(2, 2, &[6, 6]));
    assert_eq!(parse(&bytes).count(), 2);
    bytes.truncate(bytes.len() - 1);
    assert_eq!(parse(&bytes).count(), 1);
}

#[test]
fn events_of_a_real_child_are_received() {
    let mut events = Events::open().unwrap();
    let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
    child.wait().unwrap();
    let drained = events.drain();
    let pid = child.id();
    let ours: Vec<Event> = drained
        .events
        .iter()
        .filter(|event| match event {
            Event::Fork { child, .. } => *child == pid,
            Event::Exec { pid: p } | Event::Exit { pid: p, .. } => *p == pid,
            _ => false,
        })
        .copied()
        .collect();
    let parent = std::process::id();
    let expected = [
        Event::Fork { parent, child: pid },
        Event::Exec { pid },
        Event::Exit {
            pid,
            status: 3 << 8,
        },
    ];
    assert_eq!(ours, expected, "{:?}", drained.lost);
    assert!(!drained.lost);
}

#[test]
fn lost_events_are_reported() {
    let mut events = Events::open().unwrap();
    set_socket_recv_buffer_size_force(&events.socket, 4096).unwrap();
    for _ in 0..20 {
        Command::new("true").status().unwrap();
    }
    assert!(events.drain().lost);
    // After the loss, events are received again.
    let _ = events.drain();
    Command::new("true").status().unwrap();
    assert!(events.drain().events.len() >= 3);
}

#[test]
fn descriptors_are_not_inherited_and_errors_have_hints() {
    let flags = fcntl_flags(&Events::open().unwrap());
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    assert!(answered(1).unwrap_err().hint().contains("CAP_NET_ADMIN"));
    assert!(answered(u32::MAX).is_err() && answered(0).is_ok());
}

fn fcntl_flags(events: &Events) -> rustix::io::FdFlags {
    rustix::io::fcntl_getfd(events).expect("flags")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_goes(bytes in any::<Vec<u8>>(), what in any::<u32>(), data in prop::collection::vec(any::<u32>(), 0..8), change in any::<(prop::sample::Index, u8)>(), cut in any::<prop::sample::Index>()) {
        prop_assert!(parse(&bytes).count() <= bytes.len());
        let mut message = message(what, 1, &data);
        let at = change.0.index(message.len());
        message[at] = change.1;
        message.truncate(cut.index(message.len() + 1));
        prop_assert!(parse(&message).count() <= 2);
    }
}
