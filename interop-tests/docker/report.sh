#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copies the report from the volume to the host once the driver has ended, or is stopped. The folder on the host may
# belong to any user, so this runs as root in its container. The copies belong to the owner of the checkout.
copy() {
    owner=$(stat -c %u:%g /checkout)
    rm -rf /build/interop-report
    cp -r /shared/report /build/interop-report || exit 1
    chmod -R u+w,a+rX /build/interop-report
    chown -R "$owner" /build/interop-report
    chown "$owner" /build  # the engine made it if it was missing, as root
    echo "the report is in build/interop-report"
}

trap 'copy; exit 0' TERM INT
seconds=0
while [ $seconds -lt 5 ]; do  # the driver's container is to end first, see peer.sh
    sleep 1 & wait $!
    if [ -e /shared/sockets/done ]; then seconds=$((seconds + 1)); else seconds=0; fi
done
copy
