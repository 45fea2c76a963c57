# SPDX-License-Identifier: Apache-2.0
"""./dev bench: measures Flyring beside other libraries on this machine (README.md)."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent))

from driver import against, comparison, environment, install, ratios
from driver.beside import Beside
from driver.contenders import ROOT, Catalogue, Contender, DataError, Table, load, matches
from driver.progress import Progress, minutes
from driver.raw import Recorder, Results
from driver.report import write_report
from driver.run import Runner, Settings, estimate
from driver.sides import Failure

Plan = list[tuple[Table, list[Contender]]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description="Measures Flyring beside what else there is; bench/README.md."
    )
    parser.add_argument(
        "--quick", action="store_true", help="Flyring and the floors, eight tables, under three minutes"
    )
    parser.add_argument("--peers", action="store_true", help="install other libraries and measure them, too")
    parser.add_argument("--list", action="store_true", help="show the tables and their contenders; measure nothing")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PATTERN", help="contenders, as in 'cpp/*' '*/aeron-*'"
    )
    parser.add_argument("--tables", nargs="+", default=[], metavar="PATTERN", help="tables, as in 'rtt-*'")
    parser.add_argument("--rounds", type=positive, metavar="N", help="instead of each table's own number")
    parser.add_argument(
        "--starts", type=positive, metavar="N", help="of each contender, instead of the table's own number"
    )
    parser.add_argument("--time-slice", type=float, metavar="S", help="seconds (0.15; 0.1 with --quick)")
    parser.add_argument("--cores", metavar="A,B", help="of the client or producer, and of the server or consumer")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="this tree and that commit, alternately; exit status 1 if this one is slower",
    )
    parser.add_argument(
        "--minutes", type=float, default=8.0, metavar="M", help="that a row of --against may take, at most (8)"
    )
    parser.add_argument(
        "--with",
        dest="beside",
        metavar="COMMAND",
        help="with --against: runs meanwhile, and sees this tree's channels only, such as 'flyring top --count 9999'",
    )
    parser.add_argument("--save", action="store_true", help="into bench/results, to be committed")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the results go (build/bench-results/DATE-CPU)")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write the report of a run again; measure nothing")
    parser.add_argument("--page", action="store_true", help="also report.html with the targets, and PNG pictures")
    parser.add_argument("--curve", action="store_true", help="draw the percentiles in the terminal, too")
    return parser.parse_args()


def plan(catalogue: Catalogue, words: argparse.Namespace) -> Plan:
    """Returns the tables, and the contenders that each asks for, whether or not these can take part."""
    tables = [t for t in catalogue.tables.values() if matches(t.name, words.tables) or not words.tables and not t.asked]
    if words.quick and not words.tables:
        tables = [t for t in tables if t.quick]
    found = []
    for table in tables:
        quick = words.quick and bool(table.quick) and not words.only
        contenders = [c for c in catalogue.of_table(table, quick) if not words.only or matches(c.id, words.only)]
        if contenders:
            found.append((table, contenders))
    if not found:
        stop("nothing matches; ./dev bench --list shows what there is")
    return found


def show(planned: Plan, installer: install.Installer) -> None:
    for table, contenders in planned:
        print(f"\n{table.name}: {table.what}")
        for contender in contenders:
            why = table_state(table, contender, installer)
            state = "" if why is None else f"   [{why[0]}: {why[1]}]"
            print(f"  {contender.id:<34}{contender.label}: {contender.title}{state}")


def table_state(table: Table, contender: Contender, installer: install.Installer) -> tuple[str, str] | None:
    """Returns state and reason if a contender is not measured in this table; None if it is."""
    cannot = contender.cannot(table)
    if cannot is not None:
        return "cannot", cannot
    if contender.group == "peers" and not installer.peers:
        return "left out", "other libraries are measured with ./dev bench --peers"
    return installer.missing(contender)


def main() -> int:
    words = arguments()
    try:
        catalogue = load()
    except DataError as error:
        stop(str(error))
    if words.report:
        if not list(words.report.glob("run.json*")):
            stop(f"{words.report} holds no run")
        results = Results(words.report)
        print(write_report(results, words.page, words.curve))
        if "against" not in results.run:
            return 0
        found = comparison.of(results)
        print("\n".join(comparison.lines(results, found)))
        return comparison.status(found)
    if words.beside and not words.against:
        stop("--with needs --against")
    if words.against:
        return compare(catalogue, words)
    planned = plan(catalogue, words)
    installer = install.Installer(catalogue, words.peers)
    if words.list:
        show(planned, installer)
        return 0
    cores = two(words.cores) if words.cores else environment.two_cores()
    if cores is None:
        stop("two cores are needed")
    installer.prepare(
        {c.id: c for t, cs in planned for c in cs if not c.cannot(t) and (words.peers or c.group != "peers")}.values()
    )
    return measure(
        planned,
        installer,
        Settings(cores, words.time_slice or (0.1 if words.quick else 0.15), words.rounds, words.quick, words.starts),
        words,
    )


def compare(catalogue: Catalogue, words: argparse.Namespace) -> int:
    """Runs --against. Returns 0: nothing is slower, 1: a row is slower, 3: a row has no figure."""
    cores = two(words.cores) if words.cores else environment.two_cores()
    if cores is None:
        stop("two cores are needed")
    planned = against.wanted(catalogue, words.tables, words.only)
    if not planned:
        stop("nothing of Flyring's matches; ./dev bench --list shows what there is")
    installer = install.Installer(catalogue, peers=False)
    try:
        other = against.checkout(words.against)
        installer.prepare({c.id: c for _, cs in planned for c in cs}.values())
        both = [c.id for _, cs in planned for c in cs if other.contender(c.id) is not None]
        broken = other.build(list(dict.fromkeys(both)))
    except (install.BuildError, DataError) as error:
        stop(str(error))
    settings = Settings(cores, words.time_slice or against.TIME_SLICE, None, False, words.starts)
    recorder = new_recorder(settings, words)
    rows: list[against.Row] = []
    for table, contenders in planned:
        recorder.table(table)
        for contender in contenders:
            there = other.contender(contender.id)
            why = installer.missing(contender)
            if there is None:
                why = "cannot", f"{other.commit[:10]} has no such contender"
            elif why is None and there.cannot(table):
                why = "cannot", f"{other.commit[:10]}: {there.cannot(table)}"
            elif why is None and (failed := [broken[p.build] for p in there.programs if p.build in broken]):
                why = "failed", f"{other.commit[:10]}: {failed[0]}"
            recorder.contender(contender)
            if why is not None or there is None:
                recorder.left_out(table.name, contender.id, *(why or ("", "")))
                continue
            recorder.contender(there)
            rows.append(against.Row(table, contender, there))
    recorder.run["against"] = {
        "commit": other.commit,
        "subject": other.subject,
        "rows": [{"table": r.table.name, "here": r.here.id, "there": r.there.id} for r in rows],
    } | ({"with": words.beside} if words.beside else {})
    most = 60 * words.minutes * len(rows)
    print(f"{len(rows)} rows, at most {minutes(most)} minutes", file=sys.stderr)
    progress = Progress(most)
    runner = against.Against(
        settings,
        recorder,
        progress,
        install.fill_in,
        install.environment(),
        seconds=60 * words.minutes,
        starts=words.starts,
        wide=ratios.WANTED,
    )
    try:
        with contextlib.ExitStack() as stack:
            if words.beside:
                log = recorder.folder / "with.log"
                runner.beside = stack.enter_context(Beside(words.beside, install.environment(), log))
            interrupted = until_stopped(lambda: runner.rows(rows), recorder, progress)
    except Failure as failure:
        stop(str(failure))
    results = Results(recorder.folder)
    print(write_report(results, words.page, words.curve))
    found = comparison.of(results)
    print("\n".join(comparison.lines(results, found)))
    return 130 if interrupted else comparison.status(found)


def measure(planned: Plan, installer: install.Installer, settings: Settings, words: argparse.Namespace) -> int:
    recorder = new_recorder(settings, words)
    runnable: Plan = []
    for table, contenders in planned:
        recorder.table(table)
        able = []
        for contender in contenders:
            recorder.contender(contender)
            why = table_state(table, contender, installer)
            if why is None:
                able.append(contender)
            else:
                recorder.left_out(table.name, contender.id, *why)
        runnable.append((table, able))
    seconds = sum(estimate(t, cs, settings) for t, cs in runnable)
    count = sum(len(cs) for _, cs in runnable)
    where = f"cores {settings.cores[0]} and {settings.cores[1]}"
    print(f"{len(runnable)} tables, {count} measurements on {where}: about {minutes(seconds)} minutes", file=sys.stderr)
    progress = Progress(seconds)
    runner = Runner(settings, recorder, progress, install.fill_in, install.environment())

    def all_tables() -> None:
        for table, able in runnable:
            if able:
                runner.table(table, able)

    interrupted = until_stopped(all_tables, recorder, progress)
    print(write_report(Results(recorder.folder), words.page, words.curve))
    if words.save and not interrupted:  # a run that is committed stays below 1 MB
        shutil.rmtree(recorder.folder / "histograms")
    return 130 if interrupted else 0


def new_recorder(settings: Settings, words: argparse.Namespace) -> Recorder:
    about = environment.collect(settings.cores, ["./dev", "bench", *sys.argv[1:]])
    if about["busy_before"] > environment.BUSY:
        others = f"others use {100 * about['busy_before']:.0f} % of the two cores"
        if words.save:
            stop(
                f"{others}, and what is to be committed is measured on idle ones. End it (top shows who), or leave --save"
            )
        print(f"careful: {others}", file=sys.stderr)
    folder = words.out or free(
        ROOT / ("bench/results" if words.save else "build/bench-results") / environment.slug(about)
    )
    if folder.exists():
        stop(f"{folder} is there already")
    return Recorder(
        folder,
        about,
        {"cores": settings.cores, "time_slice": settings.time_slice, "quick": settings.quick, "peers": words.peers},
    )


def until_stopped(action: Callable[[], None], recorder: Recorder, progress: Progress) -> bool:
    """Runs the action. Returns whether Ctrl-C stopped it; the measurements so far are kept."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        action()
    except KeyboardInterrupt:
        progress.say("stopped; what was measured is kept and reported")
        recorder.run["interrupted"] = True
        return True
    finally:
        progress.end()
        recorder.close()
    return False


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def two(text: str) -> tuple[int, int]:
    try:
        first, second = (int(word) for word in text.split(","))
    except ValueError:
        stop("--cores is two numbers: 2,3")
    return first, second


def free(folder: Path) -> Path:
    """Returns the folder, or the first numbered variant that does not exist yet."""
    names: Sequence[Path] = [folder, *(folder.with_name(f"{folder.name}-{n}") for n in range(2, 1000))]
    return next(f for f in names if not f.exists())


def stop(text: str) -> NoReturn:
    print(f"./dev bench: {text}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main())
