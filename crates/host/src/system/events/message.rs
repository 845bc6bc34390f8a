//! The connector's messages as bytes: a netlink header, a connector header, and a process event
//! (`linux/netlink.h`, `linux/connector.h`, `linux/cn_proc.h`), all in this machine's byte order.
//!
//! Invariant: any bytes are taken; what is cut off, or of another connector, is left out.

use super::Event;

/// The connector of processes; also the number of its multicast group.
pub(super) const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
/// Begin to send events.
pub(super) const LISTEN: u32 = 1;
/// Send them no longer.
pub(super) const IGNORE: u32 = 2;

/// `struct nlmsghdr`.
const NETLINK_HEADER: usize = 16;
/// `struct cn_msg`.
const CONNECTOR_HEADER: usize = 20;
/// `what`, `cpu` and `timestamp_ns` of `struct proc_event`.
const EVENT_HEADER: usize = 16;
const NLMSG_DONE: u16 = 3;

const FORK: u32 = 1;
const EXEC: u32 = 2;
const UID: u32 = 4;
const SID: u32 = 0x80;
const COMM: u32 = 0x200;
const EXIT: u32 = 0x8000_0000;

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// The kernel's answer to what we said.
    Answer {
        /// Our number and one.
        to: u32,
        /// 0 if it was accepted.
        error: u32,
        /// As of events; the CPU is -1 where answers are not counted (before Linux 6.6).
        cpu: u32,
        /// As of events.
        count: u32,
    },
    /// Something happened.
    Counted {
        /// Where.
        cpu: u32,
        /// One more than the one before on that CPU.
        count: u32,
        /// None if it is of no interest, such as what threads do.
        event: Option<Event>,
    },
}

/// The message that begins or ends a subscription.
pub(super) fn control(operation: u32, number: u32) -> Vec<u8> {
    let payload = 4u16;
    let total = u32::from(payload) + 36;
    let mut message = Vec::with_capacity(40);
    // Length, type and flags, number, sender.
    message.extend(total.to_ne_bytes());
    message.extend(NLMSG_DONE.to_ne_bytes());
    message.extend(0u16.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    // Connector, number, what it answers, length, flags.
    for word in [CN_IDX_PROC, CN_VAL_PROC, number, number] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(payload.to_ne_bytes());
    message.extend(0u16.to_ne_bytes());
    message.extend(operation.to_ne_bytes());
    message
}

/// The messages of a datagram.
pub(super) fn parse(datagram: &[u8]) -> impl Iterator<Item = Message> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = usize::try_from(word(rest, 0)?).ok()?;
        // A length that is not true ends it: where the next one begins is then unknown.
        let message = rest.get(..length).filter(|_| length >= NETLINK_HEADER)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(parse_one(message))
    })
    .flatten()
}

fn parse_one(message: &[u8]) -> Option<Message> {
    let connector = message.get(NETLINK_HEADER..)?;
    if (word(connector, 0)?, word(connector, 1)?) != (CN_IDX_PROC, CN_VAL_PROC) {
        return None;
    }
    let (count, answers) = (word(connector, 2)?, word(connector, 3)?);
    let event = connector.get(CONNECTOR_HEADER..)?;
    let (what, cpu) = (word(event, 0)?, word(event, 1)?);
    let data = event.get(EVENT_HEADER..)?;
    if what == 0 {
        return Some(Message::Answer {
            to: answers,
            error: word(data, 0)?,
            cpu,
            count,
        });
    }
    Some(Message::Counted {
        cpu,
        count,
        event: parse_event(what, data),
    })
}

fn parse_event(what: u32, data: &[u8]) -> Option<Event> {
    let word = |at| word(data, at);
    if what == FORK {
        let (parent, thread, child) = (word(1)?, word(2)?, word(3)?);
        return (thread == child).then_some(Event::Fork { parent, child });
    }
    let (thread, pid) = (word(0)?, word(1)?);
    if thread != pid {
        return None;
    }
    Some(match what {
        EXEC => Event::Exec { pid },
        UID => Event::Uid {
            pid,
            uid: word(2)?,
            euid: word(3)?,
        },
        SID => Event::Session { pid },
        COMM => Event::Comm {
            pid,
            comm: data.get(8..24)?.try_into().ok()?,
        },
        EXIT => Event::Exit {
            pid,
            status: word(2)?,
        },
        _ => return None,
    })
}

/// The `at`th 32-bit word.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at * 4..at * 4 + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}
