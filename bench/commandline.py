"""The command line of a benchmark: a flag for each of its parameters, and a JSON line for each of its cases."""

import argparse
import asyncio
import inspect
import json
import sys
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.measure import judged
from plimsoll import logs

Line = Mapping[str, Any]
"""A case's figures by name; `aim`, if present, is what `bench.measure.judged` compares them with."""


def run(
    lines: Callable[..., Iterable[Line] | AsyncIterable[Line]], argv: Sequence[str] | None = None
) -> None:
    """Call a benchmark with the flags of the command line, or of `argv`, and print each line with its verdict."""
    cases = lines(**given(lines, argv))
    if isinstance(cases, AsyncIterable):
        asyncio.run(_print_all(cases))
        return
    for line in cases:
        _print(line)


def given(function: Callable[..., object], argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Return what the flags of the command line, or of `argv`, give for each parameter of a program's main function.

    The parameter `warm_up=15.0` has the flag `--warm-up` with a number; a tuple, values with commas between them; False,
    a switch; a parameter without a default is required. The module's docstring is the help.
    """
    logs.setup("error")
    return vars(_parser(function).parse_args(argv))


def _parser(function: Callable[..., object]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=sys.modules[function.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, parameter in inspect.signature(function).parameters.items():
        flag, default = f"--{name.replace('_', '-')}", parameter.default
        if default is inspect.Parameter.empty:
            parser.add_argument(flag, required=True)
        elif default is False:
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, default=default, type=_type(default), help=_help(default))
    return parser


def _type(default: object) -> Callable[[str], Any]:
    if isinstance(default, tuple):
        item = type(default[0])
        return lambda text: tuple(map(item, text.split(",")))
    return str if default is None else type(default)


def _help(default: object) -> str:
    text = ",".join(map(str, default)) if isinstance(default, tuple) else default
    return "" if default is None else f"default {text}"


async def _print_all(lines: AsyncIterable[Line]) -> None:
    async for line in lines:
        _print(line)


def _print(line: Line) -> None:
    figures = {name: value for name, value in line.items() if name != "aim"}
    print(json.dumps(judged(figures, line.get("aim", ""))), flush=True)
