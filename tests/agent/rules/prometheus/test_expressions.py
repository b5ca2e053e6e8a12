"""The same samples and the same expressions, asked of Prometheus and of us: the answers are the same.

The expressions are in `expressions/`, one on each line; a `$NAME` stands for each of its alternatives in turn. Those in
`unsupported.promql` Prometheus computes and we do not. Answers may differ in five things that are nobody's promise:

- which of equals topk and bottomk leave of a vector that was computed, not selected;
- the sign of a zero that was computed from a range with zeros of both signs, which are one value to us;
- logarithms of subnormal numbers and exp() between 709.44 and 709.78, where Go's assembly for amd64 is wrong;
- (?i)i in a regular expression, which in Python's also means the Turkish letters dotless i and I with a dot;
- count_values in a subquery, with a label that sorts before one of `by`, where Prometheus puts groups together.
"""

import itertools
import re
from pathlib import Path

import pytest

from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import parse

FOLDER = Path(__file__).parent
_NAME = re.compile(r"\$[A-Z]+")


def lines(*paths):
    """Each line of the files with what its names stand for."""
    for path in paths:
        names = {}
        for line in path.read_text().splitlines():
            if definition := re.fullmatch(r"(\$[A-Z]+) = (.*)", line):
                names[definition[1]] = [one.strip() for one in definition[2].split(" | ")]
            elif line and not line.startswith("# "):
                yield pytest.param(line, names, id=f"{path.stem}: {line}")


def expressions(line, names):
    """The line with every combination of its alternatives."""
    used = sorted(set(_NAME.findall(line)))
    for chosen in itertools.product(*(names[name] for name in used)):
        meant = dict(zip(used, chosen, strict=True))
        yield _NAME.sub(lambda name, meant=meant: meant[name[0]], line)


ALL = list(lines(*sorted((FOLDER / "expressions").glob("*.promql"))))
UNSUPPORTED = list(lines(FOLDER / "unsupported.promql"))


@pytest.mark.parametrize(("line", "names"), ALL)
def test_results_equal_those_of_prometheus(line, names, both, moments, soak):
    """At all times in the long run, else at two that change from one combination to the next."""
    differences = []
    for index, text in enumerate(expressions(line, names)):
        chosen = moments if soak else [moments[(index + skip) % len(moments)] for skip in (3, 5)]
        differences += both.differences(text, chosen)
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(("line", "names"), UNSUPPORTED)
def test_expressions_left_to_prometheus_are_rejected_by_name(line, names, prometheus, moments):
    for text in expressions(line, names):
        prometheus.ask(text, moments[0].time)  # which does not raise
        with pytest.raises(ExpressionError) as caught:
            parse(text)
        assert caught.value.reason == "unsupported"


def test_expression_list_is_long_enough():
    assert sum(1 for line in ALL for _ in expressions(*line.values)) > 3000
