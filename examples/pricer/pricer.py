# SPDX-License-Identifier: Apache-2.0
"""A service that knows prices, and a caller with a time-out.

pricer.py serve                      answers until it is killed
pricer.py ask FRUIT COUNT SECONDS    prints what so many cost, in cents; waits no longer than that
"""

import sys

import flyring

CENTS = {"apples": 120, "pears": 95, "plums": 210}


def pricer() -> flyring.Channel:
    return flyring.Channel.open_or_create("pricer", kind="service")


def price(question: str) -> int:
    fruit, count = question.split()
    if fruit not in CENTS:
        raise ValueError(f"there is no price for {fruit}")
    return CENTS[fruit] * int(count)


def serve() -> None:
    with pricer() as service, service.server("pricer") as server:
        # Sleeps while there is no request. What the handler returns is the answer. If it raises, the caller gets the
        # text, and the server goes on.
        server.serve(lambda request: str(price(bytes(request).decode())).encode())


def ask(fruit: str, count: str, seconds: str) -> None:
    with pricer() as service, service.client() as client:
        try:
            answer = client.call(f"{fruit} {count}".encode(), timeout=float(seconds))
        except flyring.ServiceError as refused:
            sys.exit(f"refused: {refused.text}")
        except flyring.ExpiredError:
            sys.exit("no answer in time")
        except flyring.ServerGoneError as gone:
            seen = "may have seen" if gone.may_have_run else "never saw"
            sys.exit(f"the server has gone, and {seen} the question")
        print(bytes(answer).decode())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["ask", fruit, count, seconds]:
            ask(fruit, count, seconds)
        case _:
            sys.exit("Use pricer.py serve, or pricer.py ask FRUIT COUNT SECONDS.")
