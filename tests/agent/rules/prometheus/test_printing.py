"""`eval` prints results as promtool does.

Exceptions: strings, which promtool rejects, and empty results, for which it prints an empty line.
"""

import subprocess

import pytest

from agent.rules.promql.expression import parse
from agent.rules.promql.syntax.printer import lines

EXPRESSIONS = [
    "temperature_celsius",
    "sum by (chip) (temperature_celsius)",
    "sum(temperature_celsius)",
    "label_values",
    "odd",
    "huge",
    "waves",
    "1 / 3",
    "1 / 0",
    "1e300 * 1e5",
    "0 - 1e-7",
    "time()",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_output_equals_that_of_promtool(prometheus, moments, text):
    for moment in moments[2:4]:
        time = f"--time={moment.time / 1000:.3f}"
        asked = ["promtool", "query", "instant", time, f"http://{prometheus.address}", text]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        assert sorted(lines(parse(text).evaluate(moment), moment.time)) == sorted(
            done.stdout.splitlines()
        )
