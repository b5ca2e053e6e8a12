from contextlib import nullcontext

import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.qdisc import Options, QueueDisciplines, families, parse_fixture
from collectors.shared.routenetlink import Qdisc


class Kernel:
    """Two devices, as decoded by pyroute2."""

    def __call__(self) -> nullcontext["Kernel"]:
        return nullcontext(self)

    def get_qdiscs(self):
        statistics = {
            "attrs": [
                ("TCA_STATS_BASIC", {"bytes": 1000, "packets": 10}),
                ("TCA_STATS_QUEUE", {"qlen": 1, "backlog": 66, "drops": 3, "requeues": 4, "overlimits": 5}),
            ]
        }  # fmt: skip
        return [
            {"index": 1, "parent": 0xFFFFFFFF, "attrs": [("TCA_KIND", "fq"), ("TCA_STATS2", statistics)]}
        ]  # fmt: skip


def test_all_counters_of_a_qdisc_are_exported(machine, values) -> None:
    found = values(QueueDisciplines(machine("xeon"), Options(), connect=Kernel()).collect())
    assert found == {
        'node_qdisc_bytes_total{device="lo",kind="fq"}': 1000,
        'node_qdisc_packets_total{device="lo",kind="fq"}': 10,
        'node_qdisc_drops_total{device="lo",kind="fq"}': 3,
        'node_qdisc_requeues_total{device="lo",kind="fq"}': 4,
        'node_qdisc_overlimits_total{device="lo",kind="fq"}': 5,
        'node_qdisc_current_queue_length{device="lo",kind="fq"}': 1,
        'node_qdisc_backlog{device="lo",kind="fq"}': 66,
    }


def test_devices_can_be_excluded(machine, values) -> None:
    options = Options(qdisc_device_exclude="^lo$")
    assert values(QueueDisciplines(machine("xeon"), options, connect=Kernel()).collect()) == {}


def test_missing_counter_is_absent(values) -> None:
    qdisc = Qdisc("eth0", "noqueue", 5, None, None, None, None, None, None)
    assert values(families([qdisc])) == {'node_qdisc_bytes_total{device="eth0",kind="noqueue"}': 5}


def test_missing_library_is_an_absent_source(machine) -> None:
    def absent():
        raise SourceAbsentError("pyroute2 is not installed")

    with pytest.raises(SourceAbsentError, match="pyroute2"):
        list(QueueDisciplines(machine("xeon"), Options(), connect=absent).collect())


def test_fixture_replaces_the_kernel(machine, tmp_path, values) -> None:
    text = '[{"IfaceName": "wlan0", "Kind": "fq", "Bytes": 42, "Drops": 1, "Qlen": 5}]'
    (tmp_path / "results.json").write_text(text)
    options = Options(qdisc_fixtures=str(tmp_path))
    found = values(QueueDisciplines(machine("xeon"), options).collect())
    assert found['node_qdisc_bytes_total{device="wlan0",kind="fq"}'] == 42
    assert found['node_qdisc_current_queue_length{device="wlan0",kind="fq"}'] == 5
    assert found['node_qdisc_backlog{device="wlan0",kind="fq"}'] == 0


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a": 1}',
        "[1]",
        '[{"Kind": "fq"}]',
        '[{"IfaceName": "a", "Kind": "fq", "Bytes": 1e999}]',
    ],
)
def test_damaged_fixture_is_an_error(text: str) -> None:
    with pytest.raises(CollectorError, match=r"results\.json"):
        parse_fixture(text)
