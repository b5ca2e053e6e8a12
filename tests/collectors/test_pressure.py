import errno
from pathlib import Path

import pytest

from collectors import pressure
from collectors.interface import host
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.pressure import Pressure, parse

PARSERS = {
    "pressure": lambda text: pressure.parse("memory", text),
}


LINE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"


def test_seconds_of_every_resource_are_exported(machine, values) -> None:
    assert values(Pressure(machine("xeon")).collect()) == {
        "node_pressure_cpu_waiting_seconds_total": 5512.003311,
        "node_pressure_io_waiting_seconds_total": 88.120034,
        "node_pressure_io_stalled_seconds_total": 70.031002,
        "node_pressure_memory_waiting_seconds_total": 1.25,
        "node_pressure_memory_stalled_seconds_total": 0.5,
        "node_pressure_irq_stalled_seconds_total": 3.3001,
    }


def test_kernels_before_5_13_have_no_full_line_for_the_cpu(values) -> None:
    assert values(parse("cpu", LINE)) == {"node_pressure_cpu_waiting_seconds_total": 1.5}


def test_kernels_before_6_1_have_no_irq(tmp_path: Path, values) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/cpu").write_text(LINE)
    found = values(Pressure(Host(procfs=tmp_path)).collect())
    assert found == {"node_pressure_cpu_waiting_seconds_total": 1.5}


def test_kernels_before_4_20_are_an_absent_source(machine) -> None:
    with pytest.raises(SourceAbsentError):
        list(Pressure(machine("vm2012")).collect())


def test_disabled_pressure_is_an_absent_source() -> None:
    assert errno.EOPNOTSUPP in host._ABSENT


@pytest.mark.parametrize(
    "text",
    [
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=\n",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=-3\n",
        "some avg10=0.00 avg60=0.00 avg300=0.00 tot",
        "some total=1\n",
        "somewhat\n",
    ],
)
def test_invalid_line_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="pressure/io"):
        list(parse("io", text))


def test_unknown_line_is_ignored(values) -> None:
    assert values(parse("cpu", LINE + "worst total=7\n")) == {
        "node_pressure_cpu_waiting_seconds_total": 1.5
    }
