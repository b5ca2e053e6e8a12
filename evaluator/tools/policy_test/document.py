"""The test file: policies, input series, and what policies are expected to decide at which times."""

from pathlib import Path
from typing import Any

import msgspec

from plimsoll import strictyaml
from plimsoll.decode import UNREADABLE
from plimsoll.files import userfile
from plimsoll.text import SentenceError


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
        found = msgspec.convert(body, TestFile)
    except UNREADABLE as error:
        raise TestFileError(f"{name}: {error}") from error
    found.policy_files = [str(Path(name).parent / file) for file in found.policy_files]
    return found
