import math
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from agent.scrape.exposition import (
    OPENMETRICS,
    TEXT,
    accepts_gzip,
    encode_openmetrics,
    encode_text,
    negotiate,
)
from collectors.interface.sample import Family, Sample
from collectors.textfile.formats import promtext

HISTOGRAM = Family(
    "h",
    "histogram",
    "Help.",
    (
        Sample("h_bucket", (("le", "1"),), 2),
        Sample("h_bucket", (("le", "+Inf"),), 3),
        Sample("h_sum", (), 4.5),
        Sample("h_count", (), 3),
    ),
)
SUMMARY = Family(
    "s", "summary", "Help.", (Sample("s", (("quantile", "0.5"),), 1), Sample("s_count", (), 3))
)


def family(name="x", kind="gauge", help_="Help.", labels=(), value=1.0) -> Family:
    return Family(name, kind, help_, (Sample(name, tuple(labels), value),))


def test_text_equals_that_of_go() -> None:
    odd = family("x_total", "counter", 'a\\b\n"c"', (("l", 'a\\b\n"c"'),), 1234567.0)
    assert encode_text([odd]).decode() == (
        '# HELP x_total a\\\\b\\n"c"\n'
        "# TYPE x_total counter\n"
        'x_total{l="a\\\\b\\n\\"c\\""} 1.234567e+06\n'
    )


def test_histogram_labels_are_unchanged_in_text() -> None:
    assert 'h_bucket{le="1"} 2\n' in encode_text([HISTOGRAM]).decode()


def test_openmetrics_has_its_own_counter_names_and_types() -> None:
    families = [
        family("a_total", "counter", 'say "hi"'),
        family("b", "counter"),
        family("c", "untyped", value=math.inf),
        family("d", "gauge", value=-2e9),
    ]
    assert encode_openmetrics(families).decode() == (
        '# HELP a say \\"hi\\"\n# TYPE a counter\na_total 1.0\n'
        "# HELP b Help.\n# TYPE b counter\nb_total 1.0\n"
        "# HELP c Help.\n# TYPE c unknown\nc +Inf\n"
        "# HELP d Help.\n# TYPE d gauge\nd -2e+09\n"
        "# EOF\n"
    )


def test_openmetrics_writes_bounds_and_quantiles_as_floats() -> None:
    text = encode_openmetrics([HISTOGRAM, SUMMARY]).decode()
    assert 'h_bucket{le="1.0"} 2.0\n' in text
    assert 'h_bucket{le="+Inf"} 3.0\n' in text
    assert 's{quantile="0.5"} 1.0\n' in text


@pytest.mark.parametrize(
    "change",
    [{"value": 2.0}, {"labels": [("a", "b")]}, {"help_": "Other."}, {"kind": "untyped"}],
    ids=str,
)
@pytest.mark.parametrize("encode", [encode_text, encode_openmetrics])
def test_changed_family_is_written_anew(encode, change) -> None:
    before, after = family("changing"), family("changing", **change)
    texts = [encode([one]) for one in (before, after, before, before)]
    assert texts[0] == texts[2] == texts[3] != texts[1]


def test_family_without_samples_is_omitted() -> None:
    assert encode_text([Family("x", "gauge", "Help.", ())]) == b""
    assert encode_openmetrics([Family("x", "gauge", "Help.", ())]) == b"# EOF\n"


NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}[a-z]", fullmatch=True).filter(
    lambda name: not name.endswith(("_total", "_created", "_info", "_sum", "_count", "_bucket"))
)
LABEL_NAMES = st.sampled_from(["a", "device", "mode", "x_y"])
CONTENT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LABELS = st.dictionaries(LABEL_NAMES, CONTENT, max_size=3).map(lambda d: tuple(sorted(d.items())))
# Line ends other than \n and trailing blanks are limitations of this parser, not of the format.
PLAIN = CONTENT.filter(lambda text: text.isprintable() and text == text.strip())


@given(NAMES, LABELS, st.floats(), CONTENT)
def test_any_output_is_parsed_strictly(name, labels, value, help_) -> None:
    (found,) = promtext.parse(encode_text([family(name, "gauge", help_, labels, value)]))
    assert found.help == (help_.lstrip(" \t") or None)
    assert found.samples[0].labels == labels
    assert found.samples[0].value == value or math.isnan(value)


@given(NAMES, st.dictionaries(LABEL_NAMES, PLAIN, max_size=3), st.floats())
def test_both_formats_are_parsed_by_the_client_library(name, labels, value) -> None:
    written = [family(name, "gauge", "Help.", tuple(labels.items()), value)]
    for parse, encode in ((parse_text, encode_text), (parse_openmetrics, encode_openmetrics)):
        ((sample,),) = (f.samples for f in parse(encode(written).decode()))
        assert sample.name == name
        assert sample.labels == labels
        assert sample.value == value or math.isnan(value)


def test_histograms_and_summaries_are_parsed_by_the_client_library() -> None:
    for parse, encode in ((parse_text, encode_text), (parse_openmetrics, encode_openmetrics)):
        found = {f.name: f for f in parse(encode([HISTOGRAM, SUMMARY]).decode())}
        assert found["h"].type == "histogram"
        assert [s.value for s in found["h"].samples] == [2, 3, 4.5, 3]
        assert found["s"].type == "summary"


@pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool (Debian: prometheus) is not installed"
)
def test_promtool_has_no_complaint() -> None:
    text = encode_text([family("node_load1"), family("node_x_total", "counter"), HISTOGRAM])
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, b"")


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("text/plain", TEXT),
        (PROMETHEUS, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ('application/openmetrics-text; version="1.0.0"; charset=utf-8', OPENMETRICS),
        ("Application/OpenMetrics-Text;Version=0.0.1", OPENMETRICS),
        ("application/openmetrics-text;version=2.0.0", TEXT),
        ("application/openmetrics-text;q=0.1,text/plain;q=0.9", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=high", TEXT),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily", TEXT),
        (";;,,q=1,/", TEXT),
    ],
)
def test_client_chooses_the_format(accept: str, wanted: object) -> None:
    assert negotiate(accept) is wanted


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("*", True),
        ("*;q=0, gzip", True),
        ("", False),
        ("identity", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
    ],
)
def test_compression_only_where_accepted(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
