"""The test file: policies, input series, and what policies are expected to decide at which times.

Series are in the notation of `promtool test rules`, such as `0+10x30 _x3 stale`:
https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from plimsoll import strictyaml
from plimsoll.decode import UNREADABLE
from plimsoll.files import userfile
from plimsoll.text import SentenceError, shown

STALE = None
"""A stale marker: the metric is absent from here on."""
MOST_VALUES = 1_000_000
"""Values of one series."""

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?[iI]nf|[nN]a[nN]"
_VALUES = re.compile(
    rf"({_NUMBER})(?:([-+](?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?))?(?:x(\d{{1,7}}))?"
)
_GAP = re.compile(r"_(?:x(\d{1,7}))?")


class TestFileError(SentenceError):
    """A test file cannot be used."""

    __test__ = False


class InputSeries(msgspec.Struct, forbid_unknown_fields=True):
    """A series with its labels, and its values in promtool's notation."""

    series: str
    values: str


class Expectation(msgspec.Struct, forbid_unknown_fields=True):
    """What a policy is expected to decide at a time. Absent expectations are not checked.

    `exp_nodes`: the nodes in violation of `strategy`, of any strategy if that is empty. `exp_reasons`: node → the text that
    kube-scheduler shows. `exp_labels`: node → the labels of this policy.
    """

    eval_time: str
    policy: str
    strategy: str = ""
    exp_nodes: list[str] | None = None
    exp_reasons: dict[str, str] | None = None
    exp_labels: dict[str, dict[str, str]] | None = None


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """One test."""

    input_series: list[InputSeries]
    policy_test: list[Expectation]
    name: str = ""
    interval: str = ""


class TestFile(msgspec.Struct, forbid_unknown_fields=True):
    """A test file. `evaluation_interval` and `stale_after` are as `--step` and `--staleAfter` of `backtest`."""

    __test__ = False

    policy_files: list[str]
    tests: list[Case]
    evaluation_interval: str = "1m"
    stale_after: str = "5m"


def read(name: str) -> TestFile:
    """Return the test file; policy files are relative to it. Raises TestFileError."""
    try:
        text = userfile.read_text(name)
        body: Any = strictyaml.load_json(text)
    except UnicodeDecodeError as error:
        raise TestFileError(f"{name}: not a text file") from error
    except OSError as error:
        raise TestFileError(f"{name}: cannot be read: {error.strerror}") from error
    except strictyaml.MalformedError as error:
        raise TestFileError(f"{name}: invalid YAML: {error}") from error
    try:
        test_file = msgspec.convert(body, TestFile)
    except UNREADABLE as error:
        raise TestFileError(f"{name}: {error}") from error
    test_file.policy_files = [str(Path(name).parent / file) for file in test_file.policy_files]
    return test_file


def values(text: str) -> list[tuple[int, float | None]]:
    """Return (number of the interval, value) pairs; gaps are left out, a stale marker is STALE. Raises ValueError."""
    numbered: list[tuple[int, float | None]] = []
    position = 0
    for item in text.split():
        if (gap := _GAP.fullmatch(item)) is not None:
            position += int(gap[1] or 1)
            continue
        for value in _expanded(item):
            numbered.append((position, value))
            position += 1
            if len(numbered) > MOST_VALUES:
                raise ValueError(f"more than {MOST_VALUES} values")
    return numbered


def _expanded(item: str) -> Iterator[float | None]:
    if item == "stale":
        yield STALE
        return
    match = _VALUES.fullmatch(item)
    if match is None or (match[2] and not match[3]):
        raise ValueError(
            f"not a value: {shown(item)} (write 1, 0+10x30, 5x3, _ or _x3 for no sample, or stale)"
        )
    begin, difference = float(match[1]), float(match[2] or 0)
    for number in range(int(match[3] or 0) + 1):
        yield begin + number * difference if number and not math.isinf(begin) else begin
