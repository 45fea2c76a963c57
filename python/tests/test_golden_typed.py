# SPDX-License-Identifier: Apache-2.0
"""The golden file with typed messages (spec/golden/README.md, "Typed")."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from flyring import Channel, Message, sbe

GOLDEN = Path(__file__).parents[2] / "spec" / "golden" / "1.0" / "typed"


def test_typed(tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.with_suffix(".json").read_text("utf-8"))
    path = shutil.copy(GOLDEN.with_suffix(".ring"), tmp_path)
    found: list[dict[str, Any]] = []
    with Channel.open(str(path)) as channel:
        schema = sbe.Schema.of(channel)

        def typed(message: sbe.Message, raw: Message) -> None:
            body = sbe.to_dict(message)
            found.append({"position": raw.position, "message": message.NAME, "body": body})
            if message.acting_version == schema.version:
                encoded = sbe.from_dict(type(message), body)
                assert bytes(raw)[: len(encoded)] == encoded
                assert len(encoded) == message.encoded_length

        def other(raw: Message) -> None:
            found.append({"position": raw.position, "message": None, "body": None})

        handler = sbe.dispatch(dict.fromkeys(schema.messages.values(), typed), otherwise=other)
        with channel.subscriber("reader", kept=True) as subscriber:
            subscriber.poll(handler)
    assert found == golden["typed"]
    assert len(found) == 9
