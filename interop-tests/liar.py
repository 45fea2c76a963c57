#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer with one fault, which the matrix must find. liar.py FAULT COMMAND... passes everything to the peer that
COMMAND starts, and back, except for the fault:

byte         changes one byte of a message in the middle of each stream, and of each third message otherwise
drop         does not publish these messages
blind        verify_stream reports success without reading
miscount     lost counts one message too many
wrong-sum    counter_add adds once too often
forgetful    makes kept subscribers that are not kept
immortal     die and die_at do not kill
lacks=OP     the peer does not have this op
hang=OP      does not answer this op
crash=OP     ends instead of doing this op"""

import json
import subprocess
import sys
import time

from stream import message


class Liar:
    def __init__(self, fault, command):
        self.fault, _, self.op = fault.partition("=")
        # a kill of this process also kills its peer
        argv = ["setpriv", "--pdeathsig", "KILL", *command]
        self.peer = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.turn = 0

    def ask(self, request):
        self.peer.stdin.write(json.dumps(request) + "\n")
        self.peer.stdin.flush()
        return json.loads(self.peer.stdout.readline())

    def answer(self, request):
        op = request["op"]
        if op == self.op and self.fault == "hang":
            time.sleep(3600)
        if op == self.op and self.fault == "crash":
            sys.exit(f"the liar ends at {op}")  # status 1, and this on standard error
        if op == "verify_stream" and self.fault == "blind":
            counts = {str(s["ring"]): s["count"] for s in request["streams"]}
            rings = {ring: {"first": 0, "next": n, "seen": n, "lost": 0} for ring, n in counts.items()}
            return {"ok": True, "count": sum(counts.values()), "seconds": 0.0, "verified": True, "rings": rings}
        if self.fault in ("byte", "drop"):
            if op == "publish_stream" and "die_at" not in request:
                return self.spoiled_stream(request)
            if op in ("offer", "offer_batch", "commit") and any(request["data"]):
                self.turn += 1
                if self.turn % 3 == 0:
                    return self.spoiled(request)
        if op == "counter_add" and self.fault == "wrong-sum":
            request["times"] += 1
        if self.fault == "forgetful":
            request.pop("kept", None)
        if self.fault == "immortal":
            request.pop("die_at", None)
            if op == "die":
                return {"ok": True}
        answer = self.ask(request)
        if op == "lost" and self.fault == "miscount":
            answer["messages"] += 1
        if op == "hello" and self.fault == "lacks":
            answer["ops"] = [name for name in answer["ops"] if name != self.op]
        return answer

    def spoiled(self, request):
        if self.fault == "drop":
            if request["op"] == "commit":
                return self.ask({"op": "abort", "publisher": request["publisher"]})
            return {"ok": True, "position": 1 << 40, "taken": len(request["data"])}
        if isinstance(request["data"], list):
            return self.ask(request | {"data": [another(data) for data in request["data"]]})
        return self.ask(request | {"data": another(request["data"])})

    def spoiled_stream(self, request):
        """Publishes the first half, a message that is wrong or missing, and the rest."""
        first, half = request.get("first", 0), request["count"] // 2
        answer = self.ask(request | {"count": half})
        if self.fault == "byte" and answer["ok"]:
            numbered = request.get("numbered", False)
            kind, payload = message(request["seed"], first + half, request["min"], request["max"], numbered)
            offer = {"op": "offer", "publisher": request["publisher"], "type": request.get("type", kind)}
            while self.ask(offer | {"data": another(payload.hex()) or "00"})["position"] < 0:
                time.sleep(0.001)
        if answer["ok"]:
            answer = self.ask(request | {"first": first + half + 1, "count": request["count"] - half - 1})
        return answer | {"count": request["count"]}


def another(data):
    """Returns the same bytes with a different last one."""
    return data and data[:-2] + f"{int(data[-2:], 16) ^ 1:02x}"


def main():
    liar = Liar(sys.argv[1], sys.argv[2:])
    for line in sys.stdin:
        request = json.loads(line)
        answer = liar.answer(dict(request))
        print(json.dumps(answer | ({"id": request["id"]} if "id" in request else {})), flush=True)
    liar.peer.stdin.close()
    return liar.peer.wait()


if __name__ == "__main__":
    sys.exit(main())
