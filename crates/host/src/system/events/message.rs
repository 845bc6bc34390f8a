//! The messages of the process connector as bytes: a netlink header, a connector header, and a
//! process event (`linux/netlink.h`, `linux/connector.h`, `linux/cn_proc.h`), all in this machine's
//! byte order.
//!
//! Invariant: any bytes are accepted. Incomplete messages and messages of other connectors are
//! skipped.

use super::Event;

/// The number of the process connector in the kernel, and also of its multicast group.
pub(super) const CN_IDX_PROC: u32 = 1;
/// The second word of the connector's number.
const CN_VAL_PROC: u32 = 1;
/// Operation of a message to the kernel: begin to send events.
pub(super) const LISTEN: u32 = 1;
/// Operation of a message to the kernel: stop sending events.
pub(super) const IGNORE: u32 = 2;

/// Size of `struct nlmsghdr`, bytes.
const NETLINK_HEADER: usize = 16;
/// Size of `struct cn_msg`, bytes.
const CONNECTOR_HEADER: usize = 20;
/// Size of the fields `what`, `cpu` and `timestamp_ns` of `struct proc_event`, bytes.
const EVENT_HEADER: usize = 16;
/// Type of a netlink message that is complete.
const NLMSG_DONE: u16 = 3;

/// Values of `what` in an event (`PROC_EVENT_*`).
const FORK: u32 = 1;
const EXEC: u32 = 2;
const UID: u32 = 4;
const SID: u32 = 0x80;
const COMM: u32 = 0x200;
const EXIT: u32 = 0x8000_0000;

/// One message from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// The kernel's reply to a message of a listener.
    Answer {
        /// The number of the message to which this is the reply, plus one.
        to: u32,
        /// 0 if the kernel accepted the message, else an errno.
        error: u32,
        /// The CPU on which the kernel made the reply; `u32::MAX` if the reply has no `count`
        /// (before Linux 6.6).
        cpu: u32,
        /// One more than `count` of the last event or reply on this CPU.
        count: u32,
    },
    /// An event.
    Counted {
        /// The CPU on which the kernel made the event.
        cpu: u32,
        /// One more than `count` of the last event or reply on this CPU.
        count: u32,
        /// The event; `None` for those that pagetide does not use, such as events of threads.
        event: Option<Event>,
    },
}

/// Returns the message that begins ([`LISTEN`]) or ends ([`IGNORE`]) a subscription. The kernel's
/// reply has the number `number + 1`.
pub(super) fn control(operation: u32, number: u32) -> Vec<u8> {
    let payload = 4u16;
    let total = u32::from(payload) + 36;
    let mut message = Vec::with_capacity(40);
    // Netlink header: length, type and flags, message number, sender.
    message.extend(total.to_ne_bytes());
    message.extend(NLMSG_DONE.to_ne_bytes());
    message.extend(0u16.to_ne_bytes());
    message.extend(number.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    // Connector header: number of the connector (two words), message number, acknowledged number,
    // length, flags.
    for word in [CN_IDX_PROC, CN_VAL_PROC, number, number] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(payload.to_ne_bytes());
    message.extend(0u16.to_ne_bytes());
    message.extend(operation.to_ne_bytes());
    message
}

/// Returns the messages in a datagram.
pub(super) fn parse(datagram: &[u8]) -> impl Iterator<Item = Message> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = usize::try_from(word(rest, 0)?).ok()?;
        // After a wrong length, the start of the next message is unknown, so the datagram ends
        // there.
        let message = rest.get(..length).filter(|_| length >= NETLINK_HEADER)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(parse_one(message))
    })
    .flatten()
}

/// Parses one message; `None` if it is incomplete or of another connector.
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

/// Parses an event; `None` if pagetide does not use it.
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

/// Returns the 32-bit word with the number `at`, counted from 0.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at * 4..at * 4 + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}
