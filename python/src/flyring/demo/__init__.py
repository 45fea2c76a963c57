# SPDX-License-Identifier: Apache-2.0
"""The demo programs (bench/DEMOS.md): ``python -m flyring.demo [counter] ping|pong [options]``.

Start both sides, in any order, in two terminals; the other side may be the Java or the C++ one.
"""


class DemoError(Exception):
    """Ends the demo with status 1 and this text on standard error."""
