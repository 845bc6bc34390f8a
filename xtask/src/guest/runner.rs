//! The program of a suite's guest: runs the scripts one after the other and marks on its output
//! where each begins and how it ended. No process of a script lives on into the next.

use std::time::Duration;

use super::files::GuestFile;

/// Begins every line that is the runner's.
pub(super) const MARK: &str = "guest-suite: ";
/// Where the scripts lie in the guest.
pub(super) const FOLDER: &str = "suite";
/// Stands for the status of a script that was killed because its time was over.
pub(super) const LATE: &str = "late";

/// For one script.
pub(super) const SCRIPT_LIMIT: Duration = Duration::from_secs(300);

/// The runner as the guest's program; its arguments are the limit and the scripts' names.
pub(super) fn program() -> GuestFile {
    // The kill reaches all but the first process and the runner itself, the guard included.
    let text = format!(
        r#"#!/bin/sh
limit=$1; shift
for name; do
    mkdir -p "/tmp/$name"; cd "/tmp/$name"; rm -f /run/late
    echo "{MARK}begin $name"
    sh "/{FOLDER}/$name" & script=$!
    {{ sleep "$limit"; touch /run/late; kill -9 $script; }} &
    wait $script; status=$?
    kill -9 -1
    [ ! -e /run/late ] || status={LATE}
    echo; echo "{MARK}end $name $status"
done
"#
    );
    GuestFile::executable("program", text)
}

/// The runner's arguments.
pub(super) fn arguments(names: &[String]) -> Vec<String> {
    let limit = SCRIPT_LIMIT.as_secs().to_string();
    std::iter::once(limit)
        .chain(names.iter().cloned())
        .collect()
}
