import pytest

from collectors import softnet
from collectors.interface.sample import CollectorError
from collectors.softnet import Softnet, parse

PARSERS = {
    "softnet": softnet.parse,
}


NINE = "00000010 00000001 00000002 0 0 0 0 0 00000003"


def test_every_column_of_a_kernel_with_cpu_numbers_is_exported(machine, values) -> None:
    found = values(Softnet(machine("xeon")).collect())
    assert found['node_softnet_processed_total{cpu="0"}'] == 0x1F2E3D4C
    assert found['node_softnet_dropped_total{cpu="0"}'] == 3
    assert found['node_softnet_times_squeezed_total{cpu="1"}'] == 0x22
    assert found['node_softnet_cpu_collision_total{cpu="3"}'] == 1
    assert found['node_softnet_received_rps_total{cpu="0"}'] == 4096
    assert found['node_softnet_flow_limit_count_total{cpu="0"}'] == 5
    assert found['node_softnet_backlog_len{cpu="0"}'] == 2
    assert len(found) == 7 * 3, "CPU 2 is offline"


@pytest.mark.parametrize(
    ("columns", "families"), [(0, 4), (1, 5), (2, 6)], ids=["2.6.24", "2.6.36", "3.11"]
)
def test_columns_missing_in_older_kernels_are_absent(columns: int, families: int, values) -> None:
    found = values(parse(f"{NINE}{' 00000007' * columns}\n"))
    assert len(found) == families
    assert found['node_softnet_cpu_collision_total{cpu="0"}'] == 3


def test_old_machine_is_supported(machine, values) -> None:
    assert values(Softnet(machine("vm2012")).collect()) == {
        'node_softnet_processed_total{cpu="0"}': 4096,
        'node_softnet_processed_total{cpu="1"}': 8192,
        'node_softnet_dropped_total{cpu="0"}': 1,
        'node_softnet_dropped_total{cpu="1"}': 0,
        'node_softnet_times_squeezed_total{cpu="0"}': 2,
        'node_softnet_times_squeezed_total{cpu="1"}': 0,
        'node_softnet_cpu_collision_total{cpu="0"}': 3,
        'node_softnet_cpu_collision_total{cpu="1"}': 0,
    }


def test_cut_line_of_one_cpu_costs_only_its_cpu(values) -> None:
    found = values(parse(f"00000010 0000\n{NINE}\n"))
    assert found['node_softnet_processed_total{cpu="1"}'] == 0x10
    assert len(found) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "00000010 00000001\n",
        f"{NINE.replace('00000002', 'squeezed')}\n",
    ],
)
def test_invalid_softnet_stat_is_rejected(text: str) -> None:
    with pytest.raises(CollectorError, match="softnet_stat"):
        list(parse(text))
