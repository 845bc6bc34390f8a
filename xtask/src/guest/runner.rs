//! The program that runs in a suite's guest. It runs the scripts one after the other, and prints
//! where each begins and how it ended. All processes of a script are killed before the next one
//! starts.

use std::time::Duration;

use super::files::GuestFile;

/// Beginning of each line that the runner prints.
pub(super) const MARK: &str = "guest-suite: ";
/// Folder of the scripts in the guest.
pub(super) const FOLDER: &str = "suite";
/// Status of a script that was killed at its time limit.
pub(super) const LATE: &str = "late";

/// Time limit of one script.
pub(super) const SCRIPT_LIMIT: Duration = Duration::from_secs(300);

/// Returns the runner as the guest's program; its arguments are the limit and the scripts' names.
pub(super) fn program() -> GuestFile {
    // The kill reaches all processes except the first one and the runner; the guard of a hard limit
    // is killed, too.
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
