"""Accepted and rejected input was compared with Go's expfmt; promtext's docstring lists the differences."""

import math

import pytest

from collectors.interface.sample import Sample
from collectors.textfile.formats.promtext import PromtextError, TextFamily, parse


def only(data: bytes) -> TextFamily:
    (family,) = parse(data)
    return family


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"foo 1", 1.0),
        (b"foo\t-2.5", -2.5),
        (b"  foo   3e2", 300.0),
        (b"foo .5", 0.5),
        (b"foo 5.", 5.0),
        (b"foo +Inf", math.inf),
        (b"foo -infinity", -math.inf),
        (b"foo 1e-999", 0.0),
        (b"foo{} 7", 7.0),
        (b'foo{a="b"}7', 7.0),
        (b'foo {a="b",} 7', 7.0),
        (b'foo{ a = "b" , c="d"\t} 7', 7.0),
        (b'foo{a="}{,= #"} 7', 7.0),
        (b'{"foo"} 7', 7.0),
        (b'{"foo","a"="b"} 7', 7.0),
        (b"foo-7", -7.0),
    ],
)
def test_sample_is_parsed(line: bytes, value: float) -> None:
    family = only(line + b"\n")
    assert family.name == "foo"
    assert family.type == "untyped"
    assert family.help is None
    assert [sample.value for sample in family.samples] == [value]


def test_nan_is_parsed() -> None:
    assert math.isnan(only(b"foo NaN\n").samples[0].value)


def test_labels_and_help_are_unescaped() -> None:
    family = only(b'# HELP foo one\\ntwo \\\\ three\nfoo{a="\\"\\\\\\n"} 1\n')
    assert family.help == "one\ntwo \\ three"
    assert family.samples[0].labels == (("a", '"\\\n'),)


def test_labels_are_sorted_and_completed_as_by_node_exporter() -> None:
    assert only(b'foo{b="1",a="2"} 1\nfoo{c="3"} 2\n').samples == (
        Sample("foo", (("a", "2"), ("b", "1"), ("c", "")), 1),
        Sample("foo", (("a", ""), ("b", ""), ("c", "3")), 2),
    )


def test_samples_of_a_family_need_not_be_adjacent() -> None:
    families = parse(b"foo 1\nbar 2\n" + b'foo{x="y"} 3\n')
    assert [(f.name, len(f.samples)) for f in families] == [("foo", 2), ("bar", 1)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"   ",
        b"\n \t\n",
        b"# just a comment\n",
        b"#\n",
        b"# HELP foo bar\n",
        b"# TYPE foo gauge\n",
        b"# EOF\n",
    ],
)
def test_file_may_have_no_samples(data: bytes) -> None:
    assert parse(data) == ()


@pytest.mark.parametrize(
    "comment", [b"#HELP foo text", b"\t#  HELP  foo\ttext", b'# HELP "foo" text']
)
def test_help_may_have_any_spacing(comment: bytes) -> None:
    assert only(comment + b"\nfoo 1\n").help == "text"


@pytest.mark.parametrize(
    "comment", [b"# HELP foo", b"# HELP foo ", b"# HELP", b"# help foo x", b"# HELPER foo x"]
)
def test_comment_without_help_has_no_help(comment: bytes) -> None:
    assert only(comment + b"\nfoo 1\n").help is None


@pytest.mark.parametrize("comment", [b"# caf\xe9", b"#\xff\xfe", b"# HELPER \xff", b"\t# \xff\r"])
def test_plain_comment_may_have_any_encoding(comment: bytes) -> None:
    assert only(comment + b"\nfoo 1\n").samples[0].value == 1


def test_backslashes_in_a_type_are_dropped_as_by_go() -> None:
    assert only(b"# TYPE foo gau\\ge\nfoo 1\n").type == "gauge"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"foo 1", "truncated"),
        (b"foo\xff 1\n", "encoding"),
        (b"foo 1 1441205977284\n", "timestamp"),
        (b"foo 1 -5\n", "timestamp"),
        (b"foo 1 1e3\n", "syntax"),
        (b'foo{__x="1"} 1\n', "label"),
        (b'foo{x="1",x="1"} 1\n', "label"),
        (b"foo 1\nfoo 1\n", "duplicate"),
        (b"# TYPE h histogram\nh 1\n", "histogram"),
        (b"foo 0x10\n", "syntax"),
        (b"foo 1_000\n", "syntax"),
        (b'foo 1 # {id="x"} 1\n', "syntax"),
        (b"foo 1\r\n", "syntax"),
        (b"\xef\xbb\xbffoo 1\n", "syntax"),
        (b"foo\0 1\n", "syntax"),
    ],
)
def test_every_rejection_has_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(PromtextError) as refused:
        parse(data)
    assert refused.value.reason == reason


def test_type_may_be_in_capitals_and_help_may_be_last() -> None:
    family = only(b"# TYPE foo GAUGE\nfoo 1\n# HELP foo late\n")
    assert (family.type, family.help) == ("gauge", "late")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"foo 1", "line 1: the file breaks off"),
        (b"foo 1\nbar 12", "line 2: the file breaks off"),
        (b"foo 1\n# comm", "line 2: the file breaks off"),
        (b"foo 1\n\0\0\0", "line 2: the file breaks off"),
        (b"foo 1\n\0\n", "line 2: not a sample"),
        (b"foo 1\r\n", "line 1: .*after the value"),
        (b"\r\n", "line 1: not a sample"),
        (b"\xef\xbb\xbffoo 1\n", "line 1: not a sample"),
        (b"foo 1 \n", "after the value"),
        (b"foo 1 1441205977284\n", "a timestamp"),
        (b'foo 1 # {trace="x"} 1\n', "after the value"),
        (b"foo\n", "not a sample"),
        (b"foo \n", "not a sample"),
        (b"1foo 1\n", "not a sample"),
        (b"foo-bar 1\n", "not a number"),
        (b"foo 1 1441205977284 5\n", "after the value"),
        (b"foo,1\n", "not a number"),
        (b"foo 1,5\n", "not a number"),
        (b"foo 1_000\n", "not a number"),
        (b"foo 0x10\n", "not a number"),
        (b"foo +nan\n", "not a number"),
        (b"foo 1e999\n", "out of range"),
        ("foo ٣\n".encode(), "not a number"),
        ("foo\N{NO-BREAK SPACE}1\n".encode(), "not a number"),
        (b"foo{,} 1\n", "not a sample"),
        (b'foo{a="b" 1\n', "not a sample"),
        (b'foo{a="b\n"} 1\n', "line 1: not a sample"),
        (b"foo{a=b} 1\n", "not a sample"),
        (b'foo{a="b"c="d"} 1\n', "not a sample"),
        (b'foo{a:b="c"} 1\n', "not a sample"),
        (b'foo{a="\\x"} 1\n', "not a sample"),
        (b'foo{a="1",a="2"} 1\n', "a label appears twice"),
        (b'foo{__name__="bar"} 1\n', "reserved"),
        (b'foo{__x="bar"} 1\n', "reserved"),
        (b'{a="b"} 1\n', "not a sample"),
        (b'{"foo.bar"} 1\n', "not a sample"),
        (b'foo{a="\xff"} 1\n', "byte 7: not UTF-8"),
        (b"# HELP foo \xff\nfoo 1\n", "not UTF-8"),
        (b"# TYPE foo \xff\nfoo 1\n", "not UTF-8"),
        (b"# caf\xe9\nfoo\xff 1\n", "not UTF-8"),
        (b"# HELP foo C:\\dir\nfoo 1\n", "invalid escape"),
        (b"# HELP 1foo x\nfoo 1\n", "no metric name"),
        (b"# HELP foo a\n# HELP foo a\nfoo 1\n", "second HELP"),
        (b"# TYPE foo gauge\n# TYPE foo gauge\nfoo 1\n", "second TYPE"),
        (b"foo 1\n# TYPE foo gauge\n", "TYPE after its samples"),
        (b"# TYPE foo gauge \nfoo 1\n", "unknown type"),
        (b"# TYPE foo unknown\nfoo 1\n", "unknown type"),
        (b"# TYPE foo gaugehistogram\nfoo 1\n", "unknown type"),
        (b"foo 1\nfoo 2\n", "a series appears twice"),
        (b'foo{a="b",c="d"} 1\nfoo{c="d",a="b"} 1\n', "a series appears twice"),
        (b'foo 1\nfoo{a=""} 2\n', "a series appears twice"),
    ],
)
def test_invalid_file_is_rejected_whole(data: bytes, reason: str) -> None:
    with pytest.raises(PromtextError, match=reason):
        parse(data)


HISTOGRAM = b"""# TYPE h histogram
h_bucket{le="10"} 3
h_bucket{le="0.50"} 1
h_sum 12.5
h_count 4
"""


def test_histogram_is_sorted_and_gets_its_last_bucket() -> None:
    assert only(HISTOGRAM).samples == (
        Sample("h_bucket", (("le", "0.5"),), 1),
        Sample("h_bucket", (("le", "10"),), 3),
        Sample("h_bucket", (("le", "+Inf"),), 4),
        Sample("h_sum", (), 12.5),
        Sample("h_count", (), 4),
    )


def test_histogram_without_a_count_has_that_of_its_last_bucket() -> None:
    family = only(b'# TYPE h histogram\nh_bucket{le="+Inf"} 4\n')
    assert family.samples[-1] == Sample("h_count", (), 4)


def test_summary_parts_are_grouped_by_label() -> None:
    family = only(
        b"# TYPE s summary\n"
        b's{quantile="0.9",x="1"} 2\ns_count{x="2"} 8\ns{x="1",quantile="0.5"} 1\ns_sum{x="1"} 3\n'
    )
    assert family.samples == (
        Sample("s", (("x", "1"), ("quantile", "0.5")), 1),
        Sample("s", (("x", "1"), ("quantile", "0.9")), 2),
        Sample("s_sum", (("x", "1"),), 3),
        Sample("s_count", (("x", "2"),), 8),
    )


def test_sum_without_a_summary_is_an_ordinary_metric() -> None:
    assert [family.name for family in parse(b"s_sum 1\ns_count 2\n")] == ["s_sum", "s_count"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"# TYPE h histogram\nh 1\n", "no part of it"),
        (b"# TYPE h histogram\nh_bucket 1\nh_count 1\n", "label le missing"),
        (b'# TYPE h histogram\nh_bucket{le="x"} 1\nh_count 1\n', "not a number"),
        (b'# TYPE h histogram\nh_count{le="1"} 1\n', "misplaced"),
        (b'# TYPE h histogram\nh_bucket{le="1"} 1\nh_sum 1\n', "without _count"),
        (b'# TYPE h histogram\nh_bucket{le="1"} 1\nh_bucket{le="1.0"} 1\nh_count 1\n', "twice"),
        (b"# TYPE h histogram\nh_count 1\nh_count 1\n", "twice"),
        (b"# TYPE s summary\ns 1\n", "label quantile missing"),
        (
            b's_count 1\n# TYPE s summary\ns{quantile="0.5"} 1\ns_count 2\n',
            "a series appears twice",
        ),
    ],
)
def test_orphaned_part_of_a_histogram_or_summary_is_rejected(lines: bytes, reason: str) -> None:
    with pytest.raises(PromtextError, match=reason):
        parse(lines)
