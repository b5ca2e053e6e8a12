"""The same expressions over the same samples have the same results as in Prometheus.

The expressions are in `expressions/`, one per line; a `$NAME` stands for each of its alternatives in turn. Prometheus
supports those in `unsupported.promql`, the agent does not. Results may differ in five unspecified cases:

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

FOLDER = Path(__file__).parent
_NAME = re.compile(r"\$[A-Z]+")


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


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_results_equal_those_of_prometheus(file, both, moments, soak):
    """At all times in the long run, else at one that varies with the combination."""
    differences = []
    for line, names in lines(file):
        for index, text in enumerate(expressions(line, names)):
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


def test_expression_list_is_long_enough():
    assert sum(1 for file in FILES for line in lines(file) for _ in expressions(*line)) > 3000
