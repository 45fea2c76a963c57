# SPDX-License-Identifier: Apache-2.0
"""The Python child: like child.cpp, for the code of the C extension. It marks points by signals to itself."""

import mmap
import os
import signal
import struct
import sys

import flyring
from plan import IDENTITY, LOST_STATUS, length_of, mark, payload


class Sender:
    def __init__(self, run):
        self.publisher = run.channel.publisher("pub")
        self.sequence = run.sequence

    def offer(self):
        data = payload(self.sequence, length_of(self.sequence))
        assert self.publisher.offer(data, 1 + self.sequence)
        self.sequence += 1

    def fill_to(self, there):
        self.offer()
        while not there(self.publisher.position):
            self.offer()

    def offer_once(self, length):
        data, kind, offer = payload(self.sequence, length), 1 + self.sequence, self.publisher.offer
        mark()
        end = offer(data, kind)
        mark()
        assert end > 0

    def claim_one(self, length):
        claim = self.publisher.claim(length, 1 + self.sequence)
        claim[:] = payload(self.sequence, length)
        return claim


class Run:
    def __init__(self, path, sequence, lengths):
        self.path, self.sequence, self.lengths = path, sequence, lengths
        self.channel = flyring.Channel.open(path, _identity=IDENTITY)
        unit = self.channel.alignment
        self.record = (lengths[0] + 8 + unit - 1) // unit * unit if lengths else 0

    def offer(self):
        sender = Sender(self)
        sender.fill_to(lambda at: at // 512 == (at + self.record) // 512)
        sender.offer_once(self.lengths[0])

    def first_offer(self):
        Sender(self).offer_once(self.lengths[0])

    def offer_padding(self):
        sender = Sender(self)
        sender.fill_to(lambda at: at % 4096 + self.record > 4096)
        sender.offer_once(self.lengths[0])

    def claim(self):
        sender = Sender(self)
        sender.offer()
        claim, length = sender.publisher.claim, self.lengths[0]
        mark()
        claimed = claim(length, 7)
        mark()
        claimed.abort()

    def commit(self):
        sender = Sender(self)
        sender.offer()
        commit = sender.claim_one(self.lengths[0]).commit
        mark()
        end = commit()
        mark()
        assert end > 0

    def abort(self):
        sender = Sender(self)
        sender.offer()
        abort = sender.claim_one(40).abort
        mark()
        end = abort()
        mark()
        assert end > 0

    def batch(self):
        sender = Sender(self)
        sender.offer()
        messages = [payload(sender.sequence + i, length) for i, length in enumerate(self.lengths)]
        kind, offer_batch = 1 + sender.sequence, sender.publisher.offer_batch
        mark()
        taken = offer_batch(messages, kind)
        mark()
        assert taken == len(messages)

    def poll(self):
        """Writes to PATH.done how many messages of each ring the handler has seen, before the gate is stored."""
        with open(self.path + ".done", "r+b") as file:
            done = mmap.mmap(file.fileno(), 4096)
        counts = [0, 0]

        def handler(message):
            counts[message.ring] += 1
            struct.pack_into("<q", done, 8 * message.ring, counts[message.ring])

        subscriber = self.channel.subscriber("reader", kept=True)
        poll = subscriber.poll
        mark()
        polled = poll(handler)
        mark()
        assert polled > 3

    def workers(self, slot):
        """Takes workers up to that slot. The last one has it."""
        made = [self.channel.worker()]
        while made[-1].slot < slot:
            made.append(self.channel.worker())
        assert made[-1].slot == slot
        return made

    def dies_with_a_job(self, slot):
        """Another process takes the slot and a job, and dies."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # else the signal stops this traced process
        pid = os.fork()
        if pid == 0:
            other = Run(self.path, self.sequence, [])
            other.workers(slot)[-1].poll(lambda job: os._exit(0))
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0

    def work_off(self):
        """Finishes all jobs by another worker, which keeps its slot."""
        self.other = self.channel.worker()
        while self.other.poll(lambda job: None, 256):
            pass

    def take_once(self, workers, attempts=0):
        take = workers[-1].take
        mark()
        job = take()
        mark()
        assert job.attempts == attempts

    def queue_take(self):
        self.take_once(self.workers(2))

    def queue_take_batch(self):
        def handler(job):
            if not marked:
                marked.append(job.position)
                mark()

        marked, poll = [], self.workers(2)[-1].poll
        mark()
        assert poll(handler, 3) == 3

    def queue_done(self):
        workers = self.workers(2)
        done = workers[-1].take().done
        mark()
        done()
        mark()

    def queue_adopt(self):
        workers = self.workers(1)
        self.dies_with_a_job(3)
        self.take_once(workers + self.workers(2), 1)

    def queue_take_worker(self):
        workers = self.workers(1)
        self.dies_with_a_job(2)
        worker = self.channel.worker
        mark()
        workers.append(worker("heir"))
        mark()
        assert workers[-1].slot == 2

    def queue_release(self):
        workers = self.workers(2)
        job = workers[-1].take()
        self.work_off()
        release = job.release
        mark()
        released = release()
        mark()
        assert released

    def queue_close(self):
        worker = self.workers(2)[-1]
        worker.poll(lambda job: flyring.Action.BREAK, 3)
        self.work_off()
        close = worker.close
        mark()
        close()
        mark()

    def queue_evict(self):
        workers = self.workers(2)
        job = workers[-1].take()
        evict = self.channel.evict
        mark()
        evict(2)
        mark()
        assert job is not None


def main():
    operation, path, sequence, *lengths = sys.argv[1:]
    if operation.startswith("table-"):
        from child_table import Held

        getattr(Held(path), operation.removeprefix("table-").replace("-", "_"))()
        return
    if operation.startswith("journal-"):
        from child_journal import Writing

        getattr(Writing(path), operation.removeprefix("journal-").replace("-", "_"))()
        return
    run = Run(path, int(sequence), [int(length) for length in lengths])
    if operation.startswith("service-"):
        from child_service import Talk

        operation = operation.removeprefix("service-")
        run = Talk(run)
    try:
        getattr(run, operation.replace("-", "_"))()
    except flyring.SlotLostError:
        sys.exit(LOST_STATUS)


main()
