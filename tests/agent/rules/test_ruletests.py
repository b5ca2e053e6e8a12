"""promtool's unit tests of rules, run by our own evaluation with the same verdicts.

The files have the format of `promtool test rules`, without alerts: those in `ruletests/` and those of the shipped rules.
"""

import glob
import math
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path

import promql_parser
import pytest
import yaml

from agent.rules.groups import file as groups
from agent.rules.promql import labels
from agent.rules.promql.expression import parse
from agent.rules.promql.labels import NAME
from agent.rules.promql.values import Moment
from agent.rules.storage.exposition import MemoryStorage
from plimsoll import strictyaml

ROOT = Path(__file__).parents[3]
OWN = sorted((Path(__file__).parent / "ruletests").glob("*.yaml"))
SHIPPED = sorted((ROOT / "tests/deploy/rules").glob("*.yaml"))

_PLAIN = r"(?:Inf|NaN|[0-9.]+(?:e[+-]?[0-9]+)?)"
_TIMES = rf"(?P<step>[+-]{_PLAIN})?x(?P<more>[0-9]+)"
_ITEM = re.compile(rf"_(?:x(?P<gap>[0-9]+))?|stale|(?P<first>[+-]?{_PLAIN})(?:{_TIMES})?")


def milliseconds(duration):
    if re.fullmatch("0[a-z]*", str(duration)):
        return 0
    # Its parse_duration() reads microseconds as milliseconds.
    return promql_parser.parse(f"a offset {duration}").offset // timedelta(milliseconds=1)


def values(notation):
    """One value per interval in promtool's notation: missing (...), a stale marker (None) or a number."""
    for item in notation.split():
        found = _ITEM.fullmatch(item)
        assert found, f"{item!r} is no value of a series"
        if item.startswith("_"):
            yield from [...] * int(found["gap"] or 1)
        elif item == "stale":
            yield None
        else:
            value, step = float(found["first"]), float(found["step"] or 0)
            for _ in range(int(found["more"] or 0) + 1):
                yield value
                value += step


def series(text):
    """The label set of a series description."""
    if text == "{}":
        return labels.EMPTY
    selector = promql_parser.parse(text)
    name = [(NAME, selector.name)] if selector.name else []
    return labels.make([*name, *((one.name, one.value) for one in selector.matchers.matchers)])


@dataclass
class Case:
    """One test of a file: its input samples, and the rules' results."""

    groups: list
    listed: MemoryStorage = field(default_factory=MemoryStorage)
    before: dict = field(default_factory=dict)
    """The label sets of each rule's last result."""
    step: int = 60_000

    def moment(self, time):
        return Moment(self.listed, time, step=self.step)

    def evaluate(self, time):
        """Evaluate all rules in order; later ones see earlier results."""
        for rule in (rule for group in self.groups for rule in group.rules):
            changes = {**dict(rule.labels), NAME: rule.record}
            found = vector(rule.expression.evaluate(self.moment(time)))
            recorded = {labels.replace(key, changes): value for key, value in found}
            assert len(recorded) == len(found), rule
            for gone in self.before.get(id(rule), {}).keys() - recorded.keys():
                self.listed.add(gone, time, None)
            for key, value in recorded.items():
                self.listed.add(key, time, value)
            self.before[id(rule)] = recorded


def vector(value):
    return [(labels.EMPTY, value)] if isinstance(value, float) else value


def check(file):
    """The differences from the file's expectations, a sentence each."""
    document = yaml.safe_load(file.read_text())
    step = milliseconds(document.get("evaluation_interval", "1m"))
    order = {name: place for place, name in enumerate(document.get("group_eval_order", ()))}
    listed = [
        group
        for pattern in document.get("rule_files", ())
        for name in sorted(glob.glob(str(file.parent / pattern)))  # noqa: PTH207 - patterns with ".."
        for group in read(name)
    ]
    listed.sort(key=lambda group: order.get(group.name, 0))
    for test in document["tests"]:
        for sentence in outcome(test, Case(listed, step=step)):
            yield f"{test.get('name', '')}: {sentence}"


@cache
def read(name):
    found = groups.read(strictyaml.load(Path(name).read_text()))
    assert found.errors == ()
    return found.groups


def outcome(test, case):
    expectations = test.get("promql_expr_test", ())
    every = milliseconds(test.get("interval", "1m"))
    samples = {
        series(one["series"]): list(values(str(one["values"])))
        for one in test.get("input_series", ())
    }
    last = max((milliseconds(one["eval_time"]) for one in expectations), default=0)
    known = -1
    for time in range(0, last + 1, case.step):
        for tick in range(known + 1, time // every + 1):
            for key, marks in samples.items():
                if tick < len(marks) and marks[tick] is not ...:
                    case.listed.add(key, tick * every, marks[tick])
        known = time // every
        case.evaluate(time)
    for one in expectations:
        time = milliseconds(one["eval_time"])
        found = dict(vector(parse(one["expr"]).evaluate(case.moment(time))))
        expected = {series(s["labels"]): float(s["value"]) for s in one.get("exp_samples", ())}
        if not same(found, expected):
            yield f"{one['expr']} at {one['eval_time']} is {found}, not {expected}"


def same(found, expected):
    return found.keys() == expected.keys() and all(
        math.isclose(value, expected[key], rel_tol=1e-9) for key, value in found.items()
    )


@pytest.fixture
def promtool():
    if not (found := shutil.which("promtool")):
        pytest.skip("promtool is not on PATH")

    def run(file):
        argv = [found, "test", "rules", file.name]
        return subprocess.run(argv, cwd=file.parent, capture_output=True, text=True, check=False)

    return run


def named(files):
    return [pytest.param(file, id=file.stem) for file in files]


@pytest.mark.parametrize("file", named([*OWN, *SHIPPED]))
def test_shipped_rules_pass_their_tests(file):
    assert list(check(file)) == []


@pytest.mark.parametrize("file", named(OWN))
def test_promtool_agrees_with_the_rule_tests(file, promtool):
    done = promtool(file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("value: 17", "value: 17.1"),
        ('up{job="c"}\', value: 1', 'up{job="d"}\', value: 1'),
        ("{labels: '{}', value: 180}", ""),
        ("exp_samples: []", "exp_samples: [{labels: a, value: 1}]"),
    ],
)
def test_wrong_expectation_fails_here_and_in_promtool(right, wrong, promtool, tmp_path):
    text = (OWN[0].parent / "notation.yaml").read_text()
    assert right in text
    shutil.copytree(OWN[0].parent / "rules", tmp_path / "rules")
    file = tmp_path / "changed.yaml"
    file.write_text(text.replace(right, wrong, 1))
    assert len(list(check(file))) == 1
    assert promtool(file).returncode == 1
