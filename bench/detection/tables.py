"""The lines of `bench/detection/run.py` as the tables of docs/placement.md, which are between two comments of a name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.commandline import Line
from docs import figures

_DETECTION = {
    "metric": "metric",
    "detector": "detector",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "false_per_1000_node_days": "false per 1,000 node-days",
    "readings_to_detection": "readings to detection",
}
_MEMORY = {
    "threshold": "threshold",
    "repeat_failures": "repeat failures",
    "avoided": "avoided",
    "gpu_days_given_up": "GPU-days given up",
    "share_of_gpu_days_percent": "share of all, %",
}


def into(page: str, lines: Sequence[Line]) -> str:
    """Return the page with the tables of these lines; a table without lines stays as it is."""
    for name, columns in (("detection", _DETECTION), ("memory", _MEMORY)):
        found = [line for line in lines if line["benchmark"] == name]
        if found:
            page = figures.into(page, _table(found, columns), name)
    return page


def _table(found: Sequence[Line], columns: Mapping[str, str]) -> Iterator[str]:
    yield _row(columns.values())
    yield "|" + "---|" * len(columns)
    for line in found:
        yield _row(line[key] for key in columns)


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
