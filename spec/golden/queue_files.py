# SPDX-License-Identifier: Apache-2.0
"""The golden files of queues (queue.md): the operations that make each of them."""

from golden import Golden, pattern


def empty_queue():
    return Golden("empty-queue", kind="queue", capacity=4096, producers=2, workers=2, counters=0)


def queue():
    """Two producers and three workers: jobs in hand, done, in batches, over the ring's end; a second owner of a ring;
    one worker leaves two jobs."""
    g = Golden("queue", kind="queue", capacity=4096, producers=2, workers=3, counters=0)
    g.publisher("p0", "orders")
    g.worker("w0", "packer")
    g.worker("w1")
    for i in range(5):
        g.offer("p0", 1 + i, pattern(i, 40 * i))
    g.take_job("w0")
    g.take_job("w1")
    g.done("w0")
    g.take_job("w0")
    g.done("w0")
    g.done("w1")
    for i in range(30):
        if i == 9:
            g.close("p0")
            g.publisher("p0", "orders")
        assert g.offer("p0", 20, pattern(i, 10 + 37 * i % 300)) > 0
        if i % 7 == 6:
            g.poll_jobs("w1", 256)
    assert g.objects["p0"].t > 4096
    g.publisher("p1")
    g.poll_jobs("w1", 256)
    for i in range(4):
        g.offer("p1", 30 + i, pattern(i, 8))
    g.take_job("w1")
    g.worker("w2", "late")
    g.take_job("w2")
    g.done("w2")
    return g


def queue_compact():
    """Alignment 8, and laps of the ring. Only done makes room."""
    g = Golden("queue-compact", kind="queue", capacity=4096, producers=1, workers=2, alignment=8, counters=0)
    g.publisher("p0", "feed")
    g.worker("w0")
    g.worker("w1")
    i = pressed = 0
    while i < 120:
        if g.offer("p0", 1 + i % 5, pattern(i, 41 * i % 457)) > 0:
            i += 1
            continue
        pressed += 1
        g.take_job("w0")
        g.poll_jobs("w1", 5)
        assert g.offer("p0", 9, pattern(1, 900)) < 0  # the job in w0's hand is in the way
        g.done("w0")
        g.poll_jobs("w0", 9)
    assert pressed > 4 and g.objects["p0"].t > 3 * 4096
    g.poll_jobs("w0", 2)
    return g


def queue_released():
    """Jobs go to the returns ring, some twice, and are done from there; also those in hand when a worker closes."""
    g = Golden("queue-released", kind="queue", capacity=4096, producers=2, workers=2, counters=0)
    g.publisher("p0", "orders")
    g.publisher("p1", "fills")
    g.worker("w0")
    g.offer("p1", 5, pattern(5, 50))
    g.take_job("w0")
    g.release("w0")
    for _ in range(2):
        g.take_job("w0")
        g.release("w0")
    g.take_job("w0")
    g.done("w0")
    for i in range(60):  # laps of the returns ring, with padding at its end
        g.offer("p0", 6, pattern(i, 37 * i % 500))
        g.take_job("w0")
        g.release("w0")
        g.take_job("w0")
        g.done("w0")
    returns = g.channel.get_trailer(g.channel.returns, "published")
    assert returns > 2 * 4096
    for i in range(3):
        g.offer("p0", 7, pattern(i, 30))
    g.take_job("w0")
    g.close("w0")
    return g


def queue_handed_on():
    """A worker with a job in hand and one without are evicted. Others adopt jobs, in the same slot and from another
    one. With the bits of sleepers."""
    g = Golden("queue-handed-on", kind="queue", capacity=4096, producers=1, workers=3, counters=0)
    g.publisher("p0", "orders")
    for handle in ("w0", "w1"):
        g.worker(handle)
    for i in range(6):
        g.offer("p0", 1 + i, pattern(i, 24))
    g.take_job("w0")
    g.take_job("w1")
    g.asleep("jobs", [0])
    g.asleep("room", [0])
    g.evict(1)
    g.worker("w2")
    g.take_job("w2")  # adopts w0's job
    g.done("w2")  # room
    g.offer("p0", 9, "99")  # wakes one
    g.evict(2)
    g.evict(3)
    return g


GOLDENS = (
    empty_queue,
    queue,
    queue_compact,
    queue_released,
    queue_handed_on,
)
