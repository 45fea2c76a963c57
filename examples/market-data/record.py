# SPDX-License-Identifier: Apache-2.0
"""Records quotes in an Arrow file until the feed closes: record.py FILE"""

import sys
import time

import numpy
import pyarrow
from market_data import open_channel, quotes

COLUMNS = pyarrow.schema(
    {"sequence": pyarrow.uint64(), "symbol": pyarrow.string(), "bid": pyarrow.int64(), "ask": pyarrow.int64()}
)
count = 0


def add(array: numpy.ndarray) -> None:
    global count
    columns = [array["sequence"].copy(), array["symbol"].astype(str), array["bid"].copy(), array["ask"].copy()]
    file.write_batch(pyarrow.record_batch(columns, COLUMNS))
    count += len(array)


with (
    open_channel() as channel,
    channel.subscriber("record") as subscriber,
    pyarrow.ipc.new_file(sys.argv[1], COLUMNS) as file,
):
    while count == 0 or not subscriber.ended(0):
        subscriber.poll_arrays(quotes.Quote, add, timeout=0.1)
        time.sleep(0.05)  # lets quotes gather: few large batches are faster than many small ones

print(pyarrow.ipc.open_file(sys.argv[1]).read_all().num_rows, "quotes in", sys.argv[1])
