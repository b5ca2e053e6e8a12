"""Writes the intervals of a report as CSV."""

import csv
import io
from collections.abc import Mapping
from typing import Any

from plimsoll.text import printable

_COLUMNS = ("strategy", "rule", "start", "end", "worst", "byMissing", "beganBefore", "ongoing")


def as_csv(report: Mapping[str, Any]) -> str:
    """Return one line per interval; flags are 1 or 0, and `worst` is empty without a reading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["namespace", "policy", "node", *_COLUMNS])
    for policy in report["policies"]:
        for node, found in policy["nodes"].items():
            for one in found["intervals"]:
                flags = [int(one.get(name, False)) for name in _COLUMNS[5:]]
                values = [one[name] for name in _COLUMNS[:5]]
                row = [policy["namespace"], policy["name"], node, *values]
                writer.writerow([*map(_cell, row), *flags])
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a value without control characters: tables are shown on terminals."""
    return printable(value) if isinstance(value, str) else value
