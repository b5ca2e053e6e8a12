"""The same expressions over the same samples have the same results as in Prometheus, 3 or 2.

The expressions are in `expressions/`, one per line; a `$NAME` stands for each of its alternatives in turn. Prometheus
supports those in `unsupported.promql`, and from release 3 on those in `quoted.promql`; the agent does not. Results may differ in
five unspecified cases:

- which of several equal elements topk and bottomk keep, for a computed vector;
- the sign of a zero computed from a range with zeros of both signs, which the agent stores as one value;
- logarithms of subnormal numbers and exp() between 709.44 and 709.78, where Go's amd64 assembly is wrong;
- (?i)i in a regular expression: in Python it also matches the Turkish dotless i and I with a dot;
- count_values in a subquery with a label that sorts before one of `by`: Prometheus merges groups.
"""

import itertools
import re
from pathlib import Path

import pytest

from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import parse
from tests.prometheus import OPEN

FOLDER = Path(__file__).parent
_NAME = re.compile(r"\$[A-Z]+")
_CHANGED = re.compile(
    # Expressions with another result in Prometheus 2.42, besides the ends of ranges:
    r"atan2"  # kept the name
    r"|^std(dev|var) .*\(odd\)"  # 0 for a single NaN or infinity
    r"|^(top|bottom)k.*(NaN\)|odd\)|-Inf)"  # kept other ones of several NaN
    r"|path=~\"(two\.lines|\.\*)|\(\.\.\?\)"  # `.` did not match newlines
    r"|(used_bytes|zone_\w+) [!=<>]+ (on|ignoring)"  # results that were filtered out could match twice
    r"|\bhuge\b"  # sums and means with overflow, and without compensation
    r"|^rate\(rate"  # extrapolation to below zero
    r"|^(work_total offset 5|1_000|5m)$"  # not accepted
)


def lines(path):
    """Each line of a file with its names."""
    names = {}
    for line in path.read_text().splitlines():
        if definition := re.fullmatch(r"(\$[A-Z]+) = (.*)", line):
            names[definition[1]] = [one.strip() for one in definition[2].split(" | ")]
        elif line and not line.startswith("# "):
            yield line, names


def expressions(line, names):
    """The line with every combination of its alternatives."""
    used = sorted(set(_NAME.findall(line)))
    for chosen in itertools.product(*(names[name] for name in used)):
        meant = dict(zip(used, chosen, strict=True))
        yield _NAME.sub(lambda name, meant=meant: meant[name[0]], line)


FILES = sorted((FOLDER / "expressions").glob("*.promql"))
UNSUPPORTED = list(lines(FOLDER / "unsupported.promql"))
QUOTED = list(lines(FOLDER / "quoted.promql"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_results_equal_those_of_prometheus(file, both, moments, release, soak):
    """At all times in the long run, else at one that varies with the combination."""
    differences = []
    for line, names in lines(file):
        for index, text in enumerate(expressions(line, names)):
            if release < OPEN and _CHANGED.search(text):
                continue
            chosen = moments if soak else [moments[(index + 3) % len(moments)]]
            differences += both.differences(text, chosen)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(("line", "names"), UNSUPPORTED, ids=[line for line, _ in UNSUPPORTED])
def test_expressions_left_to_prometheus_are_rejected_by_name(line, names, prometheus, moments):
    for text in expressions(line, names):
        prometheus.ask(text, moments[0].time)  # it does not raise
        with pytest.raises(ExpressionError) as caught:
            parse(text)
        assert caught.value.reason == "unsupported"


def test_holt_winters_is_rejected_with_its_new_name():
    with pytest.raises(ExpressionError, match="double_exponential_smoothing") as caught:
        parse("holt_winters(climbing[5m], 0.5, 0.5)")
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize(("line", "names"), QUOTED, ids=[line for line, _ in QUOTED])
def test_names_that_need_quotes_are_rejected(line, names, prometheus, moments, release):
    for text in expressions(line, names):
        if release >= OPEN:
            prometheus.ask(text, moments[0].time)  # it does not raise
        with pytest.raises(ExpressionError) as caught:
            parse(text)
        assert caught.value.reason == "unsupported"


def test_expression_list_is_long_enough():
    assert sum(1 for file in FILES for line in lines(file) for _ in expressions(*line)) > 3000
