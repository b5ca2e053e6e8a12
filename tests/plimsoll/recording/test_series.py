"""One grammar for the series of recordings, whichever program reads them."""

import io

import pytest

from agent.rules.promql.labels import make
from agent.rules.storage import exposition
from lab.backtest.inputs.openmetrics import OpenMetricsError, SeriesTable
from plimsoll.recording import series

SERIES = {
    "load1": ("load1", {}),
    "load1{}": ("load1", {}),
    'load1{node="a",}': ("load1", {"node": "a"}),
    'load1{ node = "a" , x="b c"}': ("load1", {"node": "a", "x": "b c"}),
    'load1{node="a}b,c=\\"d\\"\\n"}': ("load1", {"node": 'a}b,c="d"\n'}),
    r'load1{path="C:\d\\n"}': ("load1", {"path": r"C:\d\n"}),
    r'{"m\"",x="y"}': ('m"', {"x": "y"}),
    '{"m.with.dots","l.x"="y"}': ("m.with.dots", {"l.x": "y"}),
    'load1{__name__="other",node="a"}': ("load1", {"node": "a"}),
}


def dumped(text):
    table = SeriesTable(lambda _name: True)
    table.read("file", io.BytesIO(f"{text} 1 2\n".encode()))
    (found,) = table.series
    return found.name, found.labels


@pytest.mark.parametrize(("text", "expected"), SERIES.items())
def test_both_programs_read_the_same_series(text, expected):
    name, labels = expected
    assert series.parse(text) == dumped(text) == expected
    ((found, _, _),) = exposition.parse(f"{text} 1 2\n").samples
    assert found == make({"__name__": name, **labels}.items())


@pytest.mark.parametrize("text", ["load1{node=a}", "load1{node='a'}", '{"x"="y"}', "{}", "<html>"])
def test_series_that_is_none_is_refused_by_both(text):
    with pytest.raises(ValueError, match=r"^(not a series|not labels|a sample without a name)"):
        series.parse(text)
    with pytest.raises(OpenMetricsError, match="file: line 1 is not a sample"):
        dumped(text)
    with pytest.raises(exposition.ExpositionError, match="line 1: "):
        exposition.parse(f"{text} 1 2\n")
