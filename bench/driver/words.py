# SPDX-License-Identifier: Apache-2.0
"""The texts around the figures in both reports, as paragraphs without markup."""

from __future__ import annotations

from collections.abc import Mapping

from driver.placement import Classes


def one_line(text: str) -> str:
    return " ".join(text.split())


SUMMARY = """Two processes, each pinned to a core; every byte of every message written and compared. Of each language,
Flyring's best row, beside the best of what else that language has in the same table."""

HOW_TO_READ = (
    """A run is cut into slices. Before and after each slice the same two processes pass a bare cache line back and
forth: the raw line. It tells where the machine has put the two cores, and only slices of one class are compared.""",
    """All contenders of a table take turns, round after round. A figure is the median over rounds, beside it the
smallest and the largest round. A class is shown if a contender has five rounds in it, with all that have three; targets
are judged by figures of five rounds. The ratio is taken slice by slice, to the raw line around it.""",
    """Where rounds come from several starts, each contender was restarted in between: what a JVM's compiler makes
of the same code differs from start to start, by 5 to 10 % of a round trip.""",
    """Means come from slices without a clock in the loop. Percentiles come from other slices with one clock read per
round trip, whose cost stands in the last column and is in every sample; a percentile with fewer than ten
samples above it is not shown.""",
)

AGAINST = one_line("""The working tree and that commit, each with its own contender programs, started together and measured
in turns. Each start gives one ratio, the time of a message here in that of one there; shown are their median and the 95 %
bootstrap interval of that median. Slower, faster: the interval is all above or below 1. Within: it holds 1, and reaches
at most 2 % to each side. Wide: it holds 1, but is wider than that, or there are fewer than ten starts.""")

SAYS_NOT = (
    """How another machine behaves. Placement of the cores, SMT, the hypervisor and the kernel's settings move every
figure; run it on yours.""",
    """What happens when cores are shared: each side has a core to itself here, except where two senders or receivers
share one.""",
    """How long messages wait in an application that is busy with something else. A closed loop never lets a queue
grow; the tables on a schedule do.""",
    """What a message costs beyond being passed: no encoding, no routing, no storage, no network. Contenders that do
more (Chronicle Queue keeps every message; Aeron and iceoryx2 find each other by name) are shown for what they
cost, not for what they give.""",
    """Anything about the maximum and the last nines of one contender: on a virtual machine these are mostly the host
taking the core away, and the raw line has them, too.""",
    """Differences below the spread that is printed beside a figure.""",
)


PLACEMENTS = one_line("""The classes come from the raw lines of this run: their logarithms are cut in two where two means
fit them best, if the medians of the parts lie apart by 15 % and by four times the spread within them; then each part
likewise. A slice is dropped if the two raw lines around it are of different classes, if they differ by more than 15 % and
by more than three times what is usual of that contender, or if a core was 10 % slower than is usual of it and of that
contender, or if something else ran on a core for more than 2 % of the turn (the kernel counts how long a thread waits).""")


def classes(known: Classes) -> list[str]:
    return [f"{c.text}; {100 * c.share:.0f} % of the probes" for c in known.known]


def dropped(reasons: Mapping[str, int], all_: int) -> str:
    why = f" ({', '.join(f'{reason}: {n}' for reason, n in reasons.items())})" if reasons else ""
    return f"{sum(reasons.values())} of {all_} slices dropped{why}."


NO_FIGURE = "No figure: nobody has five rounds in one class of placement."
