# SPDX-License-Identifier: Apache-2.0
"""``help`` and type stubs of the public methods, and the program that ``./dev lint`` gives to the type checkers."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flyring
import typed_program
from conftest import SPEC
from flyring import _core, sbe

CLASSES = [
    flyring.Channel,
    flyring.Publisher,
    flyring.Subscriber,
    flyring.LossySubscriber,
    flyring.WaitSet,
    flyring.Message,
    flyring.Claim,
    flyring.Counters,
    flyring.Counter,
    flyring.Table,
    flyring.TableWriter,
    flyring.Entry,
    flyring.Journal,
    flyring.JournalWriter,
    flyring.JournalReader,
    flyring.JournalConsumer,
    sbe.Schema,
    sbe.Message,
    sbe.Group,
]
Parameters = list[tuple[str, bool, Any]]


def public_methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield "dispatch", sbe.dispatch
    for cls in CLASSES:
        for name in dir(cls):
            if (
                not name.startswith("_")
                and callable(method := getattr(cls, name, None))
                and not inspect.isclass(method)
            ):
                yield f"{cls.__name__}.{name}", method


METHODS = dict(public_methods())


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_public_method_has_a_signature_and_a_text(method: Callable[..., Any]) -> None:
    assert "args" not in inspect.signature(method).parameters
    assert inspect.getdoc(method)


def stubs() -> Iterator[tuple[str, list[Parameters]]]:
    """Yields ``Class.method`` of _core.pyi and its parameters (name, positional only, default), a list per overload."""
    text = Path(_core.__file__).with_name("_core.pyi").read_text()
    found: dict[str, list[Parameters]] = {}
    for node in ast.parse(text).body:
        functions = [(f"{node.name}.", one) for one in node.body] if isinstance(node, ast.ClassDef) else [("", node)]
        for prefix, function in functions:
            is_property = isinstance(function, ast.FunctionDef) and any(
                isinstance(one, ast.Name) and one.id == "property" for one in function.decorator_list
            )
            if isinstance(function, ast.FunctionDef) and not function.name.startswith("_") and not is_property:
                found.setdefault(prefix + function.name, []).append(parameters_of(function))
    yield from found.items()


def parameters_of(function: ast.FunctionDef) -> Parameters:
    arguments = function.args
    names = [*arguments.posonlyargs, *arguments.args]
    defaults = [inspect.Parameter.empty] * (len(names) - len(arguments.defaults))
    defaults += [ast.literal_eval(one) for one in arguments.defaults]
    every = [(one.arg, one in arguments.posonlyargs, default) for one, default in zip(names, defaults, strict=True)]
    return [one for one in every if one[0] not in ("self", "cls")]


STUBS = {name: found for name, found in stubs() if not name.startswith(("Memory.", "File.", "Held.", "JournalWalk."))}
INTERNAL = {"crc32c", "xxhash64", "file_system_type", "close_all", "register_waker"}


@pytest.mark.parametrize("name", [name for name in STUBS if name not in INTERNAL])
def test_the_stub_is_what_the_core_says(name: str) -> None:
    owner: Any = _core
    for part in ("Subscriber." + name[7:] if name.startswith("Reader.") else name).split("."):
        owner = getattr(owner, part)
    actual = [
        (one.name, one.kind is one.POSITIONAL_ONLY, one.default)
        for one in inspect.signature(owner).parameters.values()
        if one.name != "self"
    ]
    expected = [
        [(n, p, a[2] if d is ... and at < len(actual) else d) for at, (n, p, d) in enumerate(one) for a in [actual[at]]]
        for one in STUBS[name]
        if len(one) == len(actual)
    ]
    assert actual in expected


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # like the README's programs, it does not close
def test_the_typed_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_program.generated("typed") == 1 + 1 + 7 + 3
    assert typed_program.jobs("jobs") == 1 + 1 + 1
    assert typed_program.table("table") == 4 + 16 + 2
    assert typed_program.journal("journal") == 2 + 3
    assert typed_program.at_run_time("prices", str(SPEC / "sbe" / "prices.xml")) == ["FLYR"]
    assert "EURUSD 1 None feed" in capsys.readouterr().out
