# SPDX-License-Identifier: Apache-2.0
import sys
import flyring

with flyring.Channel.open_or_create("hello", kind="inbox") as channel:
    if len(sys.argv) > 1:
        if not channel.publisher().offer(sys.argv[1].encode()):
            sys.exit("The channel is full: no process has read yet.")
    else:
        subscriber = channel.subscriber()
        while message := subscriber.take():
            print(bytes(message).decode())
