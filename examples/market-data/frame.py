# SPDX-License-Identifier: Apache-2.0
"""Collects quotes in a pandas DataFrame until the feed closes, and prints a line for each symbol."""

import time

import numpy
import pandas
from market_data import open_channel, quotes

parts: list[numpy.ndarray] = []


def add(array: numpy.ndarray) -> None:
    parts.append(array.copy())  # the array itself lies in the ring, and is valid in this function only


with open_channel() as channel, channel.subscriber("frame") as subscriber:
    while not parts or not subscriber.ended(0):
        subscriber.poll_arrays(quotes.Quote, add, timeout=0.1)
        time.sleep(0.05)  # lets quotes gather: few large arrays are faster than many small ones

frame = pandas.DataFrame(numpy.concatenate(parts))
frame["symbol"] = frame["symbol"].str.decode("ascii")
frame["spread"] = frame["ask"] - frame["bid"]
table = frame.groupby("symbol", as_index=False).agg(
    quotes=("sequence", "size"), low=("bid", "min"), high=("ask", "max"), spread=("spread", "mean")
)
print(table.to_string(index=False))
