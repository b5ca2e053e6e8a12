"""Regular expressions mean what they mean to Prometheus, or are refused."""

import pytest

from agent.rules.patterns import compiled
from agent.rules.refusals import ExpressionError


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", [""], ["a"]),
        ("a|b", ["a", "b"], ["ab", "c"]),
        ("eth[0-9]+", ["eth0", "eth10"], ["eth", "eth0\n"]),
        (".*", ["", "a b"], ["a\nb"]),
        ("(?s).*", ["a\nb"], []),
        ("(?i)eth|ens", ["ETH", "Ens"], ["x"]),
        ("((?i)a)b", ["Ab"], ["AB"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("a$", ["a"], ["a\n"]),
        ("^a", ["a"], ["ba"]),
        (r"\Aa\z", ["a"], ["a\n"]),
        (r"\d\w\s", ["1_ "], ["\u0661_ ", "1\u00e9 ", "1_\u00a0", "1_\v"]),
        (r"\D\W\S", ["\u0661\u00e9\v"], ["1a "]),
        (r"(?i)\W", ["-"], ["k", "S"]),
        (r"[\d\-x]+", ["1-x"], ["y"]),
        (r"[^\D]", ["1"], ["a"]),
        (r"a\b.c", ["a c"], ["abc"]),
        ("[[:alpha:]]+", ["aB"], ["1", "\u00e9", "["]),
        ("[^[:digit:]_]", ["a"], ["1", "_"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-c-]", ["b", "-"], ["d"]),
        ("[[a&&b]+", ["[", "&", "a&b"], ["c"]),
        (r"\x41\x{42}\.", ["AB."], ["ABc"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["aab"]),
        ("a{2}", ["aa"], ["a"]),
        ("a{1,}b{0,1}", ["aab", "a"], ["b"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("a{", ["a{"], ["a"]),
        ("(?P<name>a)b??", ["a", "ab"], [""]),
        (r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}", ["10.0.0.1"], ["10.0.1"]),
        ("(a|b)?", ["", "a"], ["ab"]),
    ],
)
def test_patterns_match_as_in_re2(pattern, matching, others):
    assert [text for text in matching + others if compiled(pattern).fullmatch(text)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?<name>a)",
        r"(a)\1",
        r"\pL",
        r"\p{Greek}",
        r"\C",
        r"\Z",
        "(?U)a",
        "(?m)^a$",
        r"(?i)[\W]",
        "a(?i)b|c",
        "(?#comment)",
        "[[:nonsense:]]",
        "(a+)+",
        "(a|b)*",
        "((a?){5}){9}",
        "(?:a*b)+",
        "a" * 2001,
    ],
)
def test_what_would_mean_something_else_or_take_for_ever_is_unsupported(pattern):
    with pytest.raises(ExpressionError) as raised:
        compiled(pattern)
    assert raised.value.reason == "unsupported"


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "*",
        "a**",
        "a++",
        "a*+",
        "|*",
        "a{2}{3}",
        "a{1001}",
        r"\Qa",
        "[b-a]",
        "\\",
    ],
)
def test_what_is_no_pattern_is_said_to_be_none(pattern):
    with pytest.raises(ExpressionError) as raised:
        compiled(pattern)
    assert raised.value.reason == "parse"
