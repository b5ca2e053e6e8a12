"""Compares another checkout with this one: CPU of requests and decisions, memory, and start, by turns on the same machine.

Runs `decide`, `startup` and `extender` of both checkouts at a small size, each with the code and the virtual environment
(`.venv`) of its own checkout. Prints one JSON line per figure: the least of all rounds for both, and the quotient. CPU time and
memory are reliable on a busy machine; latencies are left out, as they are not.

    python -P bench/compare.py --base ../other [--rounds 2] [--only decide,startup,extender]
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import commandline
from bench.commandline import Line

HERE = str(Path(__file__).resolve().parent.parent)
BENCHMARKS: Mapping[str, Sequence[str]] = {
    "decide": ("--repeats=10",),
    "startup": ("--nodes=2000", "--repeats=3"),
    "extender": ("--nodes=1500", "--requests=120", "--seconds=2"),
}
"""Programs by name, with their arguments."""
FIGURES = ("cpu_ms", "cpu_p50_ms", "core_percent", "peak_rss_mb", "rss_mb")
_NAMES = ("benchmark", "case", "what", "verb", "program", "nodes", "groups", "changing_percent")
"""What tells the lines of a benchmark apart."""

Figures = dict[tuple[object, ...], float]
"""The figures of a checkout: by name, after the names of their line."""


def lines_of(checkout: Path, name: str) -> list[Line]:
    """Run a benchmark of a checkout and return its lines. Raises CalledProcessError if it fails."""
    program = [str(checkout / ".venv/bin/python"), "-P", str(checkout / f"bench/{name}.py")]
    done = subprocess.run(
        [*program, *BENCHMARKS[name]], cwd=checkout, stdout=subprocess.PIPE, check=True
    )
    return [json.loads(text) for text in done.stdout.splitlines()]


def keep_least(figures: Figures, lines: Sequence[Line]) -> None:
    """Add the figures of lines, or lower those that are there."""
    for line in lines:
        case = tuple(line.get(name) for name in _NAMES)
        for name in FIGURES:
            if name in line:
                figures[*case, name] = min(line[name], figures.get((*case, name), line[name]))


def measured(
    base: str, head: str = HERE, rounds: int = 2, only: tuple[str, ...] = tuple(BENCHMARKS)
) -> Iterator[Line]:
    """Yield a line per figure. `base` and `head`: folders of checkouts."""
    checkouts = {"base": Path(base).absolute(), "head": Path(head)}
    found: dict[str, Figures] = {side: {} for side in checkouts}
    for _ in range(rounds):
        for name in only:
            for side, checkout in checkouts.items():
                keep_least(found[side], lines_of(checkout, name))
    for key, before in found["base"].items():
        if after := found["head"].get(key):
            *case, figure = key
            named = {k: v for k, v in zip(_NAMES, case, strict=True) if v is not None}
            ratio = round(after / before, 3) if before else None
            yield {**named, "figure": figure, "base": before, "head": after, "ratio": ratio}


if __name__ == "__main__":
    commandline.run(measured)
