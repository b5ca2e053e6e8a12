"""Expressions with random typos: those that the agent accepts, Prometheus accepts with the same meaning.

Without `+`: the parser drops a unary plus even before a range, where Prometheus rejects it.
"""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.expression import parse

RIGHT = (
    'sum by (cpu) (rate(work_total{cpu=~"0|1",mode!="idle"}[5m] offset 1m)) > bool 0.5',
    "used_bytes * on (zone) group_left (team) zone_limit",
    "-score ^ 2 * 3 and ignoring (even) rank or vector(time())",
    "max_over_time(rate(work_total[1m])[5m:30s] offset -1m)",
    'label_replace(work_total, "core", "$1", "cpu", `(.*)`)',
    'histogram_quantile(0.9, sum without (job) (seconds_bucket{job=~"good|zero"})) unless on () absent(nothing)',
    "topk(2, temperature_celsius) == 1e3 / (0x1f - .5) * Inf atan2 NaN",
    'count_values without (zone) ("value", {__name__=~"rank|score", zone!~""})',
    "quantile_over_time(0.5, flag[1h30m]) # as it should be",
    "clamp(round(waves, 0.1), -1, 1) <= 2 != bool 3",
)
# Wrong places, wrong case, and experimental syntax.
STRANGE = (
    *("BY", "Sum", "OFFSET", "oFfSeT", "AND", "Or", "UNLESS", "BOOL", "inf", "nan", "iNf", "ON", "GROUP_LEFT"),
    *("by", "on", "offset", "bool", "sum", "rate", "without", "group_right", "ignoring", "and", "start", "end"),
    *("(", ")", "{", "}", "[", "]", ",", ":", "=", "!=", "=~", "!~", "==", "<", ">", "-", "*", "/", "^"),
    *("5m", "1h5m", "5m1h", "0s", "-5m", "1.5m", "5", "0", "1e2", "0b1", "017", "08", "1_0", "1.2.3", "1e", "0x", "9m9"),
    *('"a"', "''", "`a`", '"\\q"', "a:b", ":a", "a.b", "__name__", "le", "1a", "_", "@", "!", "~", "|", "$", "#", ";", "\\"),
    *("fill", "limitk(1, ", "smoothed", "info(", "sort(", "step()", "or=", "é", "\u00a0", "\n", "\t", "\r", "\x00", "  "),
)  # fmt: skip
_TOKEN = re.compile(
    r"""\s+|"[^"]*"|'[^']*'|`[^`]*`|#.*|[a-zA-Z_:][\w:]*|[0-9.]\w*|[=!<>]=|[=!]~|."""
)


@st.composite
def mistyped(draw):
    tokens = _TOKEN.findall(draw(st.sampled_from(RIGHT)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(tokens) - 1))
        other = draw(st.sampled_from(STRANGE) | st.sampled_from(tokens))
        match draw(st.sampled_from(["drop", "replace", "insert", "swap"])):
            case "drop" if len(tokens) > 1:
                del tokens[place]
            case "replace":
                tokens[place] = other
            case "insert":
                tokens.insert(place, other)
            case _:
                tokens[place - 1], tokens[place] = tokens[place], tokens[place - 1]
    return "".join(tokens)


@pytest.mark.usefixtures("recent")
def test_random_typos_are_rejected_as_by_prometheus(both, moments, soak):
    @settings(
        max_examples=50_000 if soak else 130,
        suppress_health_check=list(HealthCheck),
        derandomize=not soak,
    )
    @given(mistyped())
    def compare(text):
        try:
            parse(text)
        except ExpressionError:
            return  # the parser rejects `01e2`; rejecting too much does no harm
        assert list(both.differences(text, moments[2:3])) == []

    compare()
