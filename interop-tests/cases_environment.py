# SPDX-License-Identifier: Apache-2.0
"""Tests in special environments: pid namespaces, a full or read-only file system, a wall clock that jumps.
cases_death.py gives them to pairs.py."""

import itertools
import os
import subprocess
import time

from driver import ROOT, Peer, Refused
from harness import above, after, data_of, drain, equal, fill, offer_within, refused, shared, true, Skip, Wrong

SMALL = {"kind": "broadcast", "capacity": 4096, "alignment": 64, "publishers": 2, "subscribers": 2, "counters": 0}
# a JVM prints a warning if another one has its pid
IN_A_PID_NAMESPACE = [
    "env",
    "JAVA_TOOL_OPTIONS=-XX:-UsePerfData",
    "unshare",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child=KILL",
]
TINY_SHM = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh"]
READ_ONLY_MOUNT = ["unshare", "--mount", "sh", "-c"]
READ_ONLY_MOUNT += ['mount --bind FOLDER FOLDER && mount -o remount,bind,ro FOLDER && exec "$@"', "sh"]
# Root may write to each file, unless it gives this up; any other user cannot.
WITHOUT_OVERRIDE = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else ["env"]
JOURNAL = {"segment_size": 65536, "consumers": 2}
FAKETIME = "libfaketimeMT.so.1"


def need_permission(words):
    """Skips the test unless this command, which starts peers, is permitted."""
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, text=True)
    except OSError as e:
        raise Skip(f"{words[0]}: {e.strerror}") from e
    if tried.returncode != 0:
        raise Skip(f"{' '.join(words)}: {tried.stderr.strip()}" + ("" if os.geteuid() == 0 else " (needs root)"))


def wrapped(run, language, words):
    """Starts a peer for this test only, by another command."""
    run.starts += 1
    argv = [*words, *run.commands[language]]
    peer = Peer(language, argv, run.logs, run.folder, f"{language}-{run.starts}")
    run.temporary.append(peer)
    return peer


def attach(run, *peers, **options):
    """A small channel, made by the first peer and opened by the others; its name, which is the handle of all."""
    return shared(run, "c", SMALL | options, *peers)


def within(seconds, what, attempt):
    """Repeats attempt() until it is not refused. Returns its answer."""
    late = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except Refused as e:
            if time.monotonic() > late:
                raise Wrong(f"{what}: still refused after {seconds} s: {e}") from e
            time.sleep(0.005)


def same_pid(run, writer, reader, third):
    """Two pid namespaces, in which both peers have pid 1: the live one is not retired, the dead one is."""
    need_permission(IN_A_PID_NAMESPACE)
    a, b = (wrapped(run, language, IN_A_PID_NAMESPACE) for language in (writer, reader))
    c = run.peer(third)
    equal("pids", (a.pid, b.pid), (1, 1))
    name = attach(run, c, a, b)
    a.call("publisher", channel=name, publisher=name, name="feed")
    slot = b.call("subscriber", channel=name, subscriber=name)["slot"]
    sent = fill(a, name)
    equal("a living subscriber was retired", offer_within(0.05, a, name, "00"), -1)
    holder = a.call("held_by", publisher=name)["holder"]
    equal("holder", (holder["slot"], holder["pid"], holder["live"]), (slot, 1, True))
    equal("messages", data_of(drain(b, name)), sent)
    fill(a, name)
    b.kill()
    above("position of an offer within 5 s of the subscriber's death", offer_within(5, a, name, "01"), 0)
    refused("no-free-slot", c, "publisher", channel=name, publisher=name + "c", name="feed")
    a.kill()
    within(5, "the dead publisher's slot", lambda: c.call("publisher", channel=name, publisher=name, name="feed"))
    above("position of an offer", c.call("offer", publisher=name, data="02", type=1)["position"], 0)


def full_file_system(run, language):
    """With 1 MiB of /dev/shm, a channel that does not fit is an error without leftovers, and one that fits works."""
    need_permission(TINY_SHM)
    peer = wrapped(run, language, TINY_SHM)
    for op in ("create", "replace", "open_or_create"):
        answer = refused("no-space", peer, op, channel="c", name="/dev/shm/big.ring", kind="inbox")
        true("needed > 1 MiB >= free > 0", answer["needed"] > 1 << 20 >= answer["free"] > 0, answer)
    options = SMALL | {"capacity": 1 << 16}
    for i in range(4):
        peer.call("create", channel=f"c{i}", name=f"/dev/shm/c{i}.ring", **options)
    answer = refused("no-space", peer, "create", channel="d", name="/dev/shm/d.ring", **options | {"capacity": 1 << 19})
    true("more is needed than is free", answer["needed"] > answer["free"], answer)
    refused("no-such-channel", peer, "open", channel="d", name="/dev/shm/d.ring")
    peer.call("publisher", channel="c3", publisher="p")
    peer.call("subscriber", channel="c3", subscriber="s")
    equal("it works", len(drain(peer, "s")), 0)
    sent = fill(peer, "p")
    equal("messages", data_of(drain(peer, "s")), sent)


def full_journal(run, language):
    """A journal in 1 MiB: a full disk is *no space* and changes nothing. Readers go on, a sync has room for its check,
    and the writer goes on when a trim has made room."""
    need_permission(TINY_SHM)
    peer = wrapped(run, language, TINY_SHM)
    peer.call("create", journal="j", name="/dev/shm/j.journal", **JOURNAL)
    peer.call("writer", journal="j", writer="w", helper=False)
    sent, large = [], "00" * 8000
    while len(sent) < 200:
        data = f"{len(sent):016x}" + large
        try:
            peer.call("append", writer="w", data=data, type=1)
        except Refused as e:
            equal("a full disk", e.code, "no-space")
            true("more is needed than is free", e.answer["needed"] > e.answer["free"] >= 0, e.answer)
            break
        sent.append(data)
    true("50 to 199 messages are on the disk", 50 < len(sent) < 200, len(sent))
    small = "ff" * 2000  # as many as the last segment has room for, and two more
    refused("no-space", peer, "append_many", writer="w", data=[small] * 30)
    here = peer.call("stats", journal="j")["stats"]["messages"]
    true("what a batch appended before it failed is there", len(sent) <= here < len(sent) + 30, here)
    sent += [small] * (here - len(sent))
    refused("no-space", peer, "append_many", writer="w", data=[small] * 30)
    peer.call("sync", writer="w")
    peer.call("reader", journal="j", reader="r")
    equal("messages", read(peer, "r"), sent)
    peer.call("trim", journal="j", position=4 * JOURNAL["segment_size"])
    peer.call("append_many", writer="w", data=[small] * 30)
    equal("messages behind the trim", read(peer, "r"), [small] * 30)
    peer.call("close", writer="w")


def read(peer, name, what="reader"):
    """Returns what a reader, or a consumer, finds now."""
    found = []
    while messages := peer.call("poll", limit=16, **{what: name})["messages"]:
        found += [message["data"] for message in messages]
    return found


def only_reading(run, language, other, read_only_mount):
    """A journal on a read-only file system, or whose files this process may only read: it reads them, also what comes,
    and everything else is *access denied*."""
    folder, owner, name = run.folder, run.peer(other), run.name()
    owner.call("create", journal=name, name=name, **JOURNAL)
    owner.call("writer", journal=name, writer=name, helper=False)
    for data in ("00", "01", "02"):
        owner.call("append", writer=name, data=data, type=1)
    files = [folder / f"{name}.journal", *(folder / f"{name}.journal").iterdir()]
    words = READ_ONLY_MOUNT if read_only_mount else WITHOUT_OVERRIDE
    words = [word.replace("FOLDER", str(folder)) for word in words]
    need_permission(words)
    modes = {file: file.stat().st_mode for file in files}
    try:
        for file in () if read_only_mount else files:
            file.chmod(modes[file] & ~0o222)
        peer = wrapped(run, language, words)
        refused("access-denied", peer, "open", journal="j", name=name)
        peer.call("open", journal="j", name=name, read_only=True)
        refused("access-denied", peer, "writer", journal="j", writer="w")
        refused("access-denied", peer, "push", journal="j", data="00", type=1)
        refused("access-denied", peer, "consumer", journal="j", consumer="c", name="c")
        refused("access-denied", peer, "trim", journal="j", consumed=True)
        if read_only_mount:
            refused("access-denied", peer, "create", journal="k", name=run.name(), **JOURNAL)
        refused("access-denied", peer, "unlink", journal=True, name=name)
        peer.call("reader", journal="j", reader="r")
        equal("messages", read(peer, "r"), ["00", "01", "02"])
        owner.call("append", writer=name, data="03", type=1)
        equal("a message that comes", peer.call("take", reader="r", timeout=5)["message"]["data"], "03")
        true("it is the writer's", peer.call("stats", journal="j")["stats"]["messages"] == 4, "stats")
    finally:
        for file, mode in modes.items():
            file.chmod(mode)


def of_a_group(run, language, other):
    """A journal of mode 0660 in the folder of a group: another user of the group appends, reads, consumes and trims,
    beside the first one. A user of no group gets *access denied*."""
    group = 60_001
    words = {user: ["setpriv", f"--reuid={user}", f"--regid={gid}", "--clear-groups"]
             for user, gid in ((60_002, group), (60_003, group), (60_004, 60_004))}  # fmt: skip
    for one in words.values():
        need_permission([*one, "env", "-C", str(ROOT)])  # and may this user enter the checkout?
    folder = run.folder / run.name()
    folder.mkdir()
    os.chown(folder, 0, group)
    folder.chmod(0o2770)
    mode = run.folder.stat().st_mode
    run.folder.chmod(mode | 0o011)
    try:
        owner, member, stranger = (wrapped(run, a, words[user]) for a, user in zip((other, language, language), words))
        name, data = str(folder / "j.journal"), "00" * 4000
        owner.call("create", journal="j", name=name, mode=0o660, **JOURNAL)
        owner.call("push", journal="j", data=data, type=1)
        refused("access-denied", stranger, "open", journal="j", name=name)
        member.call("open", journal="j", name=name)
        member.call("writer", journal="j", writer="w")
        member.call("append_many", writer="w", data=[data] * 40)
        member.call("consumer", journal="j", consumer="c", name="c")
        equal("the member reads", len(read(member, "c", "consumer")), 41)
        member.call("close", writer="w")
        above("bytes that the member trims", member.call("trim", journal="j", consumed=True)["freed"], 0)
        owner.call("push", journal="j", data=data, type=1)
        owner.call("reader", journal="j", reader="r")
        above("the owner reads what the member appended", len(read(owner, "r")), 1)
        equal("messages", owner.call("stats", journal="j")["stats"]["messages"], 42)
        member.call("close", consumer="c")
        member.call("unlink", journal=True, name=name)
    finally:
        run.folder.chmod(mode)


def clock_set_back(run, language, other):
    """The wall clock jumps back by ten days: the dead are retired, the living are not, and counters can be
    allocated."""
    found = subprocess.run(["sh", "-c", f"ls /usr/lib/*/faketime/{FAKETIME}"], capture_output=True, text=True)
    true("libfaketime is installed (apt: faketime)", found.returncode == 0, found.stderr)
    clock = run.folder / "clock"
    clock.write_text("+0d")
    environment = ["env", f"LD_PRELOAD={found.stdout.split()[0]}", f"FAKETIME_TIMESTAMP_FILE={clock}"]
    environment += ["FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
    a, b = wrapped(run, language, environment), run.fresh(other)
    name = run.name()
    a.call("create", channel=name, name=name, within=60, **SMALL | {"counters": 4})  # a JVM is slow under faketime
    b.call("open", channel=name, name=name)
    a.call("publisher", channel=name, publisher=name)
    counter = a.call("counter_allocate", channel=name, label="x", type_id=1, key="")["counter"]
    a.call("counter_free", channel=name, counter=counter)
    b.call("subscriber", channel=name, subscriber=name)
    sent = fill(a, name)
    clock.write_text("-10d")
    made = run.name()
    a.call("create", channel=made, name=made, **SMALL)
    with open(run.folder / f"{made}.ring", "rb") as file:
        created = int.from_bytes(file.read(64)[56:], "little") / 1e9
    jump = created - time.time()
    true("the clock jumps back by 9 to 11 days", -11 * 86400 < jump < -9 * 86400, f"{jump:.0f} s")
    equal("a living subscriber was retired", offer_within(0.02, a, name, "00"), -1)
    equal("messages", data_of(drain(b, name)), sent)
    fill(a, name)
    b.kill()
    above("position of an offer within 5 s of the subscriber's death", offer_within(5, a, name, "01"), 0)
    again = a.call("counter_allocate", channel=name, label="y", type_id=1, key="")["counter"]
    true("not the counter that was freed in the future", again != counter, again)
    clock.write_text("+0d")
    time.sleep(0.002)
    equal("reused", a.call("counter_allocate", channel=name, label="z", type_id=1, key="")["counter"], counter)
    clock.unlink()


def tests(languages):
    """Yields (title, function, arguments) of every test."""

    for a in languages:
        yield f"{a}: a file system of 1 MiB", full_file_system, a
        yield f"{a}: a journal in a file system of 1 MiB", full_journal, a
        yield f"{a}: a journal on a read-only file system", only_reading, a, after(languages, a), True
        yield f"{a}: a journal that it may only read", only_reading, a, after(languages, a), False
        yield f"{a}: a journal of a group's users", of_a_group, a, after(languages, a)
        yield f"{a}: the clock is set back", clock_set_back, a, after(languages, a)
    for a, b in itertools.product(languages, repeat=2):
        yield f"{a} and {b} have the same pid in two namespaces", same_pid, a, b, after(languages, b)
