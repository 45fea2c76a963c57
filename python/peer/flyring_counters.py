# SPDX-License-Identifier: Apache-2.0
"""The ops of counters (interop-tests/PEER.md)."""

from __future__ import annotations

from typing import Any

from flyring import Channel, Counter
from flyring_service import BadRequestError

Request = dict[str, Any]
Answer = dict[str, Any]


class Counters:
    """The counters of a peer's channels."""

    channels: dict[str, Channel]

    def _counter(self, request: Request) -> Counter:
        return self.channels[request["channel"]].counters().counter(request["counter"])

    def op_counter_allocate(self, request: Request) -> Answer:
        counters = self.channels[request["channel"]].counters()
        key = bytes.fromhex(request.get("key", ""))
        return {"counter": counters.allocate(request["label"], request.get("type_id", 0), key).id}

    def op_counter_find(self, request: Request) -> Answer:
        counter = self.channels[request["channel"]].counters().find(request["label"])
        return {"counter": None if counter is None else counter.id}

    def op_counter_get(self, request: Request) -> Answer:
        counter = self._counter(request)
        order = request.get("order", "plain")
        if order not in ("plain", "volatile"):
            raise BadRequestError(f"order: {order}")
        return {"value": counter.get() if order == "plain" else counter.get_volatile()}

    def op_counter_set(self, request: Request) -> Answer:
        counter, value = self._counter(request), request["value"]
        setters = {"plain": counter.set, "volatile": counter.set_volatile, "release": counter.set_release}
        order = request.get("order", "plain")
        if order not in setters:
            raise BadRequestError(f"order: {order}")
        setters[order](value)
        return {"value": value}

    def op_counter_add(self, request: Request) -> Answer:
        counter, delta = self._counter(request), request["delta"]
        value = counter.get_volatile()
        for _ in range(request.get("times", 1)):
            value = counter.get_and_add(delta) + delta
        return {"value": (value + 2**63) % 2**64 - 2**63}

    def op_counter_cas_loop(self, request: Request) -> Answer:
        counter, failed = self._counter(request), 0
        for _ in range(request["times"]):
            while True:
                value = counter.get_volatile()
                if counter.compare_and_set(value, value + 1):
                    break
                failed += 1
        return {"failed": failed}

    def op_counter_free(self, request: Request) -> Answer:
        self._counter(request).free()
        return {}

    def op_counters(self, request: Request) -> Answer:
        counters = self.channels[request["channel"]].counters()
        return {
            "counters": [
                {"id": c.id, "label": c.label, "type_id": c.type_id, "key": c.key.hex(), "value": c.get_volatile()}
                for c in counters
            ]
        }
