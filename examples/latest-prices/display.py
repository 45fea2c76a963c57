# SPDX-License-Identifier: Apache-2.0
"""Shows all prices as a pandas DataFrame whenever any of them has changed, at most each SECONDS, until all are at
update LAST: display.py SECONDS LAST"""

import sys
import time

from latest_prices import open_table


def display(seconds: float, last: int) -> None:
    version = 0
    with open_table() as table:
        while True:
            version = table.wait_changed(version)  # sleeps until any key has changed
            frame = table.to_pandas().rename_axis("symbol").reset_index().sort_values("symbol")
            print(frame.drop(columns="version").to_string(index=False), flush=True)
            if frame["number"].min() >= last:
                return
            time.sleep(seconds)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Use display.py SECONDS LAST.")
    display(float(sys.argv[1]), int(sys.argv[2]))
