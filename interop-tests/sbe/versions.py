# SPDX-License-Identifier: Apache-2.0
"""An older version of a schema, as sbe-tool's sbe.schema.transform.version makes it: nothing of a later version in it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

from values import Described, Values, constant


def versions(text: str) -> list[int]:
    """Every version at which something came, but the schema's own."""
    root = ElementTree.fromstring(text)
    newest = int(root.get("version", "0"))
    since = {int(element.get("sinceVersion", "0")) for element in root.iter()}
    return sorted({at - 1 for at in since if at > 0} - {newest})


def appended(text: str, version: int) -> bool:
    """Whether all that is newer stands behind what is older in its block, as SBE demands. If not, it is no older version."""
    for block in ElementTree.fromstring(text).iter():
        since = [int(one.get("sinceVersion", "0")) for one in block if one.tag.rpartition("}")[2] == "field"]
        newer = [one > version for one in since]
        if newer != sorted(newer):
            return False
    return True


def older(text: str, version: int) -> str:
    """Messages, fields, groups and data go. Types, enum values and choices stay, as the codecs that sbe-tool makes then."""
    root = ElementTree.fromstring(text)
    root.set("version", str(version))
    for parent in list(root.iter()):
        for child in list(parent):
            gone = int(child.get("sinceVersion", "0")) > version
            if gone and child.tag.rpartition("}")[2] in ("message", "field", "group", "data"):
                parent.remove(child)
    for element in root.iter():  # what is inside of what stays must not be newer than the schema
        if int(element.get("sinceVersion", "0")) > version:
            del element.attrib["sinceVersion"]
    return ElementTree.tostring(root, encoding="unicode")


def comparable(described: Any) -> Any:
    """Of a whole schema, what sbe-tool's own transformation to an older version has right: it leaves the versions of
    types as they were, and does not compute block lengths of groups and offsets of data anew."""
    if isinstance(described, list):
        return [comparable(one) for one in described]
    if not isinstance(described, dict):
        return described
    left_out = {"block_length"} if "dimension" in described else {"offset"} if "kind" in described else set()
    return {key: comparable(value) for key, value in described.items() if key not in left_out | {"since"}}


def readable(old: Described, new: Described, inside: bool = False) -> bool:
    """Whether an older reader can read what is newer: it skips what a block has more, and what stands behind all that it
    knows; it cannot know of a group or data between, nor of any inside of an entry."""
    then = [part["name"] for part in old["groups"] + old["data"]]
    now = [part["name"] for part in new["groups"] + new["data"]]
    groups = {group["name"]: group for group in new["groups"]}
    same = then == now if inside else then == now[: len(then)]
    return same and all(readable(group, groups[group["name"]], True) for group in old["groups"])


def narrowed(values: Values | None, described: Described) -> Values:
    """Only what ``described`` has."""
    assert values is not None
    result: dict[str, Any] = {f["name"]: values[f["name"]] for f in described["fields"] if not constant(f)}
    for group in described["groups"]:
        result[group["name"]] = [narrowed(entry, group) for entry in values[group["name"]]]
    for data in described["data"]:
        result[data["name"]] = values[data["name"]]
    return result


def widened(values: Values, old: Described, new: Described, version: int) -> Values:
    """As the newer schema sees values of the older one: None for fields that are not there, no entries, no bytes."""
    result: dict[str, Any] = {
        f["name"]: values[f["name"]] if f["since"] <= version else None for f in new["fields"] if not constant(f)
    }
    groups = {group["name"]: group for group in old["groups"]}
    for group in new["groups"]:
        name = group["name"]
        result[name] = [widened(one, groups[name], group, version) for one in values[name]] if name in groups else []
    for data in new["data"]:
        result[data["name"]] = values.get(data["name"], "")
    return result
