import pytest

from collectors import loadavg
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.loadavg import LoadAvg, parse

PARSERS = {
    "loadavg": loadavg.parse,
}


def test_three_averages_are_exported(machine, values) -> None:
    found = values(LoadAvg(machine("xeon")).collect())
    assert found == {"node_load1": 3.42, "node_load5": 2.97, "node_load15": 1.05}


def test_missing_file_is_an_absent_source(tmp_path, machine) -> None:
    host = machine("xeon")
    with pytest.raises(SourceAbsentError, match="loadavg"):
        list(LoadAvg(type(host)(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text", ["", "\n", "0.21", "0.21 0.37", "a b c", "0.1 0.2 1/2 3", "0.1 0. 2 0.3 1/2 3"]
)
def test_invalid_loadavg_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="loadavg"):
        list(parse(text))
