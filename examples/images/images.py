# SPDX-License-Identifier: Apache-2.0
"""A camera publishes images of 10 MiB. Viewers look at the newest one, where it lies, and never slow the camera down.

images.py camera COUNT PER_SECOND    publishes so many images; all pixels of image N have the value N
images.py view SECONDS               looks at the newest image each SECONDS, until the camera closes
"""

import math
import sys
import time

import flyring
import numpy

SHAPE = (1280, 2048, 4)
SIZE = math.prod(SHAPE)  # bytes


def open_channel() -> flyring.Channel:
    """A ring of 64 MiB holds the six newest images. It has no places for readers that the camera would wait for."""
    return flyring.Channel.open_or_create("images", kind="broadcast", capacity=64 << 20, publishers=1, subscribers=0)


def camera(count: int, per_second: float) -> None:
    with open_channel() as channel, channel.publisher("camera") as publisher:
        for number in range(count):
            with publisher.claim(SIZE) as claim:  # space in the ring; published at the end of this block
                image = numpy.frombuffer(claim, numpy.uint8).reshape(SHAPE)
                image[:] = number % 256
                del image  # a view must not outlive the claim
            time.sleep(1 / per_second)


def is_newest(channel: flyring.Channel, message: flyring.Message) -> bool:
    """Whether there is no other image behind this one in the ring."""
    published = channel.stats().publishers[0].published
    return published - message.position < 2 * SIZE


def view(seconds: float) -> None:
    seen = skipped = 0
    with open_channel() as channel, channel.lossy_subscriber() as reader:
        waits = flyring.WaitSet()
        waits.add(reader)
        print("waiting for the camera", flush=True)
        while seen == 0 or not reader.ended(0):
            waits.wait(timeout=0.1)  # sleeps until there is an image
            while message := reader.peek():
                if not is_newest(channel, message):
                    skipped += reader.valid()  # goes on to the next one
                    continue
                image = numpy.frombuffer(message, numpy.uint8).reshape(SHAPE)  # in place: nothing is copied
                low, high = image.min(), image.max()
                del image
                if reader.valid():  # the camera did not overwrite it meanwhile
                    seen += 1
                    print(f"image {low}" if low == high else f"a mixture of {low} and {high}", flush=True)
                time.sleep(seconds)
        print(f"{seen} seen, {skipped} skipped, {reader.lost_messages(0)} overwritten")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["camera", count, per_second]:
            camera(int(count), float(per_second))
        case ["view", seconds]:
            view(float(seconds))
        case _:
            sys.exit("Use images.py with: camera COUNT PER_SECOND, or view SECONDS.")
