# SPDX-License-Identifier: Apache-2.0
"""``flyring check``: checks every structure of a file against the rules of spec/channel.md."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from .. import layout
from .blocked import blocked, waiting, working
from .counters import check_counters
from .foreign import ReadByForeign, WrittenByForeign, check_foreign_slots
from .image import Image, open_image
from .report import Finding, Findings, finding_json, finding_text, print_json, printable
from .ring import RingCheck
from .slots import check_control, check_slots
from .zeros import check_zeros

RINGS = {None: RingCheck, "publisher": WrittenByForeign, "subscriber": ReadByForeign}
TRIES = 3  # a structure that is being changed may look wrong for a moment, but not three times
PAUSE = 0.005  # seconds


def check(name: str, as_json: bool) -> int:
    """Runs the command. Returns status 1 if a rule is broken. Leftovers of dead owners do not break a rule."""
    with open_image(name) as image:
        findings = examine(image)
        if (look := image.look()) is not None:
            stats = look.stats(image.path)
            findings.notes += [*blocked(stats), *waiting(stats), *working(stats)]
    broken = sum(finding.severity == "broken" for finding in findings.found)
    if as_json:
        print_json(
            {
                "path": image.path,
                "broken": broken,
                "left": len(findings.found) - broken,
                "findings": [finding_json(finding) for finding in findings.found],
                "notes": findings.notes,
                "records": findings.records,
            }
        )
    else:
        show(image, findings, broken)
    return 1 if broken else 0


def examine(image: Image) -> Findings:
    """Checks the file. While a process is attached, a finding counts only if each of several checks makes it."""
    attached = image.attached()
    findings = check_once(image)
    for _ in range(TRIES - 1):
        if not findings.found or not (attached or image.attached()):
            break
        time.sleep(PAUSE)
        again = {finding.place for finding in check_once(image).found}
        findings.found = [finding for finding in findings.found if finding.place in again]
    findings.found = list(one_for_each_death(findings.found))
    return findings


def one_for_each_death(found: list[Finding]) -> Iterator[Finding]:
    """Joins the findings about the gates of a dead subscriber, which has one in each of its rings, into one."""
    gates: dict[str | None, list[Finding]] = {}
    for finding in found:
        if (finding.severity, finding.kind) == ("left", "gate"):
            gates.setdefault(finding.slot, []).append(finding)
    for finding in found:
        of_slot = gates.get(finding.slot, [])
        if finding not in of_slot or len(of_slot) == 1:
            yield finding
        elif finding is of_slot[0]:
            rings = ", ".join(str(one.ring) for one in of_slot)
            what = f"the owner died; its gates hold publishers of rings {rings} back until one of them retires the slot"
            yield replace(finding, what=what, ring=None, position=None)


def check_once(image: Image) -> Findings:
    findings = Findings()
    header, memory = image.header, image.memory
    check_header(image, findings)
    if header is None or memory is None:
        return findings
    if image.covers(header.control_offset, header.control_length):
        check_control(image, header, memory, findings)
        check_slots(image, header, memory, findings)
        if header.foreign:
            check_foreign_slots(header, memory, findings)
    if image.covers(header.counter_values_offset, header.counter_values_length):
        check_counters(header, memory, findings)
    for ring in range(header.publishers):
        if image.covers(header.ring(ring), header.ring_stride):
            RINGS[header.foreign](image, header, memory, ring, findings).run()
    if header.minor == layout.MINOR:
        check_zeros(image, header, memory, findings)
    return findings


def check_header(image: Image, findings: Findings) -> None:
    """Checks the rules of 3.3 in their order, then the other rules of the table of 4.2, then the schema."""
    if image.problem is not None:
        field = getattr(image.problem, "field", None)
        offset = getattr(layout, f"HEADER_{field.upper()}", 0) if field else 0
        do = "replace the channel" if image.problem.code != "version-too-new" else "use a newer Flyring"
        findings.broken(image.problem.code, "3.3", offset, str(image.problem), do)
    header, memory = image.header, image.memory
    if header is None or memory is None:
        return
    if not header.schema_length and (header.schema_id or header.schema_version):
        what = f"schema_id {header.schema_id}, schema_version {header.schema_version} without a schema"
        findings.broken("schema", "4.2", layout.HEADER_SCHEMA_ID, what, "harmless; replace the channel")
    if header.schema_length and image.covers(header.schema_offset, header.schema_length):
        try:
            memory.read(header.schema_offset, header.schema_length).decode("utf-8")
        except UnicodeDecodeError as error:
            offset = header.schema_offset + error.start
            findings.broken("schema", "4.2", offset, f"the schema is not UTF-8: {error.reason}", "replace the channel")
    if image.another_boot():
        findings.notes.append("last written in another boot, or on another machine: all owners from then are gone")


def show(image: Image, findings: Findings, broken: int) -> None:
    for finding in findings.found:
        print(finding_text(finding))
    for note, times in Counter(findings.notes).items():
        print(f"note   {printable(note)}{f' ({times} times)' if times > 1 else ''}")
    left = len(findings.found) - broken
    verdict = f"{broken} broken rules" if broken else "no broken rule"
    print(f"{printable(image.path)}: {verdict}, {left} leftovers of dead owners, {findings.records} records walked")
