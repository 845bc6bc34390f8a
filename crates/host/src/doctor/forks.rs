//! Whether the kernel reports forks and exits as they happen.
//!
//! Invariant: this module only judges, and does no I/O; [`crate::system::Events::open`] tries.

use crate::system::Error;

use super::Finding;

pub(super) fn judge(tried: &Result<(), Error>) -> Finding {
    let topic = "process events";
    match tried {
        Ok(()) => Finding::ok(topic, "the kernel reports forks and exits as they happen"),
        Err(error) => Finding::limited(
            topic,
            format!("forks and exits are found only by scans: {error}"),
            error.hint(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_refusal_has_a_remedy() {
        assert_eq!(judge(&Ok(())).state, State::Ok);
        let error = Error::NoEvents {
            why: "joining: EPERM".to_owned(),
            hint: "be root",
        };
        let finding = judge(&Err(error));
        assert!(finding.detail.contains("joining: EPERM"), "{finding:?}");
        assert_eq!(finding.remedy.as_deref(), Some("be root"));
    }
}
