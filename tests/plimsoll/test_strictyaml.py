"""YAML that is read as text alone; what is wrong with a text is said without showing it."""

import pytest

from plimsoll import strictyaml

SECRET = "hunter2-is-the-password"


def test_values_are_text_lists_and_mappings():
    found = strictyaml.load("a: 1\nb: [yes, 2026-11-20]\nc: {d: null}\n")
    assert found == {"a": "1", "b": ["yes", "2026-11-20"], "c": {"d": "null"}}
    assert strictyaml.load("") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "line 2, column 1: a appears twice"),
        (f"bob: '{SECRET}\n", "line 2, column 1: found unexpected end of stream"),
        (f"bob: {SECRET}: x: y\n", "line 1, column [0-9]+: mapping values are not allowed here"),
        (f"{{bob: {SECRET}\n", r"line 2, column 1: expected ',' or '}', but got '<stream end>'"),
        (f"bob: *{SECRET}\n", "line 1, column 6: found undefined alias"),
        (f"a: &{SECRET} 1\nb: &{SECRET} 2\n", "line 2, column 4: second occurrence"),
        (f"bob: !{SECRET}! x\n", "line 1, column 31: expected URI"),
        (f"bob: !hunter2!x {SECRET}\n", "line 1, column 6: found undefined tag handle ..."),
        (f"key: |\n{SECRET}\n", "line 3, column 1: could not find expected ':'"),
        (f"bob: {SECRET}\x01", "a character at position 28 that YAML does not allow"),
        (f"bob: @{SECRET}", "line 1, column 6: found character '@' that cannot start any token"),
        (f"%YAML {SECRET}\n---\na: b", "line 1, column 7: expected a digit"),
        ("[" * 5_000, "nested too deeply"),
        (f"a: {SECRET}\n---\nb: c", "line 2, column 1: but found another document"),
        (f"? [{SECRET}]\n: y", "line 1, column 3: found unhashable key"),
    ],
)
def test_what_is_wrong_is_said_without_showing_the_text(text, says):
    with pytest.raises(strictyaml.MalformedError, match=says) as caught:
        strictyaml.load(text)
    assert SECRET[:6] not in str(caught.value)
    assert str(caught.value).isprintable()
