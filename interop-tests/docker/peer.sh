#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# peer LANGUAGE COMMAND...: keeps three peers of a language running for the driver, until the driver has ended.
# This shell is process 1 of its container, the peers are its children: the kernel would not let process 1 kill itself.
language=$1; shift
sockets=/shared/sockets
trap 'exit 0' TERM INT  # and the kernel ends the children of process 1

keep() { # keep N COMMAND...: whichever way a peer ends, the driver gets a new one
    name=$sockets/$language-$1; shift
    while :; do
        [ ! -S "$name.sock" ] || [ -e $sockets/done ] || "$@" --socket "$name.sock" 2>> "$name.stderr"
        sleep 0.1
    done
}

echo "$language peers: uid $(id -u), $(readlink /proc/self/ns/pid)"
for n in 1 2 3; do keep $n "$@" & done

# The driver's container is to end first: `docker-compose up --exit-code-from` stops all when any ends.
seconds=0
while [ $seconds -lt 5 ]; do
    sleep 1 & wait $!
    if [ -e $sockets/done ]; then seconds=$((seconds + 1)); else seconds=0; fi
done
