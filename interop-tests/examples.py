# SPDX-License-Identifier: Apache-2.0
"""Tests the programs of examples/: a reader in each language prints the messages of senders in all languages, and each
README shows what the programs print. The last line is `N passed, N failed`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import flyring
import pages
import readme
import routing as keys
from examples_build import BUILD, EXAMPLES, LANGUAGES, ROOT, commands
from examples_journals import event_history, persistent_queue
from examples_key_value import free_port, key_value, wait_for_port
from examples_streams import PATIENCE, channel_folder, images, market_data, mesh_member, order_gateway
from examples_tables import latest_prices


def waiting(reader: str) -> str | None:
    """Returns what is wrong, or None."""
    programs = commands("waiting")
    with channel_folder("waiting") as folder:
        environment = os.environ | {"FLYRING_DIR": folder}
        reading = subprocess.Popen(programs[reader], env=environment, stdout=subprocess.PIPE, text=True)
        assert reading.stdout is not None
        try:
            sent = []
            for sender in LANGUAGES:
                for channel in ("orders", "control"):
                    text = f"from {sender}"
                    subprocess.run([*programs[sender], channel, text], env=environment, check=True, timeout=PATIENCE)
                    sent.append(f"{channel}: {text}")
            subprocess.run([*programs["python"], "control", "stop"], env=environment, check=True, timeout=PATIENCE)
            printed = reading.communicate(timeout=PATIENCE)[0].splitlines()
        finally:
            reading.kill()
            reading.wait()
        # Messages are ordered only within a channel.
        for channel in ("orders", "control"):
            expected = [line for line in [*sent, "control: stop"] if line.startswith(channel)]
            got = [line for line in printed if line.startswith(channel)]
            if got != expected:
                return f"printed {got} of {channel}, not {expected}"
        if reading.returncode != 0:
            return f"ended with {reading.returncode}"
        refused = subprocess.run(
            [*programs[reader], "elsewhere", "text"], env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if refused.returncode == 0 or "orders" not in refused.stderr:
            return f"a wrong channel name ended with {refused.returncode}: {refused.stderr}"
    return None


def queue(first: str) -> str | None:
    """Runs three workers and two producers. A worker is killed with a job in hand; two jobs always fail."""
    languages = [*LANGUAGES, *LANGUAGES]
    languages = languages[languages.index(first) :][: len(LANGUAGES)]
    programs = commands("queue")
    with channel_folder("queue") as folder:
        environment = os.environ | {"FLYRING_DIR": folder}
        running: list[subprocess.Popen[str]] = []

        def start(language: str, verb: str) -> subprocess.Popen[str]:
            pipe = subprocess.PIPE
            program = subprocess.Popen(
                [*programs[language], verb], env=environment, stdin=pipe, stdout=pipe, text=True, bufsize=1
            )
            running.append(program)
            return program

        def publish(producer: subprocess.Popen[str], *texts: str) -> None:
            assert producer.stdin is not None
            producer.stdin.write("".join(f"{text}\n" for text in texts))
            producer.stdin.flush()

        try:
            killed, producers = start(first, "work"), [start(language, "produce") for language in languages[1:]]
            publish(producers[0], "slow")
            assert killed.stdout is not None
            if (begun := killed.stdout.readline()) != "begun: slow\n":
                return f"the first worker printed {begun!r}"
            workers = [start(language, "work") for language in languages[1:]]
            with flyring.Channel.open(f"{folder}/jobs.ring", read_only=True) as channel:
                late = time.monotonic() + PATIENCE
                while sum(publisher.state == "live" for publisher in channel.stats().publishers) < len(producers):
                    if time.monotonic() > late:
                        return "the producers did not come"
                    time.sleep(0.01)
            jobs = [[f"job {n}.{i}" for i in range(20)] for n in range(len(producers))]
            for n, producer in enumerate(producers):
                publish(producer, *jobs[n], f"bad {n}")
            killed.kill()
            for producer in producers:
                assert producer.stdin is not None
                producer.stdin.close()
            printed = [line for worker in workers for line in worker.communicate(timeout=PATIENCE)[0].splitlines()]
            dead = subprocess.run(
                [*programs[first], "dead"], env=environment, stdout=subprocess.PIPE, text=True, timeout=PATIENCE
            )
        finally:
            for program in running:
                program.kill()
                program.wait()
    wanted = ["slow", *jobs[0], *jobs[1]]
    bad = [f"bad {n}" for n in range(len(producers))]
    for what, expected in (
        ("done", wanted),
        ("given up", bad),
        ("begun", [*wanted, *3 * bad]),
    ):
        got = sorted(line.removeprefix(f"{what}: ") for line in printed if line.startswith(f"{what}: "))
        if got != sorted(expected):
            return f"{what}: {got}, not {sorted(expected)}"
    if sorted(dead.stdout.splitlines()) != bad:
        return f"dead letters: {dead.stdout!r}"
    if any(worker.returncode != 0 for worker in workers):
        return f"workers ended with {[worker.returncode for worker in workers]}"
    return None


def routing(first: str) -> str | None:
    """Runs a reader in each language, each with an inbox, and senders in all three, one after the other. Checks the
    inboxes of keys."""
    languages = [*LANGUAGES, *LANGUAGES]
    languages = languages[languages.index(first) :][: len(LANGUAGES)]
    programs = commands("routing")
    asked = [key for key, _ in keys.vectors()] + [key for family in keys.families().values() for key in family]
    text = "".join(f"{key}\n" for key in asked)
    answered = subprocess.run(
        [*programs[first], "where"], input=text, stdout=subprocess.PIPE, encoding="utf-8", timeout=PATIENCE
    )
    if wrong := keys.where(answered.stdout.splitlines(), asked):
        return wrong
    customers = [f"customer-{i}" for i in range(20)]
    for inbox in range(keys.INBOXES):
        if inbox not in map(keys.inbox_of, customers):
            return f"no customer goes to inbox {inbox}"
    sent: list[str] = []
    with channel_folder("routing") as folder:
        environment = os.environ | {"FLYRING_DIR": folder}
        readers = [
            subprocess.Popen(
                [*programs[language], "read", str(inbox)], env=environment, stdout=subprocess.PIPE, encoding="utf-8"
            )
            for inbox, language in enumerate(languages)
        ]
        try:
            for sender in (*LANGUAGES, "stop"):
                program = programs["python" if sender == "stop" else sender]
                numbers = range(1 if sender == "stop" else 5)
                lines = [
                    f"{c} {sender if sender == 'stop' else f'{n} of {sender}'}" for n in numbers for c in customers
                ]
                if sender == "stop":  # one for each inbox
                    lines = list({keys.inbox_of(line.split()[0]): line for line in lines}.values())
                else:
                    sent += lines
                text = "".join(f"{line}\n" for line in lines)
                subprocess.run(
                    [*program, "send"], env=environment, input=text, encoding="utf-8", check=True, timeout=PATIENCE
                )
            printed = [reader.communicate(timeout=PATIENCE)[0].splitlines() for reader in readers]
        finally:
            for reader in readers:
                reader.kill()
                reader.wait()
    for inbox, lines in enumerate(printed):
        wanted = [line for line in sent if keys.inbox_of(line.split()[0]) == inbox]
        if lines != wanted:
            return f"inbox {inbox}, read by {languages[inbox]}: {lines}, not {wanted}"
        if readers[inbox].returncode != 0:
            return f"the reader of inbox {inbox} ended with {readers[inbox].returncode}"
    return None


def get(port: int, path: str) -> tuple[int, str]:
    """Returns status and text of an answer of the web server."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def pricer(server: str) -> str | None:
    """All languages and the web server call a pricer in one language, which answers, refuses, is late, is killed, and
    comes back."""
    programs = commands("pricer")
    with channel_folder("pricer") as folder:
        environment = os.environ | {"FLYRING_DIR": folder}
        running: list[subprocess.Popen[bytes]] = []

        def start(*command: str) -> subprocess.Popen[bytes]:
            running.append(subprocess.Popen(command, env=environment))
            return running[-1]

        def ask(language: str, fruit: str, seconds: float) -> str:
            command = [*programs[language], "ask", fruit, "10", str(seconds)]
            asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
            return (asked.stdout + asked.stderr).strip()

        port = free_port()
        paths = ("/price/plums/10", "/price/quinces/10")
        answered = [(200, "2100"), (404, "there is no price for quinces")]
        try:
            serving = start(*programs[server], "serve")
            start(programs["python"][0], str(BUILD / "pricer/web.py"), str(port))
            for language in LANGUAGES:
                for fruit, wanted in (("pears", "950"), ("quinces", "refused: there is no price for quinces")):
                    if (got := ask(language, fruit, PATIENCE)) != wanted:
                        return f"{language} got {got!r}, not {wanted!r}"
            wait_for_port(port)
            if (served := [get(port, path) for path in paths]) != answered:
                return f"the web server answered {served}"

            serving.send_signal(signal.SIGSTOP)
            for language in LANGUAGES:
                if (got := ask(language, "pears", 0.3)) != "no answer in time":
                    return f"with a stopped server {language} got {got!r}"
            if (late := get(port, paths[0])) != (504, "no answer in time"):
                return f"with a stopped server the web server answered {late}"

            serving.kill()
            serving.wait()
            # 504: it waits for a server; 503: it has just noticed that the last one died.
            if (gone := get(port, paths[0]))[0] not in (503, 504):
                return f"without a server the web server answered {gone}"
            start(*programs[server], "serve")
            if (got := ask(LANGUAGES[0], "pears", PATIENCE)) != "950":
                return f"after a restart the answer was {got!r}"
            if (served := [get(port, path) for path in paths]) != answered:
                return f"after a restart the web server answered {served}"
        finally:
            for program in running:
                program.kill()
                program.wait()
    return None


def hello() -> str | None:
    """Its programs are those of README.md, which the readme suite runs in mixed languages."""
    for name, text in pages.read(ROOT / "README.md").files.items():
        if (BUILD / "hello" / name).read_text().partition("\n")[2].lstrip("\n") != text:
            return f"{name} differs from README.md"
    return None


def run_page(suite: readme.Suite, example: str) -> None:
    """The commands of an example's README print what it shows."""
    page = pages.read(BUILD / example / "README.md")
    with channel_folder(example) as channels:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = os.environ | {"FLYRING_DIR": channels, "PATH": path}
        readme.run_commands(suite, page, BUILD / example, environment)


def main() -> int:
    suite = readme.Suite()
    for test in (
        waiting,
        queue,
        routing,
        pricer,
        market_data,
        order_gateway,
        images,
        mesh_member,
        latest_prices,
        key_value,
        persistent_queue,
        event_history,
    ):
        for language in LANGUAGES:
            suite.says(f"{test.__name__} in {language}", test(language))
    suite.says("as many keys for each inbox", keys.even_keys())
    suite.says("hello as in README.md", hello())
    for example in EXAMPLES:
        run_page(suite, example)
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
