#!/bin/sh
# The program that runs in a suite's guest: LIMIT SCRIPT... It runs the scripts one after the other, and prints where
# each begins and how it ended. All processes of a script are killed before the next one starts: all except the first
# one and the runner; the guard of a hard limit is killed, too. A script that is killed at its limit (seconds) has the
# status `late`.
limit=$1; shift
for name; do
    mkdir -p "/tmp/$name"; cd "/tmp/$name"; rm -f /run/late
    echo "guest-suite: begin $name"
    sh "/suite/$name" & script=$!
    { sleep "$limit"; touch /run/late; kill -9 $script; } &
    wait $script; status=$?
    kill -9 -1
    [ ! -e /run/late ] || status=late
    echo; echo "guest-suite: end $name $status"
done
