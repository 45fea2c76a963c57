# SPDX-License-Identifier: Apache-2.0
"""Makes an older version of a schema, like sbe-tool's sbe.schema.transform.version: without anything from later
versions."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

from values import Described, Values, constant


def versions(text: str) -> list[int]:
    """Returns every version in which something was added, except for the schema's own."""
    root = ElementTree.fromstring(text)
    newest = int(root.get("version", "0"))
    since = {int(element.get("sinceVersion", "0")) for element in root.iter()}
    return sorted({at - 1 for at in since if at > 0} - {newest})


def appended(text: str, version: int) -> bool:
    """Returns whether newer fields come after older ones in each block, as SBE demands; else there is no older
    version."""
    for block in ElementTree.fromstring(text).iter():
        since = [int(one.get("sinceVersion", "0")) for one in block if one.tag.rpartition("}")[2] == "field"]
        newer = [one > version for one in since]
        if newer != sorted(newer):
            return False
    return True


def older(text: str, version: int) -> str:
    """Removes messages, fields, groups and data of later versions. Types, enum values and choices stay, as in
    sbe-tool."""
    root = ElementTree.fromstring(text)
    root.set("version", str(version))
    for parent in list(root.iter()):
        for child in list(parent):
            gone = int(child.get("sinceVersion", "0")) > version
            if gone and child.tag.rpartition("}")[2] in ("message", "field", "group", "data"):
                parent.remove(child)
    for element in root.iter():  # remaining elements must not be newer than the schema
        if int(element.get("sinceVersion", "0")) > version:
            del element.attrib["sinceVersion"]
    return ElementTree.tostring(root, encoding="unicode")


def comparable(described: Any) -> Any:
    """Returns the parts of a schema that sbe-tool's own transformation to an older version gets right. It leaves the
    versions of types, block lengths of groups, and offsets of data unchanged."""
    if isinstance(described, list):
        return [comparable(one) for one in described]
    if not isinstance(described, dict):
        return described
    left_out = {"block_length"} if "dimension" in described else {"offset"} if "kind" in described else set()
    return {key: comparable(value) for key, value in described.items() if key not in left_out | {"since"}}


def readable(old: Described, new: Described, inside: bool = False) -> bool:
    """Returns whether an older reader can read the newer version. It skips new bytes at the end of a block, and parts
    behind all known ones; but not a new group or data in between, or inside an entry."""
    then = [part["name"] for part in old["groups"] + old["data"]]
    now = [part["name"] for part in new["groups"] + new["data"]]
    groups = {group["name"]: group for group in new["groups"]}
    same = then == now if inside else then == now[: len(then)]
    return same and all(readable(group, groups[group["name"]], True) for group in old["groups"])


def narrowed(values: Values | None, described: Described) -> Values:
    """Returns only the values that ``described`` has."""
    assert values is not None
    result: dict[str, Any] = {f["name"]: values[f["name"]] for f in described["fields"] if not constant(f)}
    for group in described["groups"]:
        result[group["name"]] = [narrowed(entry, group) for entry in values[group["name"]]]
    for data in described["data"]:
        result[data["name"]] = values[data["name"]]
    return result


def widened(values: Values, old: Described, new: Described, version: int) -> Values:
    """Returns older values as the newer schema reads them: missing fields are None; missing groups and data are
    empty."""
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
