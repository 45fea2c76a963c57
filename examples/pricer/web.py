# SPDX-License-Identifier: Apache-2.0
"""A web server that asks the pricer, which may be written in any language.

web.py PORT    then: curl http://127.0.0.1:PORT/price/apples/10
"""

import sys

import flyring
from aiohttp import web

TIMEOUT = 0.5  # seconds

CLIENT = web.AppKey("client", flyring.Client)


async def price(request: web.Request) -> web.Response:
    question = "{fruit} {count}".format(**request.match_info)
    try:
        # Other requests go on meanwhile: one client has many calls under way.
        answer = await request.app[CLIENT].call_async(question.encode(), timeout=TIMEOUT)
    except flyring.ServiceError as refused:  # the pricer's handler raised
        return web.Response(status=404, text=refused.text)
    except flyring.ExpiredError:  # no answer in time, or no pricer runs
        return web.Response(status=504, text="no answer in time")
    except (flyring.ServerGoneError, flyring.BusyError) as failed:
        return web.Response(status=503, text=str(failed), headers={"Retry-After": "1"})
    return web.Response(text=bytes(answer).decode())


def main(port: int) -> None:
    with flyring.Channel.open_or_create("pricer", kind="service") as service, service.client("web") as client:
        app = web.Application()
        app[CLIENT] = client
        app.router.add_get("/price/{fruit}/{count}", price)
        web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Use web.py PORT.")
    main(int(sys.argv[1]))
