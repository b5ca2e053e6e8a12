"""Patterns mean what they mean in Go."""

import time

import pytest

from plimsoll import re2


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


@pytest.mark.parametrize("pattern", [".*a.*a.*b", "(a|a)*b", "(a?a?)*b", "(a*)*b", "a+a+b"])
def test_no_pattern_backtracks_long(pattern):
    compiled = re2.compiled(pattern)
    begun = time.thread_time()
    for length in (250, 100_000):
        assert compiled.search("a" * length) is None
        assert compiled.fullmatch("a" * length) is None
    assert time.thread_time() - begun < 2


@pytest.mark.parametrize(
    ("pattern", "found", "others"),
    [
        ("a|ab", ["a", "ab"], ["abb", "xa"]),
        ("(?m)a$", ["a"], ["a\n", "a\nb"]),
        ("^eth$", ["eth"], ["eth\n"]),
        ("", [""], ["a"]),
        ("(a|ab)(c|bcd)?", ["a", "abcd"], ["abcde"]),
    ],
)
def test_a_whole_text_is_matched_as_in_go(pattern, found, others):
    compiled = re2.compiled(pattern)
    assert [text for text in found + others if compiled.fullmatch(text)] == found


def test_bytes_that_are_not_utf8_match_as_the_replacement_character():
    assert re2.compiled("^a\ufffd.$").search("a\udc80b")
    assert re2.compiled("a\ufffd").fullmatch("a\udc80")
