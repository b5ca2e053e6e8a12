"""Patterns mean what they mean in Go, whichever engine matches them."""

import inspect
import re
import subprocess
import sys
import time

import pytest
import re2 as google
from hypothesis import example, given
from hypothesis import strategies as st

from collectors.registry import COLLECTORS, registered
from plimsoll import flags, re2
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    ("pattern", "found", "others"),
    [
        ("^ifb[[:digit:]]+$", ["ifb0", "ifb12"], ["ifb", "ifb:", "ifb0\n"]),
        (r"\pN", ["eth1", "\u0661"], ["eth"]),
        (r"^eth\z", ["eth"], ["eth\n", "eth0"]),
        (r"^\Qa.b\E$", ["a.b"], ["axb"]),
        ("(?i)^ETH", ["eth0", "ETH0"], ["veth"]),
        ("a(?i)b", ["aB"], ["AB"]),
        ("^lo$", ["lo"], ["lo\n", "glow"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        (".+", ["a"], ["", "\n"]),
        (r"(?<unit>\w+)\.service", ["a.service"], [".service"]),
    ],
)
def test_a_pattern_is_searched_as_in_go(pattern, found, others):
    compiled = re2.compiled(pattern)
    assert [text for text in found + others if compiled.search(text)] == found


def test_groups_are_read_by_number_and_name():
    match = re2.compiled(r"task (?P<task>\S+):(\d+) blocked").search(
        "INFO: task kworker:42 blocked"
    )
    assert (match["task"], match[2]) == ("kworker", "42")


@pytest.mark.parametrize("pattern", ["(?=a)", r"(a)\1", "[z-a]", "(", "a)(b", "*", "\udc80"])
def test_an_invalid_pattern_is_named(pattern):
    with pytest.raises(re2.PatternError, match="invalid regular expression") as raised:
        re2.compiled(pattern)
    assert str(raised.value).isprintable()
    assert not raised.value.unsupported


@pytest.mark.parametrize("pattern", ["a" * 8193, r"[\pL\pN]{900}", r"\C", "(?P<n>a)(?P<n>b)"])
def test_what_is_valid_in_go_only_is_unsupported(pattern):
    with pytest.raises(re2.PatternError) as raised:
        re2.compiled(pattern, most_bytes=256 << 10)
    assert raised.value.unsupported


PIECES = [*"ab0.-_/", r"\.", r"\d", r"\w", ".", "[a-c]", "[^ab]", "[0-9]", "(", "(?:", ")", "|"]
PIECES += ["^", "$", "*", "+", "?", "{2}", "{0,2}", "[a-]", "[z-a]", "eth"]


@given(
    st.lists(st.sampled_from(PIECES), max_size=9).map("".join),
    st.text("ab0.-\n_\u0661é", max_size=12),
)
@example("a$", "a\n")
@example("[^ab]", "\n")
def test_both_engines_agree(pattern, text):
    for whole in (False, True):
        if (same := re2.in_python(pattern, whole=whole)) is None:
            continue
        ours, program = (
            re.compile(same, re.ASCII),
            google.compile(f"^(?:{pattern})$" if whole else pattern),
        )
        found = ours.fullmatch(text) if whole else ours.search(text)
        assert (found is None) == (program.search(text) is None)


@pytest.mark.parametrize("pattern", [".*a.*a.*b", "(a|a)*b", "(a?a?)*b", "(a*)*b", "a+a+b"])
def test_no_pattern_backtracks_long(pattern):
    compiled = re2.compiled(pattern)
    begun = time.thread_time()
    for length in (250, 100_000):
        assert compiled.search("a" * length) is None
        assert compiled.fullmatch("a" * length) is None
    assert time.thread_time() - begun < 2


def test_nested_groups_need_no_stack():
    pattern = "(" * 900 + "a" + ")" * 900
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(inspect.stack()) + 120)
        assert re2.compiled(pattern, whole=True).fullmatch("a")
    finally:
        sys.setrecursionlimit(limit)


def test_patterns_of_default_flags_do_not_load_re2():
    """The library takes 3 MB on each node."""
    patterns = [
        field.default
        for name in COLLECTORS
        for field, option in flags.options(registered.load(name).options)
        if option.parse.__name__ == "regexp"
    ]
    assert len(patterns) > 20
    program = (
        "import sys; from plimsoll import re2\n"
        "for pattern in sys.argv[1:]: re2.compiled(pattern).search('eth0')\n"
        "assert 're2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, *patterns], check=True, timeout=PATIENCE)
