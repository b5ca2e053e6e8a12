"""Each event is one line that logfmt and JSON parsers read back exactly."""

import io
import json
import logging
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll import logs
from plimsoll.logs import values as logvalues
from plimsoll.logs.values import LONGEST, LONGEST_MESSAGE, LONGEST_TRACE

LIBRARY = "aiohttp.access"
SPLIT = 16 << 10
"""Bytes of a line that container runtimes split."""
HOSTILE = st.one_of(
    st.text(st.characters(codec=None), max_size=60),  # any code point, including lone surrogates
    st.text(' "=\\\n\r\t\0\x1b\x7f\x85\xa0\u2028\u2029\u202e\ud800abc,{}', max_size=60),
)
VALUES = st.one_of(
    HOSTILE,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=20),
    st.lists(HOSTILE, max_size=3),
)
EXAMPLES = (
    'a" level=error msg="forged',
    'a\\" level=error msg=\\"forged',
    "a\n{}",
    "\\",
    "",
    "%s %(x)s {x}",
    "x" * 5_000_000,
    "\ud83d" * 5_000,
    "\U000e0001" * 5_000,
)


def each_example(test):
    for text in EXAMPLES:
        test = example(text)(test)
    return test


class Lines:
    """Logging as in a program, with its lines in memory."""

    def __init__(self, fmt, read):
        logs.setup("debug", fmt)
        self._out = io.BytesIO()
        logging.getLogger().handlers[0].setStream(io.TextIOWrapper(self._out))
        self._read = read
        self.ours, self.theirs = logs.get("test"), logging.getLogger(LIBRARY)

    def one(self):
        """Parse the one line logged since."""
        text = self._out.getvalue().decode()
        self._out.seek(0)
        self._out.truncate()
        assert text.endswith("\n")
        line = text[:-1]
        assert line.isprintable(), "no line end, and no terminal or bidirectional control character"
        assert len(line.encode()) < SPLIT
        found = self._read(line)
        assert found.pop("ts")
        "".join(map(str, found.values())).encode()  # no lone surrogates: strict parsers reject them
        return found


@pytest.fixture(scope="module", params=["logfmt", "json"])
def lines(request, read_logfmt):
    return Lines(request.param, {"logfmt": read_logfmt, "json": json.loads}[request.param])


@given(HOSTILE)
@each_example
def test_value_of_any_text_stays_one_value_on_one_line(lines, text):
    lines.ours.info("Filtered nodes for %s", text, pod=text, policy="p")
    found = lines.one()
    assert found.keys() == {"level", "msg", "pod", "policy"}
    assert (found["level"], found["policy"]) == ("info", "p")
    assert found["msg"].startswith("Filtered nodes for ")


@given(HOSTILE)
@each_example
def test_library_message_of_any_text_stays_on_one_line(lines, text):
    lines.theirs.warning("lost %s", text)
    found = lines.one()
    assert found.keys() == {"level", "msg"}
    assert found["level"] == "warning"


@given(HOSTILE)
@each_example
def test_foreign_text_is_not_interpolated(lines, text):
    """A whole foreign message, such as a Prometheus error with a percent sign."""
    lines.ours.warning(text or "-", source="prometheus")
    assert lines.one().keys() == {"level", "msg", "source"}


@given(HOSTILE)
@each_example
def test_error_with_its_traceback_is_one_line(lines, text):
    try:
        raise ValueError(text)
    except ValueError:
        lines.ours.exception("a request failed", path=text)
    found = lines.one()
    assert found.keys() == {"level", "msg", "path", "exception"}
    assert "Traceback (most recent call last)" in found["exception"]
    assert len(found["exception"]) < LONGEST_TRACE + 100


@given(VALUES)
@example(float("nan"))
@example(float("inf"))
def test_any_value_can_be_logged_and_parsed(lines, value):
    lines.ours.info("m", value=value, more="x")
    found = lines.one()
    assert found.keys() == {"level", "msg", "value", "more"}
    json.dumps(found, allow_nan=False)


def test_huge_integer_is_logged_in_hexadecimal():
    assert logvalues.plain(10**6000).startswith("0x")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=LONGEST // 12))
@example("x" * LONGEST)
def test_short_text_is_unchanged(text):
    assert logvalues.plain(text) == text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=LONGEST // 12))
def test_printable_text_is_parsed_back_in_both_formats(lines, text):
    lines.ours.info("m", pod=text)
    assert lines.one()["pod"] == text


@given(st.integers(min_value=LONGEST + 1, max_value=3_000_000))
def test_long_value_is_cut_and_marked(lines, length):
    lines.ours.info("m", pod="x" * length)
    assert lines.one()["pod"] == f"{'x' * LONGEST} ... {length - LONGEST} more characters ... "


def test_messages_are_cut_later_than_values_and_traces_keep_their_end(lines):
    lines.ours.info("y" * LONGEST_MESSAGE)
    assert lines.one()["msg"] == "y" * LONGEST_MESSAGE
    trace = "begin" + "z" * LONGEST_TRACE + "end"
    assert logvalues.trace(trace).startswith("beginz")
    assert logvalues.trace(trace).endswith("zend")
    assert len(logvalues.trace(trace)) < LONGEST_TRACE + 60


@pytest.mark.parametrize("character", ["v", "\\", "\n", "\x7f", "\u2028", "\U000e0001", "\ud83d"])
def test_no_line_is_split_by_a_container_runtime(lines, character):
    """With as many values as a typical line, a traceback too, of any type."""
    try:
        raise ValueError(character * 99_999)
    except ValueError:
        values = {f"key{number}": character * 9_999 for number in range(4)}
        lines.ours.exception(character * 9_999, **values)
    found = lines.one()
    assert len(found) == 7
    for value in found.values():
        assert "more characters" in value or value == "error"


@pytest.mark.parametrize("category", ["Cc", "Cf", "Zl", "Zp", "Zs"])
def test_escapes_are_those_of_json(category, read_logfmt):
    """All characters of a category, in one logfmt value that is parsed as JSON."""
    line = Lines("logfmt", read_logfmt)
    text = "".join(c for c in map(chr, range(0x3000)) if unicodedata.category(c) == category)
    line.ours.info("m", pod=f"a {text}")
    assert line.one()["pod"] == f"a {text}"
