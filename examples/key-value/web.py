# SPDX-License-Identifier: Apache-2.0
"""The key-value server as a web server: GET, PUT and DELETE of /keys/KEY. An ETag is a version.

web.py PORT    then: curl -i http://127.0.0.1:PORT/keys/apples
"""

import re
import sys

import flyring
from aiohttp import web
from key_value import TIMEOUT, message, open_service, schema

CLIENT = web.AppKey("client", flyring.Client)
STATUS = {"too-large": 413, "no-space": 507, "invalid-argument": 400}


def condition(request: web.Request) -> int | None:
    """The version that the key must have: of If-Match, 0 of "If-None-Match: *", or None."""
    match, none_match = request.headers.get("If-Match"), request.headers.get("If-None-Match")
    if match is None and none_match is None:
        return None
    if match is None and none_match == "*" and request.method == "PUT":
        return 0
    if none_match is None and (tag := re.fullmatch(r'"([1-9]\d{0,17})"', match or "")):
        return int(tag[1])
    raise web.HTTPNotImplemented(text='use If-Match: "VERSION", or If-None-Match: * for PUT')


async def call(request: web.Request, asked):
    """The server's answer. Other requests go on meanwhile: one client has many calls under way."""
    try:
        answer = schema.decode(await request.app[CLIENT].call_async(asked, timeout=TIMEOUT))
    except flyring.ExpiredError:  # no answer in time, or no server runs; a change may have been made all the same
        raise web.HTTPGatewayTimeout(text="no answer in time") from None
    except (flyring.ServerGoneError, flyring.BusyError) as failed:
        raise web.HTTPServiceUnavailable(text=str(failed), headers={"Retry-After": "1"}) from None
    except flyring.MessageTooLargeError as failed:
        raise web.HTTPRequestEntityTooLarge(0, 0, text=str(failed)) from None
    return answer


def etag(version: int) -> dict[str, str]:
    return {"ETag": f'"{version}"'} if version else {}


async def get(request: web.Request) -> web.Response:
    answer = await call(request, message("Get", key=request.match_info["key"]))
    if answer.NAME == "Refused":
        return refused(answer)
    if answer.version == 0:
        return web.Response(status=404, text="there is no such key")
    return web.Response(body=answer.value, headers=etag(answer.version), content_type="application/octet-stream")


async def put(request: web.Request) -> web.Response:
    key, value, version = request.match_info["key"], await request.read(), condition(request)
    if version is None:
        asked = message("Put", key=key, value=value)
    else:
        asked = message("CompareAndPut", version=version, key=key, value=value)
    return changed(await call(request, asked))


async def delete(request: web.Request) -> web.Response:
    version = condition(request)
    answer = await call(request, message("Remove", version=version or 0, key=request.match_info["key"]))
    if version is None and answer.NAME == "Changed" and answer.before == 0:
        return web.Response(status=404, text="there is no such key")
    return changed(answer)


def changed(answer) -> web.Response:
    if answer.NAME == "Refused":
        return refused(answer)
    if answer.version == answer.before:
        return web.Response(status=412, text="the key has another version", headers=etag(answer.version))
    return web.Response(status=201 if answer.before == 0 else 204, headers=etag(answer.version))


def refused(answer) -> web.Response:
    return web.Response(status=STATUS.get(answer.code, 500), text=answer.text)


def main(port: int) -> None:
    with open_service() as service, service.client("web") as client:
        app = web.Application(client_max_size=10_000)
        app[CLIENT] = client
        app.add_routes([web.get("/keys/{key}", get), web.put("/keys/{key}", put), web.delete("/keys/{key}", delete)])
        web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Use web.py PORT.")
    main(int(sys.argv[1]))
