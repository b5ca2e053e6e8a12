"""A Prometheus server loaded with the same day of samples, as the reference."""

import math
import shutil
import subprocess
from dataclasses import replace

import pytest

from agent.rules.promql import labels
from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import parse
from agent.rules.promql.labels import NAME
from agent.rules.promql.values import EvaluationError
from tests.prometheus import OPEN, AskedError, Prometheus, running
from tests.prometheus import release as installed


def openmetrics(samples):
    """The samples as promtool's input."""
    for key, marks in samples.items():
        pairs = ",".join(f"{name}={quoted(value)}" for name, value in key if name != NAME)
        series = f"{labels.value(key, NAME)}{{{pairs}}}"
        for time, value in marks:
            yield f"{series} {spelled(value)} {time // 1000}.{time % 1000:03}\n"
    yield "# EOF\n"


def quoted(text):
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


def spelled(value):
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")


@pytest.fixture(scope="session")
def client():
    return Prometheus


@pytest.fixture(scope="session")
def start_prometheus():
    """A context manager that runs Prometheus; tests are skipped if it is not installed."""
    for program in ("prometheus", "promtool"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not on PATH")
    return running


@pytest.fixture(scope="session")
def prometheus(day, moments, start_prometheus, tmp_path_factory):
    """Prometheus with the day in its storage."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "day.txt").write_text("".join(openmetrics(day)))
    subprocess.run(
        [
            *("promtool", "tsdb", "create-blocks-from", "--max-block-duration=48h", "-q"),
            *("openmetrics", folder / "day.txt", folder / "data"),
        ],
        check=True,
        capture_output=True,
    )
    config = {"global": {"evaluation_interval": f"{moments[0].step}ms"}}
    with start_prometheus(folder, config) as connected:
        yield connected


@pytest.fixture(scope="session")
def release(start_prometheus):
    """The major release of Prometheus."""
    return installed()


@pytest.fixture(scope="session")
def moments(moments, release):
    """The evaluation times; before Prometheus 3, ranges are closed."""
    return [replace(moment, closed=release < OPEN) for moment in moments]


@pytest.fixture(scope="session")
def recent(release):
    """Random expressions may have a result that changed with Prometheus 3."""
    if release < OPEN:
        pytest.skip(f"Prometheus {release} is too old")


class Both:
    """Prometheus and our own evaluation over the same samples."""

    def __init__(self, prometheus):
        self._prometheus = prometheus

    def differences(self, text, moments):
        """Describe differences between the results. A rejection counts as a result, for any reason."""
        try:
            expression = parse(text)
        except ExpressionError as error:
            expression = error
        for moment in moments:
            expected, found = self._theirs(text, moment), self._ours(expression, moment)
            if not alike(found, expected):
                yield f"{text}\nat {moment.time}\n{difference(expected, found)}"

    def _theirs(self, text, moment):
        try:
            return self._prometheus.ask(text, moment.time)
        except AskedError as error:
            return error

    def _ours(self, expression, moment):
        if isinstance(expression, ExpressionError):
            return expression
        try:
            value = expression.evaluate(moment)
        except EvaluationError as error:
            return error
        if isinstance(value, list):
            found = dict(value)
            assert len(found) == len(value), f"a label set twice: {value}"
            return found
        return value


@pytest.fixture
def both(prometheus):
    return Both(prometheus)


def alike(found, expected):
    """Whether two results are equal, to 1e-9 of a value."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            alike(value, expected[key]) for key, value in found.items()
        )
    if isinstance(found, float) and isinstance(expected, float):
        nan = math.isnan(found) and math.isnan(expected)
        return nan or math.isclose(found, expected, rel_tol=1e-9)
    if isinstance(found, Exception):
        return isinstance(expected, Exception)
    return isinstance(found, str) and found == expected


def difference(expected, found):
    """Describe the differences of two results."""
    if not (isinstance(expected, dict) and isinstance(found, dict)):
        return f"  {expected!r}\n  but {found!r}"
    keys = sorted(expected.keys() | found.keys())
    return "\n".join(
        f"  {dict(key)}: {expected.get(key)} but {found.get(key)}"
        for key in keys
        if not alike(found.get(key), expected.get(key))
    )
