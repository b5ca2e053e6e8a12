from pathlib import Path

import pytest

from collectors import softirqs
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.softirqs import SoftIrqs, parse

PARSERS = {
    "softirqs": softirqs.parse,
}

SAMPLES = {
    "softirqs": ("proc/softirqs", softirqs.parse),
}


def test_counts_are_by_kind_and_cpu(machine, values) -> None:
    found = values(SoftIrqs(machine("xeon")).collect())
    assert len(found) == 10 * 4
    assert found['node_softirqs_functions_total{cpu="1",type="NET_TX"}'] == 9
    assert found['node_softirqs_functions_total{cpu="3",type="RCU"}'] == 5413978
    assert found['node_softirqs_functions_total{cpu="0",type="IRQ_POLL"}'] == 0


def test_name_of_polling_in_an_older_kernel_is_accepted(values) -> None:
    found = values(parse("  CPU0\nBLOCK_IOPOLL: 3\n"))
    assert found == {'node_softirqs_functions_total{cpu="0",type="BLOCK_IOPOLL"}': 3}


def test_missing_file_is_an_absent_source(tmp_path: Path) -> None:
    with pytest.raises(SourceAbsentError):
        list(SoftIrqs(Host(procfs=tmp_path)).collect())


@pytest.mark.parametrize(
    "text", ["", "CPU0\n", "HI: 1\n", "CPU0 CPU1\nHI: 1\n", "CPU0\nHI: 1 2\n", "CPU0\nHI: x\n"]
)
def test_invalid_softirq_table_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="softirqs"):
        list(parse(text))
