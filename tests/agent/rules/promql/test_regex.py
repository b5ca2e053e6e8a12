"""Regular expressions mean the same as in Prometheus, or are rejected."""

import pytest

from agent.rules.promql.errors import ExpressionError
from agent.rules.promql.regex import compiled


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", [""], ["a"]),
        ("a|b", ["a", "b"], ["ab", "c"]),
        ("eth[0-9]+", ["eth0", "eth10"], ["eth", "eth0\n"]),
        (".*", ["", "a b", "a\nb"], []),
        ("a.b", ["a\nb"], ["a\n\nb"]),
        ("(?-s).*", ["a b"], ["a\nb"]),
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
        (r"\pL+", ["aé"], ["1"]),
        (r"\p{Greek}", ["λ"], ["a"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        ("(?U)a+", ["aa"], [""]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(a+)+", ["aa"], ["b"]),
        ("(.*)", ["", "a", "a\nb"], []),
        ("(?<name>a)", ["a"], ["b"]),
    ],
)
def test_patterns_match_as_in_re2(pattern, matching, others):
    assert [text for text in matching + others if compiled(pattern).fullmatch(text)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        r"\C",
        "(?P<n>a)(?P<n>b)",
        r"[\pL\pN]{500}",
        "a" * 2001,
    ],
)
def test_unsupported_or_oversized_pattern_is_reported(pattern):
    with pytest.raises(ExpressionError) as raised:
        compiled(pattern)
    assert raised.value.reason == "unsupported"


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)",
        "(?!a)",
        r"(a)\1",
        r"\Z",
        "(?#comment)",
        "[[:nonsense:]]",
        "a)(b",
        "(.*",
        ".*)",
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
def test_invalid_pattern_is_reported(pattern):
    with pytest.raises(ExpressionError) as raised:
        compiled(pattern)
    assert raised.value.reason == "parse"


def test_matching_takes_linear_time():
    pattern = compiled(".*a.*a.*a.*a.*b")
    assert pattern.fullmatch("a" * 100_000) is None
    assert compiled("(a*)*b").fullmatch("a" * 100_000) is None


def test_patterns_beyond_the_cache_still_match():
    patterns = [compiled(f"[{n}]") for n in range(10)] + [
        compiled(f"x[0-9]{n}") for n in range(300)
    ]
    for _ in range(2):
        assert [n for n in range(10) if patterns[n].fullmatch(str(n))] == list(range(10))
        assert all(pattern.fullmatch(f"x1{n}") for n, pattern in enumerate(patterns[10:]))


@pytest.mark.parametrize("pattern", ["\udc80", "\ud800|a", "(\udc80", "[\udfff]"])
def test_pattern_that_is_not_utf8_is_rejected(pattern):
    with pytest.raises(ExpressionError, match="invalid UTF-8") as raised:
        compiled(pattern)
    assert raised.value.reason == "parse"
    assert str(raised.value).isprintable()


def test_bytes_that_are_not_utf8_match_as_the_replacement_character():
    assert compiled("eth[0-9].+").fullmatch("eth0\udcff")
    assert compiled("eth[0-9]\ufffd").fullmatch("eth0\udcff")
    assert not compiled("eth[0-9]+").fullmatch("eth0\udcff")
