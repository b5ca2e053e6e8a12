"""Strict YAML, as text and with the types of JSON; errors quote no value."""

import json
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
def test_error_has_position_and_reason_but_no_value(text, says):
    with pytest.raises(strictyaml.MalformedError, match=says) as caught:
        strictyaml.load(text)
    assert SECRET[:6] not in str(caught.value)
    assert str(caught.value).isprintable()


def test_json_types_and_dates_as_text():
    text = "a: 1\nb: [yes, 2026-11-20, 1.5, null]\n5: {d: 2026-11-20T10:00:00Z}\n"
    expected = {"a": 1, "b": [True, "2026-11-20", 1.5, None], "5": {"d": "2026-11-20T10:00:00Z"}}
    assert strictyaml.load_json(text) == strictyaml.load_json(text.encode()) == expected
    assert list(strictyaml.load_all_json(f"{text}---\n---\nc")) == [expected, None, "c"]
    assert strictyaml.load_json("a: &a {x: 1}\nb: {<<: *a, z: 2}")["b"] == {"x": 1, "z": 2}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "line 2, column 1: a appears twice"),
        ("a: .nan", "it has a value that JSON cannot represent"),
        ("a: !!int ''", "it has a value that JSON cannot represent"),
        ("a: !!timestamp 2026-11-20", "it has a value that JSON cannot represent"),
        ("&a [*a]", "it has a value that JSON cannot represent"),
        ("!!python/object:os.system {}", "line 1, column 1: could not determine a constructor"),
        (f"a: 1{'0' * 400}", "line 1, column 4: a number of too many digits"),
        ("[" * 5_000, "nested too deeply"),
    ],
)
def test_json_values_only(text, says):
    with pytest.raises(strictyaml.MalformedError, match=says):
        strictyaml.load_json(text)
    with pytest.raises(strictyaml.MalformedError, match=says):
        list(strictyaml.load_all_json(text))


@pytest.mark.parametrize("load", [strictyaml.load, strictyaml.load_json])
def test_aliases_of_aliases_are_bounded(load):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]
    with pytest.raises(strictyaml.MalformedError, match="its aliases repeat too much"):
        load("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("0o17", 15),
        ("-0o17", -15),
        ("017", 15),
        ("08", 8),
        ("0o8", "0o8"),
        ("0b11", 3),
        ("0x_1F", 31),
        ("1_000", 1000),
        ("-_4", -4),
        ("+__0x1F", 31),
        ("-_._5", -0.5),
        ("1e3", 1000),
        ("5.", 5),
        (".5", 0.5),
        ("1e999", "1e999"),
        ("18446744073709551616", 2.0**64),
        ("y", True),
        ("N", False),
        ("Off", False),
        ("yEs", "yEs"),
        ("~", None),
        ("", None),
        ("2026-11-20", "2026-11-20"),
        ("'017'", "017"),
    ],
)
def test_plain_scalars_are_read_as_kubectl_reads_them(text, value):
    found = strictyaml.load_json(f"a: {text}")["a"]
    assert (found, isinstance(found, bool)) == (value, isinstance(value, bool))


NUMBERS = st.text("0123456789_.eExXoObB-+:yYnN~", min_size=1, max_size=8).filter(
    lambda text: not text.endswith(":") and text not in ("-", "---", "...")
)


@given(st.lists(NUMBERS, min_size=200, max_size=400))
@settings(max_examples=5, deadline=None)
def test_kubectl_reads_the_same(texts):
    if not shutil.which("kubectl"):
        pytest.skip("no kubectl on PATH")
    head = "apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec:\n"
    text = head + "".join(f"  k{number}: {value}\n" for number, value in enumerate(texts))
    command = ["kubectl", "annotate", "--local", "--filename=-", "a=b", "--output=json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    theirs, ours = json.loads(done.stdout)["spec"], strictyaml.load_json(text)["spec"]
    assert {key: _json(value) for key, value in ours.items()} == {
        key: _json(value) for key, value in theirs.items()
    }


def _json(value):
    """A number as a double, which JSON has; a bool is not a number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else repr(value)


def test_documents_before_an_error_are_yielded():
    documents = strictyaml.load_all_json("a: 1\n---\nb: [")
    assert next(documents) == {"a": 1}
    with pytest.raises(strictyaml.MalformedError):
        next(documents)
