#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# leftovers.sh NAME COMMAND...: tests that a program that has a folder /dev/shm/NAME-PID-... removes what a killed one
# left, and nothing of a process that lives. The command must run for about a second.
set -u
name=$1
shift
failed=0
fail() {
    echo "FAIL  $name: $1"
    failed=1
}
lives=/dev/shm/$name-$$-lives
mkdir "$lives"

"$@" > /dev/null 2>&1 &
pid=$!
left=
for _ in $(seq 500); do
    left=$(echo "/dev/shm/$name-$pid-"*)
    [ -d "$left" ] && break
    sleep 0.02
done
kill -KILL "$pid"
wait "$pid" 2> /dev/null
[ -d "$left" ] || fail "expected a folder /dev/shm/$name-$pid-... of the killed program"

"$@" > /dev/null 2>&1 # mutants may fail
[ ! -e "$left" ] || fail "$left is still there, and its process is dead"
[ -d "$lives" ] || fail "$lives is gone, and its process lives"
rm -rf "$left" "$lives"
echo "$((1 - failed)) passed, $failed failed"
exit $failed
